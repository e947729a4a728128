"""The weights of a step in which not all neighbours take part, computed from the degrees of two neighbours.

Every agent states its degree: with how many neighbours it takes part. Between two agents that both miss a neighbour,
the weight is that of Metropolis on the remaining links, 1 / (1 + max(d_j, d_l)), as for faults in a simulation;
between two that miss none it is the graph's own. If only one of the two misses a neighbour, it is the smaller of both,
so that no agent's weights exceed one. Both ends compute the same number, so the weights are symmetric, and the mean of
all models is preserved.
"""

from collections.abc import Sequence
from functools import lru_cache

import numpy as np
from scipy.sparse import csr_array

from crossgrad.graphs import Graph


def edge_weight(graph: Graph, j: int, l: int, degree_j: int, degree_l: int) -> float:
    """The weight of l in j's average, and of j in l's.

    >>> from crossgrad.graphs import fully_connected
    >>> edge_weight(fully_connected(5), 0, 1, 4, 4), edge_weight(fully_connected(5), 0, 1, 1, 2)
    (0.2, 0.3333333333333333)
    """
    own, metropolis = float(graph.weights[j, l]), 1 / (1 + max(degree_j, degree_l))
    misses = int(degree_j < int(graph.degrees[j])) + int(degree_l < int(graph.degrees[l]))
    return (own, min(own, metropolis), metropolis)[misses]


@lru_cache(maxsize=256)
def graph_of_step(graph: Graph, j: int, degree: int, partners: tuple[tuple[int, int], ...]) -> Graph:
    """The graph of a step as agent j needs it: its own links, given each partner's degree.

    If neither j nor any of its partners misses a neighbour, this is the graph itself, bit by bit.
    """
    complete = degree == len(partners) == int(graph.degrees[j])
    if complete and all(links == int(graph.degrees[l]) for l, links in partners):
        return graph
    return star(graph.agents, j, [(l, edge_weight(graph, j, l, degree, links)) for l, links in partners])


def star(agents: int, j: int, weights: Sequence[tuple[int, float]]) -> Graph:
    """Agent j and its partners with these weights; each agent's own weight is 1 minus the others."""
    others = np.array([l for l, _ in weights], np.int64)
    values = np.array([weight for _, weight in weights])
    own = np.ones(agents)
    own[others] -= values
    own[j] = 1 - values.sum()
    rows = np.concatenate([np.arange(agents), np.full(len(others), j), others])
    columns = np.concatenate([np.arange(agents), others, np.full(len(others), j)])
    entries = np.concatenate([own, values, values])
    return Graph(csr_array((entries, (rows, columns)), shape=(agents, agents)), "step", part_of_sequence=True)
