"""Random graphs with a given number of neighbours, and rings with shortcuts."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import numpy as np
from scipy.sparse.csgraph import connected_components

from crossgrad._numerics.seeding import stream
from crossgrad.graphs.families import fully_connected
from crossgrad.graphs.graph import Graph
from crossgrad.graphs.sequences import GraphSequence
from crossgrad.graphs.validate import MAX_ATTEMPTS, Indices, Sparse, chance, number_of_agents, whole_number
from crossgrad.graphs.weights import adjacency, metropolis


def random_regular(agents: int, neighbours: int = 4, seed: int = 0) -> Graph:
    """Every agent has the same number of random neighbours; all weights are the same.

    Args:
        agents: N, the number of agents.
        neighbours: the number of neighbours of each agent.
        seed: seed of the random draws.

    Reference:
        Steger, Wormald: Generating random regular graphs quickly. Combinatorics, Probability and Computing 8, 1999,
        doi:10.1017/S0963548399003867.

    >>> random_regular(10, 3, seed=1).degrees
    array([3, 3, 3, 3, 3, 3, 3, 3, 3, 3])
    """
    N, k = _fitting(agents, neighbours)
    graph = _first_connected(lambda rng: _regular(N, k, rng), seed)
    if graph is None:
        raise ValueError(
            f"random-regular: the graph must be connected; none of {MAX_ATTEMPTS} graphs of {N} agents with {k} "
            f"neighbours was. Use 2 neighbours or more."
        )
    return Graph(metropolis(graph), "random-regular")


def random_regular_each_step(agents: int, neighbours: int = 4, seed: int = 0) -> GraphSequence:
    """A random regular graph that is drawn anew in every step; the graph of a single step need not be connected.

    Args:
        agents: N, the number of agents.
        neighbours: the number of neighbours of each agent.
        seed: seed of the random draws.

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
    """A ring in which every agent is connected with its nearest agents, and some edges are replaced by random ones.

    Metropolis weights.

    Args:
        agents: N, the number of agents.
        neighbours: the number of neighbours of each agent before edges are replaced.
        rewired: the probability that an edge is replaced by a random one.
        seed: seed of the random draws.

    Reference:
        Watts, Strogatz: Collective Dynamics of Small-World Networks. Nature 393, 1998, doi:10.1038/30918.

    >>> small_world(20, seed=1).messages
    80
    """
    N, k = number_of_agents(agents), whole_number(neighbours, "neighbours", least=2)
    p = 0.0 if rewired == 0 else chance(rewired, "rewired")
    if k % 2 or k >= N:
        raise ValueError(f"small-world: neighbours must be even and below the {N} agents; found {k}.")
    graph = _first_connected(lambda rng: _rewired(N, k, p, rng), seed)
    if graph is None:
        raise ValueError(
            f"small-world: the graph must be connected; none of {MAX_ATTEMPTS} graphs was. Use more neighbours, or a "
            f"lower `rewired`."
        )
    return Graph(metropolis(graph), "small-world")


def _first_connected(draw: Callable[[np.random.Generator], Sparse], seed: int) -> Sparse | None:
    """The first of some random edge patterns that connects all agents; None if none of MAX_ATTEMPTS does."""
    for attempt in range(MAX_ATTEMPTS):
        pattern = draw(stream(whole_number(seed, "seed"), "rg", attempt))
        if connected_components(pattern, directed=False)[0] == 1:
            return pattern
    return None


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
            f"random-regular: there must be fewer neighbours than agents, and agents times neighbours must be even; "
            f"found {N} agents and {k} neighbours."
        )
    return N, k


def _step(agents: int, neighbours: int, seed: int, step: int) -> Graph:
    pattern = _regular(agents, neighbours, stream(seed, "rg", step))
    return Graph(metropolis(pattern), "random-regular-each-step", part_of_sequence=True)


def _regular(agents: int, neighbours: int, rng: np.random.Generator) -> Sparse:
    edges = _drawn_pairs(agents, neighbours, rng)
    return adjacency(agents, edges[:, 0], edges[:, 1], both_ways=True)


def _drawn_pairs(agents: int, neighbours: int, rng: np.random.Generator) -> Indices:
    """Pairs of a random regular graph: free ends are paired at random, and ends whose pair is not allowed again.

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
                break  # no remaining pair could be joined
        if not ends.size:
            return np.array(sorted(taken), dtype=np.int64).reshape(-1, 2)
