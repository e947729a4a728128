"""Optimisers for a training loop of your own, one agent per process: the same algorithms as `torch.optim.Optimizer`s.

    with crossgrad.process_group() as group:
        opt = crossgrad.optim.CGA(model, graph=crossgrad.ring(group.processes), lr=0.01, momentum=0.9)
        for inputs, labels in group.in_step(loader):
            def closure():
                opt.zero_grad()
                loss = cross_entropy(model(inputs), labels)
                loss.backward()
                return loss
            opt.step(closure)

The closure is called once for the own gradient and, by algorithms with cross-gradients, once more for every
neighbour, with that neighbour's model in place of one's own. Between organisations, `with crossgrad.site(...)` takes
the place of `process_group()`.
"""

import dataclasses
import inspect
from collections.abc import Callable
from typing import Any

from torch import nn

from crossgrad import algorithms
from crossgrad.graphs import AnyGraph
from crossgrad.optim.decentralised import Decentralised

IN_A_LOOP = {  # what `fit` has an option for, and a loop of one's own does itself
    "autocast": "write `with torch.autocast('cpu', torch.bfloat16)` around the model and the loss in the closure",
    "micro_batch": "call backward() several times in the closure",
    "lr_scheduler": "make a torch.optim.lr_scheduler of the optimiser",
    "schedule": "make a torch.optim.lr_scheduler of the optimiser",
    "augment": "change the inputs before the closure is made, so that neighbours' models see the same batch",
    "loss": "compute it in the closure",
    "task": "compute its loss in the closure",
    "validation": "evaluate the model in the loop, and keep the best state dict",
    "patience": "evaluate the model in the loop, and leave it in all processes after the same step",
    "metrics": "evaluate the model in the loop",
    "callbacks": "call them in the loop",
    "on_step": "call it in the loop",
    "on_record": "call it in the loop",
    "dtype": "convert the model before the optimiser is made",
    "device": "move the model before the optimiser is made",
}


def _plain_name(name: str) -> str:
    """A name without case, hyphens and underscores.

    >>> _plain_name("comp_cga") == _plain_name("CompCGA") == _plain_name("compcga")
    True
    """
    return "".join(letter for letter in name.lower() if letter.isalnum())


def _factories() -> dict[str, Callable[..., Any]]:
    """What makes each registered algorithm, under its registered name and under that of its class or function."""
    named = {_plain_name(name): make for name, make in algorithms.ALGORITHMS.items()}
    return named | {_plain_name(make.__name__): make for make in algorithms.ALGORITHMS.values()}


def __getattr__(name: str) -> Any:
    """Every registered algorithm as an optimiser: `optim.CGA(model, graph=graph, lr=0.01, momentum=0.9)`."""
    make = None if name.startswith("_") else _factories().get(_plain_name(name))
    if make is None:
        raise AttributeError(f"module 'crossgrad.optim' has no attribute {name!r}")
    options = inspect.signature(Decentralised).parameters.keys() - {"model", "algorithm", "graph"}

    def optimiser(model: nn.Module, *, graph: AnyGraph, **given: Any) -> Decentralised:
        own = {key: value for key, value in given.items() if key in options}
        base = make()
        try:
            algorithm = dataclasses.replace(base, **{key: given[key] for key in given.keys() - own.keys()})
        except TypeError:
            valid = sorted({*options, *(f.name for f in dataclasses.fields(base))})
            wrong = sorted(given.keys() - set(valid))
            how = "".join(f" {option}: {IN_A_LOOP[option]}." for option in wrong if option in IN_A_LOOP)
            raise TypeError(
                f"{name} takes other options; found {', '.join(wrong)}.{how} Valid are: {', '.join(valid)}."
            ) from None
        return Decentralised(model, algorithm, graph=graph, **own)

    optimiser.__name__ = optimiser.__qualname__ = name
    optimiser.__doc__ = f"{make.__doc__}\n\n    As an optimiser of this process's agent: see `Decentralised`."
    return optimiser


def __dir__() -> list[str]:
    return sorted(["Decentralised", *(make.__name__ for make in algorithms.ALGORITHMS.values())])
