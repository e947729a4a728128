"""The named graphs that do not depend on chance. Agents are numbered from 0."""

from __future__ import annotations

from math import isqrt

import numpy as np
from scipy.sparse import csr_array

from crossgrad.graphs.graph import Graph
from crossgrad.graphs.validate import number_of_agents, weights_fit
from crossgrad.graphs.weights import adjacency, metropolis, uniform, with_diagonal


def fully_connected(agents: int) -> Graph:
    """Every agent receives from every other; all weights are 1/N.

    Args:
        agents: N, the number of agents.

    Reference:
        Xiao, Boyd: Fast linear iterations for distributed averaging. Systems & Control Letters 53, 2004,
        doi:10.1016/j.sysconle.2004.02.022.

    >>> fully_connected(5).mixing_rate
    0.0
    """
    N = number_of_agents(agents)
    weights_fit(N**2, "fully-connected")
    return Graph(csr_array(np.full((N, N), 1 / N)), "fully-connected")


def ring(agents: int) -> Graph:
    """Every agent receives from the one before and the one after it; all weights are 1/3.

    Two agents are one pair with 1/2.

    Args:
        agents: N, the number of agents.

    Reference:
        Xiao, Boyd: Fast linear iterations for distributed averaging. Systems & Control Letters 53, 2004,
        doi:10.1016/j.sysconle.2004.02.022.

    >>> round(ring(10).mixing_rate, 4)
    0.8727
    """
    N = number_of_agents(agents)
    j = np.arange(N)
    return Graph(metropolis(adjacency(N, j, (j + 1) % N, both_ways=True)), "ring")


def bipartite(agents: int) -> Graph:
    """The paper's K_{2,N-2}: the last two agents are hubs, connected with all the others.

    The weight of an edge is a = 1/(N-1). A leaf's own weight is 1 - 2a, and a hub's 1 - (N-2)a. As in the released
    code, a is truncated to two decimals, but only up to N = 100, because the truncated weight is 0 from N = 102 on.
    From N = 4 on, these are Metropolis weights except for the truncation. Two agents are one pair with weights 1/2.

    Args:
        agents: N, the number of agents.

    Reference:
        Esfandiari, Tan, Jiang, Balu, Herron, Hegde, Sarkar: Cross-Gradient Aggregation for Decentralized Learning from
        Non-IID Data. ICML 2021, arXiv:2103.02051.

    >>> bipartite(5).dense()
    array([[0.5 , 0.  , 0.  , 0.25, 0.25],
           [0.  , 0.5 , 0.  , 0.25, 0.25],
           [0.  , 0.  , 0.5 , 0.25, 0.25],
           [0.25, 0.25, 0.25, 0.25, 0.  ],
           [0.25, 0.25, 0.25, 0.  , 0.25]])
    """
    N = number_of_agents(agents)
    if N < 3:
        return Graph(ring(N).weights, "bipartite")
    a = 100 // (N - 1) / 100 if N <= 100 else 1 / (N - 1)
    leaves = np.arange(N - 2)
    edges = adjacency(N, np.tile(leaves, 2), np.repeat([N - 2, N - 1], N - 2), both_ways=True)
    own = np.full(N, 1 - 2 * a)
    own[-2:] = 1 - (N - 2) * a
    return Graph(with_diagonal(a * edges, own.clip(min=0)), "bipartite")


def balanced_bipartite(agents: int) -> Graph:
    """Every agent of one half receives from every agent of the other; Metropolis weights. Mixes better than a ring.

    If the number of agents is odd, the first half has one more.

    Args:
        agents: N, the number of agents.

    Reference:
        Xiao, Boyd: Fast linear iterations for distributed averaging. Systems & Control Letters 53, 2004,
        doi:10.1016/j.sysconle.2004.02.022.

    >>> balanced_bipartite(10).neighbours(0)
    array([5, 6, 7, 8, 9])
    """
    N = number_of_agents(agents)
    weights_fit(N**2 / 2, "balanced-bipartite")
    first, second = np.arange((N + 1) // 2), np.arange((N + 1) // 2, N)
    edges = adjacency(N, np.repeat(first, second.size), np.tile(second, first.size), both_ways=True)
    return Graph(metropolis(edges), "balanced-bipartite")


def star(agents: int) -> Graph:
    """Agent 0 exchanges messages with all the others, and they only with agent 0; Metropolis weights.

    Args:
        agents: N, the number of agents.

    Reference:
        Xiao, Boyd: Fast linear iterations for distributed averaging. Systems & Control Letters 53, 2004,
        doi:10.1016/j.sysconle.2004.02.022.

    >>> star(5).degrees
    array([4, 1, 1, 1, 1])
    """
    N = number_of_agents(agents)
    leaves = np.arange(1, N)
    return Graph(metropolis(adjacency(N, np.zeros(N - 1), leaves, both_ways=True)), "star")


def chain(agents: int) -> Graph:
    """A ring without the edge between the last agent and the first; Metropolis weights.

    Args:
        agents: N, the number of agents.

    Reference:
        Xiao, Boyd: Fast linear iterations for distributed averaging. Systems & Control Letters 53, 2004,
        doi:10.1016/j.sysconle.2004.02.022.

    >>> chain(5).degrees
    array([1, 2, 2, 2, 1])
    """
    N = number_of_agents(agents)
    j = np.arange(N - 1)
    return Graph(metropolis(adjacency(N, j, j + 1, both_ways=True)), "chain")


def torus(agents: int) -> Graph:
    """A grid, as square as the number of agents allows, that wraps around; Metropolis weights.

    Agent r * columns + c sits in row r and column c. A prime number of agents has only one row: it
    is a ring. With two rows the neighbour above is the neighbour below, and counts once.

    Args:
        agents: N, the number of agents.

    Reference:
        Xiao, Boyd: Fast linear iterations for distributed averaging. Systems & Control Letters 53, 2004,
        doi:10.1016/j.sysconle.2004.02.022.

    >>> torus(12).neighbours(0)
    array([1, 3, 4, 8])
    """
    N = number_of_agents(agents)
    rows = next(r for r in range(isqrt(N), 0, -1) if N % r == 0)
    grid = np.arange(N).reshape(rows, N // rows)
    below, right = np.roll(grid, -1, axis=0), np.roll(grid, -1, axis=1)
    edges = adjacency(N, np.tile(grid.ravel(), 2), np.append(below, right), both_ways=True)
    return Graph(metropolis(edges), "torus")


def exponential(agents: int) -> Graph:
    """Directed: j receives from j - 1, j - 2, j - 4, ... (modulo N), all with the same weight.

    The weights are circulant, so doubly stochastic.

    Args:
        agents: N, the number of agents.

    Reference:
        Ying, Yuan, Chen, Hu, Pan, Yin: Exponential Graph is Provably Efficient for Decentralized Deep Training. NeurIPS
        2021, arXiv:2110.13363.

    >>> exponential(8).neighbours(0)
    array([4, 6, 7])
    """
    N = number_of_agents(agents)
    hops = 2 ** np.arange((N - 1).bit_length())
    j = np.repeat(np.arange(N), hops.size)
    return Graph(uniform(adjacency(N, j, (j - np.tile(hops, N)) % N)), "exponential")
