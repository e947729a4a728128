"""Trees: every edge has two sides, so sums over each side can be passed along it (RelaySGD)."""

from __future__ import annotations

from functools import lru_cache

import numpy as np
from scipy.sparse import coo_array, csr_array
from scipy.sparse.csgraph import breadth_first_order, shortest_path

from crossgrad.graphs.graph import Graph
from crossgrad.graphs.pairs import check_mutual
from crossgrad.graphs.validate import Indices, Vector, number_of_agents, whole_number
from crossgrad.graphs.weights import adjacency, metropolis


def binary_tree(agents: int) -> Graph:
    """Agent j is connected with agents 2j + 1 and 2j + 2; Metropolis weights.

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
    """A binary tree and its mirror image, so that leaves of one are inner agents of the other; Metropolis weights.

    It is not a tree itself: RelaySGD sends half of the model through each of the two trees.

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
    if not graph.mutual or _edges_as_pairs(graph) != _edges_as_pairs(double_binary_tree(N)):
        return ()
    parent = (np.arange(1, N) - 1) // 2
    mirrored = adjacency(N, N - 1 - np.arange(1, N), N - 1 - parent, both_ways=True)
    return binary_tree(N), Graph(metropolis(mirrored), "mirrored-binary-tree")


def _edges_as_pairs(graph: Graph) -> set[tuple[int, int]]:
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


@lru_cache(maxsize=16)
def tree_rounds(graph: Graph) -> tuple[Graph, ...]:
    """Rounds along a spanning tree after which every agent has the exact mean: to its root, and back.

    The root is an agent with the shortest way to the farthest other one. In the first half of the rounds agents send,
    the farthest from the root first, and their parents take the mean over all agents below them; in the second half
    parents send what they have, and children take it over. So the weights of all rounds multiply to the matrix of
    1 / N. Every edge of the tree carries one message each way.

    Args:
        graph: a connected, undirected graph.

    >>> from crossgrad.graphs import ring
    >>> [round.messages for round in tree_rounds(ring(5))]
    [2, 2, 2, 2]
    """
    check_mutual(graph)
    hops = shortest_path(graph.weights, directed=False, unweighted=True)
    order, found = breadth_first_order(graph.weights, int(hops.max(axis=1).argmin()), directed=False)
    parent: Indices = found.astype(np.int64)
    level, below = np.zeros(graph.agents, np.int64), np.ones(graph.agents)
    for agent in order[1:]:
        level[agent] = level[parent[agent]] + 1
    for agent in order[:0:-1]:
        below[parent[agent]] += below[agent]
    farthest_first = [np.flatnonzero(level == distance) for distance in range(int(level.max()), 0, -1)]
    up = [_to_parents(children, parent[children], below) for children in farthest_first]
    down = [_to_children(children, parent[children], graph.agents) for children in reversed(farthest_first)]
    return tuple(Graph(weights, f"round along a tree of {graph.name}", part_of_sequence=True) for weights in up + down)


def _to_parents(children: Indices, parents: Indices, below: Vector) -> csr_array:
    """Parents take the mean over their subtree of what they and these children have; the others keep theirs."""
    kept = np.ones(len(below))
    np.subtract.at(kept, parents, below[children] / below[parents])
    every = np.arange(len(below))
    places = np.append(every, parents), np.append(every, children)
    return csr_array((np.append(kept, below[children] / below[parents]), places), shape=(len(below), len(below)))


def _to_children(children: Indices, parents: Indices, agents: int) -> csr_array:
    """These children take over what their parents have; the others keep theirs."""
    source = np.arange(agents)
    source[children] = parents
    return csr_array((np.ones(agents), (np.arange(agents), source)), shape=(agents, agents))


def is_tree(graph: Graph) -> bool:
    """Whether there is exactly one path between any two agents.

    Args:
        graph: any graph.

    >>> from crossgrad.graphs import chain, ring
    >>> is_tree(chain(5)), is_tree(ring(5))
    (True, False)
    """
    return graph.mutual and len(_edges_as_pairs(graph)) == graph.agents - 1
