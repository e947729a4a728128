"""Graphs of newer papers: exact means, degrees, and edges against networkx."""

import networkx as nx
import numpy as np
import pytest

from crossgrad import graphs
from crossgrad.graphs.equi import shifts_of
from crossgrad.graphs.specs import GlobalAveragingSpec, OnePeerExponentialSpec, SpanningTreeSpec

# Steps to the exact mean as the authors' program has them, for 1 to 40 agents.
THEIRS = {
    ("base", 1): "1 1 3 2 5 4 5 3 7 6 7 5 7 6 7 4 9 8 9 7 9 8 9 6 9 8 9 7 9 8 9 5 11 10 11 9 11 10 11 8",
    ("base", 2): "1 1 1 2 3 2 4 3 2 4 5 3 5 5 4 4 5 3 6 5 5 6 6 4 6 6 3 6 7 5 7 5 6 6 7 4 7 7 6 6",
    ("base", 3): "1 1 1 1 3 2 3 2 2 4 4 2 4 4 4 2 5 3 5 4 4 5 5 3 5 5 3 4 5 5 5 3 5 6 6 3 6 6 5 5",
    ("simple", 1): "1 1 3 2 5 5 5 3 7 7 7 7 7 7 7 4 9 9 9 9 9 9 9 9 9 9 9 9 9 9 9 5 11 11 11 11 11 11 11 11",
    ("simple", 2): "1 1 1 2 3 2 4 3 2 5 5 3 5 5 5 4 5 3 6 6 6 6 6 4 6 6 3 7 7 7 7 5 7 7 7 4 7 7 7 7",
    ("simple", 3): "1 1 1 1 3 2 3 2 2 4 4 2 4 4 4 2 5 3 5 5 5 5 5 3 5 5 3 5 5 5 5 3 6 6 6 3 6 6 6 6",
}


@pytest.mark.parametrize(("kind", "neighbours"), THEIRS)
def test_base_graphs_reach_the_exact_mean_in_as_many_steps_as_their_authors(kind, neighbours):
    make = graphs.base_graph if kind == "base" else graphs.simple_base_graph
    for agents, period in enumerate(map(int, THEIRS[kind, neighbours].split()), start=1):
        sequence = make(agents, neighbours)
        product = np.eye(agents)
        for step in range(sequence.period):
            graph = sequence.at(step)
            assert graph.undirected
            assert graph.doubly_stochastic
            assert graph.degrees.max(initial=0) <= neighbours
            product = graph.dense() @ product
        np.testing.assert_allclose(product, 1 / agents, atol=1e-13)
        assert sequence.period == period


def test_every_edge_of_a_step_is_in_the_union():
    for sequence in (graphs.base_graph(11, 2), graphs.equi_dynamic(9), graphs.equi_dynamic(8, 2, directed=True)):
        union = sequence.union().dense() != 0
        for step in range(sequence.period or 30):
            assert not ((sequence.at(step).dense() != 0) & ~union).any()


def test_a_hyper_hypercube_refuses_large_prime_factors():
    assert graphs.hyper_hypercube(12, 2).period == 3
    with pytest.raises(
        ValueError, match=r"prime factors must be at most neighbours \+ 1 = 2; 6 has others\. Use base_graph"
    ):
        graphs.hyper_hypercube(6, 1)


@pytest.mark.parametrize("directed", [False, True])
def test_equi_static_is_the_mean_of_its_shifts(directed):
    agents, shifts = 9, shifts_of(9, 3, seed=4)
    expected = np.zeros((agents, agents))
    for a in shifts:
        P = np.roll(np.eye(agents), a, axis=1)
        one = (1 - 1 / agents) * P + np.eye(agents) / agents
        expected += (one if directed else (one + one.T) / 2) / len(shifts)
    graph = graphs.equi_static(agents, 3, directed, seed=4)
    np.testing.assert_allclose(graph.dense(), expected, atol=1e-15)
    assert graph.undirected is not directed


def test_equi_static_mixes_alike_for_any_number_of_agents():
    """Its mixing rate stays where that of a ring goes to one."""
    assert np.mean([graphs.equi_static(300, 10, seed=s).mixing_rate for s in range(4)]) < 0.85
    assert graphs.ring(300).mixing_rate > 0.999


def test_one_peer_graphs_of_equitopo_join_everybody_to_one_at_most():
    for directed in (False, True):
        sequence = graphs.equi_dynamic(10, directed=directed, seed=2)
        for step in range(20):
            W = sequence.at(step).dense()
            assert ((W - np.diag(np.diag(W))) != 0).sum(axis=1).max() == 1
            np.testing.assert_allclose(W[(W > 0) & ~np.eye(10, dtype=bool)], 0.45)


@pytest.mark.parametrize("agents", [1, 2, 7, 12])
def test_trees_are_trees(agents):
    for tree in (
        graphs.binary_tree(agents), graphs.spanning_tree(graphs.ring(agents)),
        graphs.spanning_tree(graphs.fully_connected(agents), agents - 1), graphs.chain(agents), graphs.star(agents),
    ):  # fmt: skip
        assert graphs.is_tree(tree)
        assert nx.is_tree(as_networkx(tree))
    assert not graphs.is_tree(graphs.ring(5))
    assert not graphs.is_tree(graphs.double_binary_tree(7))


def test_a_spanning_tree_keeps_the_distance_to_its_root():
    graph = graphs.erdos_renyi(20, seed=3)
    before, after = (nx.shortest_path_length(as_networkx(g), 4) for g in (graph, graphs.spanning_tree(graph, 4)))
    assert before == after
    with pytest.raises(ValueError, match="the base graph must be fixed"):
        SpanningTreeSpec(OnePeerExponentialSpec()).build(8, 0)


def test_named_graphs_are_those_of_networkx():
    for ours, theirs in (
        (graphs.petersen(), nx.petersen_graph()), (graphs.davis(), nx.davis_southern_women_graph()),
        (graphs.dyck(), nx.LCF_graph(32, [5, -5, 13, -13], 8)), (graphs.hypercube(16), nx.hypercube_graph(4)),
    ):  # fmt: skip
        assert nx.is_isomorphic(as_networkx(ours), theirs)
        assert ours.undirected
        assert ours.doubly_stochastic


def test_random_regular_graphs_have_the_degree_they_should_and_depend_on_the_seed():
    one, same, other = (graphs.random_regular(20, 5, seed=seed) for seed in (1, 1, 2))
    assert set(one.degrees) == {5}
    assert np.array_equal(one.dense(), same.dense())
    assert not np.array_equal(one.dense(), other.dense())
    anew = graphs.random_regular_each_step(10, 3)
    assert not np.array_equal(anew.at(0).dense(), anew.at(1).dense())
    with pytest.raises(ValueError, match="agents times neighbours must be even"):
        graphs.random_regular(5, 3)


def test_a_small_world_keeps_its_edges_and_shortens_the_ways():
    ring, world = (graphs.small_world(40, 4, rewired, seed=1) for rewired in (0, 0.3))
    assert ring.messages == world.messages == 160
    assert nx.diameter(as_networkx(world)) < nx.diameter(as_networkx(ring)) == 10


def test_global_averaging_averages_all_every_so_many_steps():
    sequence = GlobalAveragingSpec(OnePeerExponentialSpec(), every=3).build(8, 0)
    assert [sequence.at(step).messages for step in range(6)] == [8, 8, 56, 8, 8, 56]
    assert sequence.period == 3
    assert sequence.doubly_stochastic


def as_networkx(graph):
    W = graph.dense()
    return nx.from_numpy_array((W - np.diag(np.diag(W))) > 0)
