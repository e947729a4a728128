"""Algorithms, models, data sets and other things of one's own, under names that experiment files can use.

Three ways to add them: `crossgrad.register` in Python, the same call in a file that `--plugin FILE.py` names, and entry
points of an installed package (group `crossgrad.KIND`). An experiment file runs no code: it only names what is there.
"""

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar, overload

from crossgrad._registry.files import load_plugin
from crossgrad._registry.origin import Origin, loading
from crossgrad._registry.registry import Registry
from crossgrad._training.callbacks import CALLBACKS
from crossgrad._training.schedule import SCHEDULES
from crossgrad.algorithms import AGGREGATIONS, ALGORITHMS, RULES
from crossgrad.codecs import CODECS
from crossgrad.data import AUGMENTATIONS, DATASETS, PARTITIONS
from crossgrad.graphs import GRAPHS
from crossgrad.guards import ROBUST_RULES
from crossgrad.models import MODELS
from crossgrad.tasks import METRICS, TASKS

T = TypeVar("T")

KINDS: dict[str, Registry[Any]] = {
    one.kind: one
    for one in (
        *(ALGORITHMS, MODELS, DATASETS, GRAPHS, PARTITIONS, CODECS, TASKS, METRICS, SCHEDULES),
        *(AUGMENTATIONS, ROBUST_RULES, AGGREGATIONS, RULES, CALLBACKS),
    )
}

__all__ = ["KINDS", "load_plugin", "register"]


@overload
def register(kind: str, name: str) -> Callable[[T], T]: ...


@overload
def register(kind: str, name: str, thing: T) -> T: ...


def register(kind: str, name: str, thing: Any = None) -> Any:
    """Give something of your own a name, for experiment files, sweeps, `fit` and `crossgrad list`.

    docs/extending.md says what each kind must be. Parameters of functions, and of classes that are not dataclasses,
    become options in experiment files, except for those that crossgrad passes itself.

    Args:
        kind: algorithm, model, data, graph, partition, codec, task, metric, schedule, augmentation, robust-rule,
            aggregation, optim-rule or callback.
        name: the name, as in `model = "my-net"`.
        thing: what gets the name. Without it, `register` is a decorator.

    Returns:
        The thing itself.

    Raises:
        ValueError: there is no such kind, the name is taken, or the thing cannot be of this kind.

    >>> from math import prod
    >>> from torch import nn
    >>> @register("model", "two-layers")
    ... def two_layers(shape, classes, width: int = 8):
    ...     return nn.Sequential(nn.Flatten(), nn.Linear(prod(shape), width), nn.ReLU(), nn.Linear(width, classes))
    >>> KINDS["model"]["two-layers"](width=4)
    two_layers(width=4)
    """
    if kind not in KINDS:
        raise ValueError(f"register takes one of {', '.join(KINDS)}; found {kind!r}.")
    if thing is None:
        return lambda decorated: register(kind, name, decorated)
    KINDS[kind].register(name, thing, loading() or _module_of(thing))
    return thing


def _module_of(thing: Any) -> Origin:
    """The module that defines it, with a digest of its file; without one where there is none, as in a notebook."""
    name = str(getattr(thing, "__module__", None) or type(thing).__module__)
    file = getattr(sys.modules.get(name), "__file__", None)
    return Origin(name, Origin.of_file(Path(file)).version if file and Path(file).is_file() else "")
