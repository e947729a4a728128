"""Parameters that are not trained, by name."""

from collections.abc import Sequence

from torch import nn

from crossgrad.models.patterns import matching


def freeze_(module: nn.Module, patterns: Sequence[str]) -> None:
    """Freeze the parameters that match one of the patterns, names of parameters or modules with * and ?.

    Raises:
        ValueError: a pattern matches no parameter.

    >>> model = nn.ModuleDict({"body": nn.Linear(2, 2), "head": nn.Linear(2, 1)})
    >>> freeze_(model, ["body"])
    >>> [name for name, p in model.named_parameters() if p.requires_grad]
    ['head.weight', 'head.bias']
    """
    parameters = dict(module.named_parameters())
    for name in matching(list(parameters), patterns, "frozen", "parameters or modules"):
        parameters[name].requires_grad_(False)
