"""Any graph, with an exact average of all agents every so many steps."""

from __future__ import annotations

from functools import partial
from math import lcm

from crossgrad.graphs.base import AnyGraph
from crossgrad.graphs.families import fully_connected
from crossgrad.graphs.graph import Graph
from crossgrad.graphs.sequences import GraphSequence
from crossgrad.graphs.validate import whole_number


def with_global_averaging(graph: AnyGraph, every: int = 8) -> GraphSequence:
    """A graph in which every so many steps all agents take the exact average of all models instead.

    Reference:
        Chen, Yuan, Zhang, Pan, Xu, Yin: Accelerating Gossip SGD with Periodic Global Averaging. ICML 2021,
        arXiv:2105.09080.

    Args:
        graph: the graph of all other steps.
        every: steps from one exact average of all agents to the next.

    >>> from crossgrad.graphs import ring
    >>> [with_global_averaging(ring(5), every=3).at(step).messages for step in range(4)]
    [10, 10, 20, 10]
    """
    every = whole_number(every, "every", least=1)
    period = None if graph.period is None else lcm(graph.period, every)
    draw, everyone = partial(_graph_at, graph, every), partial(fully_connected, graph.agents)
    return GraphSequence("global-averaging", graph.agents, period, draw, everyone)


def _graph_at(graph: AnyGraph, every: int, step: int) -> Graph:
    return fully_connected(graph.agents) if step % every == every - 1 else graph.at(step)
