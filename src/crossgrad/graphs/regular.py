"""Random graphs with a given number of neighbours, and rings with shortcuts."""

from __future__ import annotations

from functools import partial

import numpy as np
from scipy.sparse.csgraph import connected_components

from crossgrad._numerics.seeding import stream
from crossgrad.graphs.families import fully_connected
from crossgrad.graphs.graph import Graph
from crossgrad.graphs.sequences import GraphSequence
from crossgrad.graphs.validate import Indices, Sparse, chance, number_of_agents, whole_number
from crossgrad.graphs.weights import adjacency, metropolis

TRIES = 100


def random_regular(agents: int, neighbours: int = 4, seed: int = 0) -> Graph:
    """Everybody has so many neighbours, at random; the same weight for all of them.

    Args:
        agents: N, the number of agents.
        neighbours: of each agent in a step.
        seed: of the random draws.

    Reference:
        Steger, Wormald: Generating random regular graphs quickly. Combinatorics, Probability and Computing 8, 1999,
        doi:10.1017/S0963548399003867.

    >>> random_regular(10, 3, seed=1).degrees
    array([3, 3, 3, 3, 3, 3, 3, 3, 3, 3])
    """
    N, k = _fitting(agents, neighbours)
    for attempt in range(TRIES):
        edges = _drawn(N, k, stream(whole_number(seed, "seed"), "rg", attempt))
        hears = adjacency(N, edges[:, 0], edges[:, 1], both_ways=True)
        if connected_components(hears, directed=False)[0] == 1:
            return Graph(metropolis(hears), "random-regular")
    raise ValueError(
        f"random-regular: none of {TRIES} graphs of {N} agents with {k} neighbours was connected; use 2 or more."
    )


def random_regular_each_step(agents: int, neighbours: int = 4, seed: int = 0) -> GraphSequence:
    """A random regular graph drawn anew in every step; not each of them needs to connect everybody.

    Args:
        agents: N, the number of agents.
        neighbours: of each agent in a step.
        seed: of the random draws.

    Reference:
        Steger, Wormald: Generating random regular graphs quickly. Combinatorics, Probability and Computing 8, 1999,
        doi:10.1017/S0963548399003867.

    >>> random_regular_each_step(6, 1).at(0).degrees
    array([1, 1, 1, 1, 1, 1])
    """
    N, k = _fitting(agents, neighbours)
    draw = partial(_step, N, k, whole_number(seed, "seed"))
    return GraphSequence("random-regular-each-step", N, None, draw, partial(fully_connected, N))


def small_world(agents: int, neighbours: int = 4, rewired: float = 0.1, seed: int = 0) -> Graph:
    """A ring in which everybody has so many near neighbours, and a share of the edges leads elsewhere.

    Metropolis weights.

    Args:
        agents: N, the number of agents.
        neighbours: of each agent before edges are replaced.
        rewired: the probability that an edge is replaced by a random one.
        seed: of the random draws.

    Reference:
        Watts, Strogatz: Collective Dynamics of Small-World Networks. Nature 393, 1998, doi:10.1038/30918.

    >>> small_world(20, seed=1).messages
    80
    """
    N, k = number_of_agents(agents), whole_number(neighbours, "neighbours", least=2)
    p = 0.0 if rewired == 0 else chance(rewired, "rewired")
    if k % 2 or k >= N:
        raise ValueError(f"small-world: neighbours must be even and below the {N} agents; found {k}.")
    for attempt in range(TRIES):
        hears = _rewired(N, k, p, stream(whole_number(seed, "seed"), "rg", attempt))
        if connected_components(hears, directed=False)[0] == 1:
            return Graph(metropolis(hears), "small-world")
    raise ValueError(f"small-world: none of {TRIES} graphs was connected; use more neighbours or rewire fewer.")


def _rewired(agents: int, neighbours: int, p: float, rng: np.random.Generator) -> Sparse:
    near = {j: {(j + d) % agents for d in range(-neighbours // 2, neighbours // 2 + 1)} - {j} for j in range(agents)}
    for d in range(1, neighbours // 2 + 1):
        for j in range(agents):
            l = (j + d) % agents
            others = sorted(set(range(agents)) - near[j] - {j})
            if others and l in near[j] and rng.random() < p:
                new = int(rng.choice(others))
                near[j] ^= {l, new}
                near[l].discard(j)
                near[new].add(j)
    pairs = np.array([(j, l) for j in near for l in near[j]], dtype=np.int64)
    return adjacency(agents, pairs[:, 0], pairs[:, 1], both_ways=True)


def _fitting(agents: int, neighbours: int) -> tuple[int, int]:
    N, k = number_of_agents(agents), whole_number(neighbours, "neighbours", least=1)
    if k >= N or N * k % 2:
        raise ValueError(
            f"random-regular: {N} agents cannot all have {k} neighbours; there must be fewer neighbours than agents, "
            f"and agents times neighbours must be even."
        )
    return N, k


def _step(agents: int, neighbours: int, seed: int, step: int) -> Graph:
    edges = _drawn(agents, neighbours, stream(seed, "rg", step))
    hears = adjacency(agents, edges[:, 0], edges[:, 1], both_ways=True)
    return Graph(metropolis(hears), "random-regular-each-step", part_of_sequence=True)


def _drawn(agents: int, neighbours: int, rng: np.random.Generator) -> Indices:
    """Pairs of a random regular graph: free ends are paired at random, pairs that cannot be are tried again.

    Steger, Wormald: Generating Random Regular Graphs Quickly. 1999, doi:10.1017/S0963548399003867.
    """
    while True:
        taken: set[tuple[int, int]] = set()
        ends = np.repeat(np.arange(agents), neighbours)
        while ends.size:
            pairs = [(int(min(j, l)), int(max(j, l))) for j, l in rng.permutation(ends).reshape(-1, 2)]
            left: list[int] = []
            for pair in pairs:
                if pair[0] != pair[1] and pair not in taken:
                    taken.add(pair)
                else:
                    left += pair
            ends = np.array(left, dtype=np.int64)
            if ends.size and all((j, l) in taken for j in set(left) for l in set(left) if j < l):
                break  # nothing left that could be joined
        if not ends.size:
            return np.array(sorted(taken), dtype=np.int64).reshape(-1, 2)
