"""Random graphs in which every pair is joined with the same probability."""

from __future__ import annotations

from math import log

import numpy as np
from scipy.sparse.csgraph import connected_components

from crossgrad._numerics.seeding import stream
from crossgrad.graphs.graph import Graph
from crossgrad.graphs.validate import MAX_ATTEMPTS, Indices, chance, number_of_agents, weights_fit, whole_number
from crossgrad.graphs.weights import adjacency, metropolis


def erdos_renyi(agents: int, probability: float | None = None, seed: int = 0) -> Graph:
    """Every pair of agents is connected with a given probability; Metropolis weights.

    A graph that falls into parts is drawn again, at most 100 times.

    Args:
        agents: N, the number of agents.
        probability: the probability of each edge, above 0 and at most 1; None: 2 ln(N) / N, twice the probability above
            which large graphs are almost surely connected.
        seed: seed of the random draws.

    Reference:
        Batagelj, Brandes: Efficient generation of large random networks. Physical Review E 71, 2005,
        doi:10.1103/PhysRevE.71.036113.

    >>> erdos_renyi(10, 0.3, seed=1)
    Graph('erdos-renyi', 10 agents, 24 messages)
    """
    N, seed = number_of_agents(agents), whole_number(seed, "seed")
    p = min(1.0, 2 * log(N) / N) if probability is None else chance(probability, "probability")
    weights_fit(p * N**2, "erdos-renyi")
    for attempt in range(MAX_ATTEMPTS):
        receiver, sender = _random_pairs(N, p, stream(seed, "er", attempt))
        edges = adjacency(N, receiver, sender, both_ways=True)
        if connected_components(edges, directed=False)[0] == 1:
            return Graph(metropolis(edges), "erdos-renyi")
    raise ValueError(
        f"erdos-renyi: the graph must be connected; none of {MAX_ATTEMPTS} of {N} agents with probability {p:g} was. "
        f"Raise the probability, to {min(1.0, 2 * log(N) / N):.2g} say."
    )


def _random_pairs(agents: int, p: float, rng: np.random.Generator) -> tuple[Indices, Indices]:
    """Pairs l < j, each with probability p, in time proportional to how many there are.

    The pairs (0, 1), (0, 2), (1, 2), (0, 3), ... are numbered from 0, and the gaps between the numbers
    that are drawn are geometric (Batagelj and Brandes, 2005).
    """
    total = agents * (agents - 1) // 2
    drawn = np.empty(0, dtype=np.int64)
    reached = -1
    while reached < total - 1:
        gaps = np.minimum(rng.geometric(p, size=int(p * (total - reached)) + 10), total + 1)
        drawn = np.append(drawn, reached + np.cumsum(gaps))
        reached = int(drawn[-1])
    drawn = drawn[drawn < total]
    j = ((1 + np.sqrt(1 + 8 * drawn)) / 2).astype(np.int64)
    j += j * (j + 1) // 2 <= drawn  # corrects a square root that was rounded to the wrong side
    j -= j * (j - 1) // 2 > drawn
    return drawn - j * (j - 1) // 2, j
