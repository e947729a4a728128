"""EquiTopo: averages over random cyclic shifts, whose mixing rate does not depend on the number of agents.

Reference:
    Song, Li, Jin, Shi, Yan, Yin, Yuan: Communication-Efficient Topologies for Decentralized Learning with O(1)
    Consensus Rate. NeurIPS 2022, arXiv:2210.07881.
"""

from __future__ import annotations

from functools import partial
from math import gcd

import numpy as np
from scipy.sparse import coo_array, csr_array

from crossgrad._numerics.seeding import stream
from crossgrad.graphs.graph import Graph
from crossgrad.graphs.sequences import GraphSequence
from crossgrad.graphs.validate import Indices, Sparse, chance, number_of_agents, whole_number
from crossgrad.graphs.weights import adjacency, metropolis, uniform, with_diagonal


def equi_static(agents: int, shifts: int | None = None, directed: bool = False, seed: int = 0) -> Graph:
    """The mean of the weights of M random cyclic shifts: with shift a, agent j receives from j + a (modulo N).

    One shift has the weights (N-1)/N P_a + I/N, where P_a is the permutation by a; undirected, the mean of P_a and its
    transpose takes its place. By default M = ceil(log2 N). Shifts are drawn with replacement, and again until the
    graph is connected.

    Args:
        agents: N, the number of agents.
        shifts: M; None: ceil(log2 N).
        directed: whether edges go one way.
        seed: seed of the random draws.

    >>> equi_static(10, shifts=2, seed=1).undirected
    True
    """
    N, a = number_of_agents(agents), shifts_of(agents, shifts, seed)
    j = np.tile(np.arange(N), a.size)
    share = np.full(j.size, (1 - 1 / N) / max(1, a.size))
    pattern = csr_array(coo_array((share, (j, (j + np.repeat(a, N)) % N)), shape=(N, N)))  # a shift drawn twice adds up
    W = pattern if directed else csr_array((pattern + pattern.T) / 2)
    return Graph(with_diagonal(W, np.full(N, 1 - W[[0]].sum())), "equi-static")


def equi_dynamic(
    agents: int, shifts: int | None = None, directed: bool = False, eta: float = 0.5, seed: int = 0
) -> GraphSequence:
    """In every step each agent has at most one neighbour, by a random cyclic shift a; directed or in pairs.

    Directed: every agent j receives from j + a (modulo N). In pairs: agents are visited in order, beginning at a random
    one, and j and j + a average if neither is in a pair yet. A receiver gives its sender the weight eta (N-1)/N.

    Args:
        agents: N, the number of agents.
        shifts: how many random shifts there are to draw from; None: all shifts.
        directed: whether edges go one way.
        eta: the weight of the neighbour's model, times N / (N - 1).
        seed: seed of the random draws.

    >>> equi_dynamic(10).at(0).undirected
    True
    """
    N, seed = number_of_agents(agents), whole_number(seed, "seed")
    weight = chance(eta, "eta") * (1 - 1 / N)
    a = np.arange(1, N) if shifts is None else shifts_of(N, shifts, seed)
    draw = partial(_shift if directed else _paired, N, a, weight, seed)
    return GraphSequence("equi-dynamic", N, None, draw, partial(_union_of_shifts, N, a, directed))


def shifts_of(agents: int, shifts: int | None, seed: int) -> Indices:
    """Random shifts from 1 to N - 1 with which the graph is connected."""
    N, seed = number_of_agents(agents), whole_number(seed, "seed")
    M = max(1, (N - 1).bit_length()) if shifts is None else whole_number(shifts, "shifts", least=1)
    rng = stream(seed, "eq")
    a = np.ones(0, dtype=np.int64)
    while N > 1 and (a.size == 0 or gcd(N, *a.tolist()) > 1):
        a = rng.integers(1, N, size=M)
    return a


def _shift(agents: int, shifts: Indices, weight: float, seed: int, step: int) -> Graph:
    j, a = np.arange(agents), _drawn_shifts(shifts, seed, step)[0]
    return _weighted(adjacency(agents, j, (j + a) % agents), weight)


def _paired(agents: int, shifts: Indices, weight: float, seed: int, step: int) -> Graph:
    a, first = _drawn_shifts(shifts, seed, step, agents)
    free, pairs = np.ones(agents, dtype=np.bool_), []
    for j in np.roll(np.arange(agents), -first).tolist():
        l = (j + a) % agents
        if j != l and free[j] and free[l]:
            free[[j, l]] = False
            pairs.append((j, l))
    ends = np.array(pairs, dtype=np.int64).reshape(-1, 2)
    return _weighted(adjacency(agents, ends[:, 0], ends[:, 1], both_ways=True), weight)


def _weighted(pattern: Sparse, weight: float) -> Graph:
    edges = csr_array(weight * pattern)
    return Graph(with_diagonal(edges, 1 - edges.sum(axis=1)), "equi-dynamic", part_of_sequence=True)


def _drawn_shifts(shifts: Indices, seed: int, step: int, agents: int = 1) -> tuple[int, int]:
    rng = stream(seed, "eq", step)
    return int(rng.choice(shifts)) if shifts.size else 0, int(rng.integers(agents))


def _union_of_shifts(agents: int, shifts: Indices, directed: bool) -> Graph:
    j = np.tile(np.arange(agents), shifts.size)
    edges = adjacency(agents, j, (j + np.repeat(shifts, agents)) % agents, both_ways=not directed)
    return Graph(uniform(edges) if directed else metropolis(edges), "union")
