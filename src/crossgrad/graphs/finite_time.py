"""Sequences of sparse graphs after which every agent has the exact mean, for any number of agents.

k: the largest number of neighbours in a step. A step is a list of edges (j, l, weight), undirected.

Reference:
    Takezawa, Sato, Bao, Niwa, Yamada: Beyond Exponential Graph: Communication-Efficient Topologies for Decentralized
    Learning via Finite-time Convergence. NeurIPS 2023, arXiv:2305.11420.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import partial
from itertools import combinations, zip_longest
from typing import TypeAlias

import numpy as np
from scipy.sparse import csr_array

from crossgrad.graphs.graph import Graph
from crossgrad.graphs.sequences import GraphSequence
from crossgrad.graphs.validate import Vector, number_of_agents, whole_number
from crossgrad.graphs.weights import adjacency, metropolis, with_diagonal

WeightedEdges: TypeAlias = list[tuple[int, int, float]]


def base_graph(agents: int, neighbours: int = 1) -> GraphSequence:
    """The base-(k+1) graph: with at most k neighbours in each step, averaging gives the exact mean after one period.

    Args:
        agents: N, the number of agents.
        neighbours: k, the largest number of neighbours of an agent in a step.

    >>> base_graph(10, neighbours=2).period, base_graph(40, neighbours=2).period
    (4, 6)
    """
    N, k = number_of_agents(agents), whole_number(neighbours, "neighbours", least=1)
    smooth = _smooth_part(N, k)
    rest = N // smooth
    blocks = [range(rest * i, rest * (i + 1)) for i in range(smooth)]
    across = [range(i, N, rest) for i in range(rest)]
    simple = _simple_base_steps(range(N), k)
    mixed = _side_by_side(_simple_base_steps(block, k) for block in blocks) + _side_by_side(
        _cliques(line, k) for line in across
    )
    return _sequence("base-graph", N, simple if len(simple) < len(mixed) else mixed)


def simple_base_graph(agents: int, neighbours: int = 1) -> GraphSequence:
    """The simple base-(k+1) graph: the part of `base_graph` that needs no common factors; never shorter.

    Args:
        agents: N, the number of agents.
        neighbours: k, the largest number of neighbours of an agent in a step.

    >>> simple_base_graph(5).period
    5
    """
    N, k = number_of_agents(agents), whole_number(neighbours, "neighbours", least=1)
    return _sequence("simple-base-graph", N, _simple_base_steps(range(N), k))


def hyper_hypercube(agents: int, neighbours: int = 1) -> GraphSequence:
    """The k-peer hyper-hypercube: agents are numbers in mixed bases, and step t connects those that differ in digit t.

    No prime factor of the number of agents may be above k + 1, where k is `neighbours`.

    Args:
        agents: N, the number of agents.
        neighbours: k, the largest number of neighbours of an agent in a step.

    >>> hyper_hypercube(12, neighbours=2).period
    3
    """
    N, k = number_of_agents(agents), whole_number(neighbours, "neighbours", least=1)
    if _smooth_part(N, k) != N:
        raise ValueError(
            f"hyper-hypercube: prime factors must be at most neighbours + 1 = {k + 1}; {N} has others. Use base_graph, "
            f"which takes any number of agents, or more neighbours."
        )
    return _sequence("hyper-hypercube", N, _cliques(range(N), k))


def _simple_base_steps(agents: Sequence[int], k: int) -> list[WeightedEdges]:
    """N = sum of a_i (k+1)^{p_i}: the sets average, then pass their means on from the largest to the smallest."""
    if _smooth_part(len(agents), k) == len(agents):
        return _cliques(agents, k)
    sets = _digits_of_size(agents, k)
    inside = [_cliques([agent for block in blocks for agent in block], k) for blocks in sets]
    steps = [
        [edge for cliques in inside if cliques for edge in cliques[step % len(cliques)]]
        for step in range(len(inside[0]))
    ]
    afterwards = [
        _side_by_side(_cliques(block, k) for block in blocks) for blocks in sets
    ]  # each has the mean, in itself
    for passed in range(len(sets) - 1):
        step = _pass_on(sets[passed:], k)
        for earlier in range(passed):
            step += _cyclic(afterwards[earlier], passed - earlier - 1)
        steps.append(step)
    for more in range(len(afterwards[0]) - len(sets) + 2):
        steps.append([edge for i, later in enumerate(afterwards) for edge in _cyclic(later, len(sets) - 2 - i + more)])
    return steps


def _pass_on(sets: Sequence[Sequence[Sequence[int]]], k: int) -> WeightedEdges:
    """Agents of the later sets receive from one agent of each block of the first; the rest average in cliques."""
    first, later = sets[0], [agent for blocks in sets[1:] for block in blocks for agent in block]
    size = sum(map(len, first))
    weight = size / (size + len(later)) / len(first)
    edges = [(agent, block[i], weight) for block in first for i, agent in enumerate(later)]
    idle = [agent for block in first for agent in block[len(later) :]]
    return edges + [edge for i in range(0, len(idle), k + 1) for edge in _clique(idle[i : i + k + 1])]


def _digits_of_size(agents: Sequence[int], k: int) -> list[list[Sequence[int]]]:
    """The agents in sets of a_i blocks of (k+1)^{p_i}: the digits of their number in base k + 1, largest first."""
    sets, begun, block = [], 0, 1
    while block * (k + 1) <= len(agents):
        block *= k + 1
    while begun < len(agents):
        ends = range(begun + block, len(agents) + 1, block)
        if ends:
            sets.append([agents[end - block : end] for end in ends])
            begun = ends[-1]
        block //= k + 1
    return sets


def _cliques(agents: Sequence[int], k: int) -> list[WeightedEdges]:
    """The hyper-hypercube of these agents: one step for each factor of their number."""
    steps, stride = [], 1
    for factor in reversed(_factors(len(agents), k)):
        heads = [i for i in range(len(agents)) if i // stride % factor == 0]
        steps.append([edge for i in heads for edge in _clique([agents[i + d * stride] for d in range(factor)])])
        stride *= factor
    return steps


def _clique(agents: Sequence[int]) -> WeightedEdges:
    return [(j, l, 1 / len(agents)) for j, l in combinations(agents, 2)]


def _side_by_side(parts: Iterable[list[WeightedEdges]]) -> list[WeightedEdges]:
    """Sequences of disjoint agents, run at the same time."""
    return [[edge for step in steps for edge in step] for steps in zip_longest(*parts, fillvalue=[])]


def _cyclic(steps: list[WeightedEdges], step: int) -> WeightedEdges:
    return steps[step % len(steps)] if steps and step >= 0 else []


def _factors(number: int, k: int) -> list[int]:
    """Factors of at most k + 1, the largest that fit first."""
    found = []
    for factor in range(k + 1, 1, -1):
        while number % factor == 0:
            found.append(factor)
            number //= factor
    return found


def _smooth_part(number: int, k: int) -> int:
    return int(np.prod(_factors(number, k), dtype=np.int64))


def _sequence(name: str, agents: int, steps: list[WeightedEdges]) -> GraphSequence:
    steps = steps or [[]]
    return GraphSequence(
        name, agents, len(steps), partial(_graph_of_step, name, agents, steps), partial(_union_of_steps, agents, steps)
    )


def _graph_of_step(name: str, agents: int, steps: list[WeightedEdges], step: int) -> Graph:
    table = np.array(steps[step], dtype=np.float64).reshape(-1, 3)
    pairs, weight = table[:, :2].astype(np.int64), table[:, 2]
    ends = np.concatenate([pairs, pairs[:, ::-1]])
    edges = csr_array((np.append(weight, weight), (ends[:, 0], ends[:, 1])), shape=(agents, agents))
    own: Vector = 1 - np.asarray(edges.sum(axis=1), dtype=np.float64)
    return Graph(with_diagonal(edges, own), name, part_of_sequence=True)


def _union_of_steps(agents: int, steps: list[WeightedEdges]) -> Graph:
    pairs = np.array([(j, l) for step in steps for j, l, _ in step], dtype=np.int64).reshape(-1, 2)
    return Graph(metropolis(adjacency(agents, pairs[:, 0], pairs[:, 1], both_ways=True)), "union")
