"""Graphs of the literature's tables that come in few sizes."""

from __future__ import annotations

import numpy as np

from crossgrad.graphs.graph import Graph
from crossgrad.graphs.validate import number_of_agents
from crossgrad.graphs.weights import adjacency, metropolis

# Which of 14 events each of 18 women went to.
DAVIS = (
    "1 2 3 4 5 6 8 9", "1 2 3 5 6 7 8", "2 3 4 5 6 7 8 9", "1 3 4 5 6 7 8", "3 4 5 7", "3 5 6 8", "5 6 7 8", "6 8 9",
    "5 7 8 9", "7 8 9 12", "8 9 10 12", "8 9 10 12 13 14", "7 8 9 10 12 13 14", "6 7 9 10 11 12 13 14", "7 8 10 11 12",
    "8 9", "9 11", "9 11",
)  # fmt: skip


def hypercube(agents: int) -> Graph:
    """Two agents are connected if their numbers differ in one binary digit; all weights are the same.

    Args:
        agents: N, the number of agents.

    Reference:
        Xiao, Boyd: Fast linear iterations for distributed averaging. Systems & Control Letters 53, 2004,
        doi:10.1016/j.sysconle.2004.02.022.

    >>> hypercube(8).neighbours(0)
    array([1, 2, 4])
    """
    N = number_of_agents(agents)
    if N & (N - 1):
        raise ValueError(f"hypercube: the number of agents must be a power of two; found {N}. A base graph takes any.")
    bits = 2 ** np.arange(max(0, (N - 1).bit_length()))
    j = np.repeat(np.arange(N), bits.size)
    return Graph(metropolis(adjacency(N, j, j ^ np.tile(bits, N), both_ways=True)), "hypercube")


def petersen(agents: int = 10) -> Graph:
    """Petersen's graph: 10 agents with 3 neighbours each, any two at most two steps apart.

    Args:
        agents: N, the number of agents.

    Reference:
        Xiao, Boyd: Fast linear iterations for distributed averaging. Systems & Control Letters 53, 2004,
        doi:10.1016/j.sysconle.2004.02.022.

    >>> petersen().degrees
    array([3, 3, 3, 3, 3, 3, 3, 3, 3, 3])
    """
    _check_size("petersen", agents, 10)
    j = np.arange(5)
    ends = np.concatenate([j, j, j + 5]), np.concatenate([(j + 1) % 5, j + 5, (j + 2) % 5 + 5])
    return Graph(metropolis(adjacency(10, *ends, both_ways=True)), "petersen")


def dyck(agents: int = 32) -> Graph:
    """Dyck's graph: 32 agents with 3 neighbours each, a ring with chords.

    Args:
        agents: N, the number of agents.

    Reference:
        Aketi, Hashemi, Roy: Global Update Tracking: A Decentralized Learning Algorithm for Heterogeneous Data. NeurIPS
        2023, arXiv:2305.04792 (which trains on it).

    >>> dyck().neighbours(0)
    array([ 1,  5, 31])
    """
    _check_size("dyck", agents, 32)
    j = np.arange(32)
    chords = (j + np.tile([5, -5, 13, -13], 8)) % 32
    return Graph(metropolis(adjacency(32, np.tile(j, 2), np.append((j + 1) % 32, chords), both_ways=True)), "dyck")


def davis(agents: int = 32) -> Graph:
    """Davis' social network: 18 women (0 to 17) and the 14 events (18 to 31) they went to; Metropolis weights.

    Davis, Gardner, Gardner: Deep South. 1941.

    Args:
        agents: N, the number of agents.

    Reference:
        Lin, Karimireddy, Stich, Jaggi: Quasi-Global Momentum: Accelerating Decentralized Deep Learning on Heterogeneous
        Data. ICML 2021, arXiv:2102.04761 (which trains on it).

    >>> davis()
    Graph('davis', 32 agents, 178 messages)
    """
    _check_size("davis", agents, 32)
    pairs = np.array([(woman, 17 + int(event)) for woman, went in enumerate(DAVIS) for event in went.split()])
    return Graph(metropolis(adjacency(32, pairs[:, 0], pairs[:, 1], both_ways=True)), "davis")


def _check_size(name: str, agents: int, size: int) -> None:
    if number_of_agents(agents) != size:
        raise ValueError(f"{name}: this graph has {size} agents; found {agents}. Set agents to {size}.")
