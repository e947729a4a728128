"""Random pairs of neighbours that average, while all the others keep what they have."""

from __future__ import annotations

import numpy as np
from scipy.sparse import csr_array

from crossgrad.graphs.graph import Graph
from crossgrad.graphs.validate import Indices


def random_pairs(graph: Graph, rng: np.random.Generator, single: bool = False) -> Graph:
    """The graph of one step in which random pairs of neighbours average, with weights 1/2.

    The pairs are a random maximal matching, so that no two neighbours are both left out. With `single` there is one
    pair, as in SwarmSGD: a uniformly random agent and a uniformly random one of its neighbours.

    Args:
        graph: the graph whose edges may become pairs.
        rng: the generator to draw from.
        single: one random pair instead of a matching.

    >>> from crossgrad.graphs import ring
    >>> random_pairs(ring(6), np.random.default_rng(0), single=True).messages
    2
    """
    if single:
        check_mutual(graph)
        j = int(rng.integers(graph.agents))
        near = graph.neighbours(j)
        pairs = np.array([[j, rng.choice(near)]] if near.size else np.empty((0, 2)), dtype=np.int64)
    else:
        pairs = random_matching(graph.agents, edges_of(graph), rng)
    return average_pairs(graph.agents, pairs)


def random_matching(agents: int, edges: Indices | None, rng: np.random.Generator) -> Indices:
    """A random maximal matching, one pair per row, of undirected `edges`; None: of all pairs.

    The edges are gone through in random order, and taken if both ends are free.

    >>> random_matching(4, np.array([[0, 1], [0, 2], [0, 3]]), np.random.default_rng(0)).shape
    (1, 2)
    """
    if edges is None:
        return rng.permutation(agents)[: agents // 2 * 2].reshape(-1, 2)
    rank = rng.permutation(len(edges))
    taken = []
    # Not one by one: an edge that comes first at both its ends is taken whatever the others do.
    while len(edges):
        first = np.full(agents, rank.max() + 1)
        np.minimum.at(first, edges, rank[:, None])
        wins = (first[edges] == rank[:, None]).all(axis=1)
        taken.append(edges[wins])
        free = np.ones(agents, dtype=np.bool_)
        free[edges[wins]] = False
        open_ = free[edges].all(axis=1)
        edges, rank = edges[open_], rank[open_]
    return np.concatenate([np.empty((0, 2), dtype=np.int64), *taken])


def edges_of(graph: Graph) -> Indices | None:
    """The edges of an undirected graph, each once; None if it joins all pairs."""
    check_mutual(graph)
    if graph.messages == graph.agents * (graph.agents - 1):
        return None
    ends = np.stack([graph.edges.receiver, graph.edges.sender], axis=1)
    return ends[ends[:, 0] < ends[:, 1]]


def average_pairs(agents: int, pairs: Indices, name: str = "pairs") -> Graph:
    """The step in which these disjoint pairs average and all the others keep what they have.

    >>> average_pairs(3, np.array([[0, 2]])).dense()
    array([[0.5, 0. , 0.5],
           [0. , 1. , 0. ],
           [0.5, 0. , 0.5]])
    """
    partner = np.arange(agents)
    partner[pairs[:, 0]], partner[pairs[:, 1]] = pairs[:, 1], pairs[:, 0]
    rows, columns = np.tile(np.arange(agents), 2), np.append(np.arange(agents), partner)
    halves = csr_array((np.full(2 * agents, 0.5), (rows, columns)), shape=(agents, agents))
    return Graph(halves, name, part_of_sequence=True)


def check_mutual(graph: Graph) -> None:
    """Raise unless the edge pattern is symmetric."""
    if not graph.mutual:
        raise ValueError(
            f"{graph.name}: pairs average both ways, so every agent must send to those it receives from; "
            "here some do not. Use graph.to_undirected()."
        )
