"""Matchings and single pairs."""

from collections import Counter

import networkx as nx
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.sparse import csr_array

from crossgrad.graphs import (
    Graph,
    chain,
    erdos_renyi,
    exponential,
    from_networkx,
    fully_connected,
    random_pairs,
    ring,
    star,
    uniform,
)
from crossgrad.graphs.pairs import edges_of, random_matching


def edges(graph):
    return {(j, int(other)) for j in range(graph.agents) for other in graph.neighbours(j) if j < other}


def as_networkx(graph):
    g = nx.Graph(edges(graph))
    g.add_nodes_from(range(graph.agents))
    return g


@settings(deadline=None, max_examples=30)
@given(st.integers(1, 12), st.integers(0, 1000))
def test_random_pairs_are_a_maximal_matching_of_the_edges(agents, seed):
    graph = erdos_renyi(agents, 0.5, seed) if agents > 2 else chain(agents)
    step = random_pairs(graph, np.random.default_rng(seed))
    assert nx.is_maximal_matching(as_networkx(graph), edges(step))
    assert set(step.weights.data) <= {0.5, 1.0}
    assert step.undirected
    assert step.doubly_stochastic


@settings(deadline=None, max_examples=30)
@given(st.integers(0, 1000))
def test_the_matching_is_that_of_the_edges_gone_through_one_by_one(seed):
    graph = erdos_renyi(30, seed=seed)
    pairs = edges_of(graph)
    order = np.argsort(np.random.default_rng(seed).permutation(len(pairs)))
    expected, used = set(), set()
    for j, other in pairs[order].tolist():
        if not {j, other} & used:
            expected.add((j, other))
            used |= {j, other}
    found = random_matching(30, pairs, np.random.default_rng(seed))
    assert set(map(tuple, found.tolist())) == expected


@pytest.mark.parametrize("agents", [5, 8])
def test_all_edges_of_a_fully_connected_graph_are_equally_likely(agents):
    rng = np.random.default_rng(0)
    count = Counter(edge for _ in range(800) for edge in edges(random_pairs(fully_connected(agents), rng)))
    pairs = agents * (agents - 1) // 2
    expected = 800 * (agents // 2) / pairs
    assert len(count) == pairs
    assert all(abs(n - expected) <= 5 * np.sqrt(expected) for n in count.values())


def test_a_single_pair_is_a_uniform_agent_and_a_uniform_neighbour_of_it():
    rng = np.random.default_rng(0)
    graph = from_networkx(nx.Graph([(0, 1), (1, 2), (2, 3), (1, 3)]))
    count = Counter(edge for _ in range(2000) for edge in edges(random_pairs(graph, rng, single=True)))
    assert sum(count.values()) == 2000
    chance = {(0, 1): 1 + 1 / 3, (1, 2): 1 / 3 + 1 / 2, (2, 3): 1 / 2 + 1 / 2, (1, 3): 1 / 3 + 1 / 2}
    for edge, p in chance.items():
        assert count[edge] / 2000 == pytest.approx(p / 4, abs=0.05)


def test_in_a_single_pair_two_average_and_all_others_keep_theirs():
    W = random_pairs(ring(6), np.random.default_rng(0), single=True).dense()
    moved = np.flatnonzero(np.diag(W) != 1)
    assert len(moved) == 2
    assert np.array_equal(W[np.ix_(moved, moved)], np.full((2, 2), 0.5))
    kept = np.setdiff1d(np.arange(6), moved)
    assert np.array_equal(W[kept], np.eye(6)[kept])


@pytest.mark.parametrize("single", [False, True])
def test_one_agent_keeps_its_own(single):
    assert random_pairs(ring(1), np.random.default_rng(0), single).dense().tolist() == [[1.0]]


@pytest.mark.parametrize("single", [False, True])
def test_a_step_without_edges_has_no_pairs(single):
    apart = Graph(csr_array(np.eye(3)), part_of_sequence=True)
    assert np.array_equal(random_pairs(apart, np.random.default_rng(0), single).dense(), np.eye(3))


@pytest.mark.parametrize("single", [False, True])
def test_the_same_generator_gives_the_same_pairs(single):
    one, again = (random_pairs(ring(20), np.random.default_rng(3), single) for _ in range(2))
    assert np.array_equal(one.dense(), again.dense())


@pytest.mark.parametrize("single", [False, True])
def test_pairs_need_edges_both_ways_but_not_equal_weights(single):
    with pytest.raises(ValueError, match=r"exponential: pairs average both ways.*to_undirected"):
        random_pairs(exponential(8), np.random.default_rng(0), single)
    assert random_pairs(Graph(uniform(star(5).weights)), np.random.default_rng(0), single).messages == 2
