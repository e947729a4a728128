"""Which parameters and buffers of a module stay with their agent, by name."""

from collections.abc import Sequence

from torch import nn

from crossgrad.models.patterns import matching


def personal_names(module: nn.Module, patterns: Sequence[str]) -> set[str]:
    """The names of trainable parameters and of buffers that match one of the patterns.

    A pattern is a name, with * and ? as on the command line, of a parameter, a buffer or a module that holds some:
    "head", "head.weight", "*norm*".

    Raises:
        ValueError: a pattern matches nothing, or nothing is left that agents could share.

    >>> model = nn.ModuleDict({"body": nn.Linear(2, 2), "head": nn.Linear(2, 1)})
    >>> sorted(personal_names(model, ["head"]))
    ['head.bias', 'head.weight']
    """
    trainable = [name for name, p in module.named_parameters() if p.requires_grad]
    names = [*trainable, *(name for name, _ in module.named_buffers())]
    found = matching(names, patterns, "personal", "parameters or buffers")
    if found.issuperset(trainable):
        raise ValueError(
            f"agents must share some trainable parameters; personal = {list(patterns)} names all {len(trainable)}. "
            "Name fewer."
        )
    return found
