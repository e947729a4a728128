"""Trees: every edge has two sides, so sums over each side can be passed along it (RelaySGD)."""

from __future__ import annotations

from functools import lru_cache

import numpy as np
from scipy.sparse import coo_array
from scipy.sparse.csgraph import breadth_first_order

from crossgrad.graphs.graph import Graph
from crossgrad.graphs.pairs import check_mutual
from crossgrad.graphs.validate import number_of_agents, whole_number
from crossgrad.graphs.weights import adjacency, metropolis


def binary_tree(agents: int) -> Graph:
    """Agent j is joined to 2j + 1 and 2j + 2; Metropolis weights.

    Args:
        agents: N, the number of agents.

    Reference:
        Vogels, He, Koloskova, Lin, Karimireddy, Stich, Jaggi: RelaySum for Decentralized Deep Learning on Heterogeneous
        Data. NeurIPS 2021, arXiv:2110.04175.

    >>> binary_tree(7).degrees
    array([2, 3, 3, 1, 1, 1, 1])
    """
    N = number_of_agents(agents)
    j = np.arange(1, N)
    return Graph(metropolis(adjacency(N, j, (j - 1) // 2, both_ways=True)), "binary-tree")


def double_binary_tree(agents: int) -> Graph:
    """A binary tree and its mirror image, so that the leaves of one are inside the other; Metropolis weights.

    It is no tree itself: RelaySGD sends half of the model through each of the two.

    Args:
        agents: N, the number of agents.

    Reference:
        Vogels, He, Koloskova, Lin, Karimireddy, Stich, Jaggi: RelaySum for Decentralized Deep Learning on Heterogeneous
        Data. NeurIPS 2021, arXiv:2110.04175.

    >>> double_binary_tree(7).degrees
    array([3, 3, 3, 2, 3, 3, 3])
    """
    N = number_of_agents(agents)
    j = np.arange(1, N)
    ends = np.append(j, N - 1 - j), np.append((j - 1) // 2, N - 1 - (j - 1) // 2)
    return Graph(metropolis(adjacency(N, *ends, both_ways=True)), "double-binary-tree")


@lru_cache(maxsize=64)
def trees_of(graph: Graph) -> tuple[Graph, ...]:
    """The trees along which sums can be relayed: a tree itself, or the two of a double binary tree; otherwise none.

    Args:
        graph: any graph.

    >>> [len(trees_of(graph)) for graph in (binary_tree(7), double_binary_tree(7))]
    [1, 2]
    """
    if is_tree(graph):
        return (graph,)
    N = graph.agents
    if not graph.mutual or _pairs(graph) != _pairs(double_binary_tree(N)):
        return ()
    parent = (np.arange(1, N) - 1) // 2
    mirrored = adjacency(N, N - 1 - np.arange(1, N), N - 1 - parent, both_ways=True)
    return binary_tree(N), Graph(metropolis(mirrored), "mirrored-binary-tree")


def _pairs(graph: Graph) -> set[tuple[int, int]]:
    pairs = coo_array(graph.weights)
    return {(j, l) for j, l in zip(pairs.row.tolist(), pairs.col.tolist(), strict=True) if j < l}


def spanning_tree(graph: Graph, root: int = 0) -> Graph:
    """A tree of the graph's edges that keeps every agent's distance to `root`; Metropolis weights.

    Args:
        graph: a connected, undirected graph.
        root: the agent at the root.

    Reference:
        Vogels, He, Koloskova, Lin, Karimireddy, Stich, Jaggi: RelaySum for Decentralized Deep Learning on Heterogeneous
        Data. NeurIPS 2021, arXiv:2110.04175.

    >>> from crossgrad.graphs import ring
    >>> spanning_tree(ring(5)).degrees
    array([2, 2, 1, 1, 2])
    """
    check_mutual(graph)
    root = whole_number(root, "root")
    if root >= graph.agents:
        raise ValueError(f"spanning-tree: root must be an agent, below {graph.agents}; found {root}.")
    _, parent = breadth_first_order(graph.weights, root, directed=False)
    j = np.flatnonzero(parent >= 0)
    return Graph(metropolis(adjacency(graph.agents, j, parent[j], both_ways=True)), "spanning-tree")


def is_tree(graph: Graph) -> bool:
    """Whether there is exactly one path between any two agents.

    Args:
        graph: any graph.
    """
    return graph.mutual and len(_pairs(graph)) == graph.agents - 1
