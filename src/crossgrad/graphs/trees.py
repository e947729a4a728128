"""Trees: between any two agents there is one way, so sums over both its sides can be passed along."""

from __future__ import annotations

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
    """A binary tree and its mirror image, so that those at the rim of one are inside the other; Metropolis weights.

    It is no tree itself: the paper sends half of the model through each of the two. RelaySGD here needs one tree.

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
    """Whether there is exactly one way between any two agents.

    Args:
        graph: any graph.
    """
    pairs = coo_array(graph.weights)
    return graph.mutual and int((pairs.row < pairs.col).sum()) == graph.agents - 1
