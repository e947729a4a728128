"""Tables of a graph that are made once, and kept for as long as the graph itself."""

from collections.abc import Callable
from functools import wraps
from typing import Any, Concatenate, ParamSpec, TypeVar
from weakref import WeakKeyDictionary

from crossgrad.graphs import Graph

P = ParamSpec("P")
R = TypeVar("R")


def kept_with_graph(make: Callable[Concatenate[Graph, P], R]) -> Callable[Concatenate[Graph, P], R]:
    """A function of a graph and of hashable arguments whose results are kept until the graph is gone.

    A step along a tree goes through as many graphs as it has rounds, so a cache of a fixed size would be too small for
    some graph, and then of no use in any round. The results must not hold the graph.
    """
    kept: WeakKeyDictionary[Graph, dict[Any, R]] = WeakKeyDictionary()

    @wraps(make)
    def found(graph: Graph, /, *args: P.args, **options: P.kwargs) -> R:
        of_graph = kept.setdefault(graph, {})
        key = (*args, *options.items())
        if key not in of_graph:
            of_graph[key] = make(graph, *args, **options)
        return of_graph[key]

    return found
