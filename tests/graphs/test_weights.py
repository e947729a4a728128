"""Metropolis and uniform weights."""

import networkx as nx
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from crossgrad.graphs import Graph, adjacency, metropolis, uniform


@st.composite
def connected(draw, directed=False):
    """The pairs (j, l) of a random graph on up to 9 agents that has a closed walk through all of them."""
    agents = draw(st.integers(1, 9))
    some = st.integers(0, agents - 1)
    extra = draw(st.lists(st.tuples(some, some), max_size=20))
    around = [(j, (j + 1) % agents) for j in range(agents)]
    return agents, around + extra if directed else around[:-1] + extra


@settings(deadline=None, max_examples=40)
@given(connected())
def test_metropolis_weights_follow_their_formula_and_are_symmetric_and_doubly_stochastic(drawn):
    agents, edges = drawn
    receiver, sender = np.array(edges, dtype=int).reshape(-1, 2).T
    W = metropolis(adjacency(agents, receiver, sender, both_ways=True)).toarray()

    g = nx.Graph([(j, other) for j, other in edges if j != other])
    g.add_nodes_from(range(agents))
    expected = np.zeros((agents, agents))
    for j, other in g.edges:
        expected[j, other] = expected[other, j] = 1 / (1 + max(g.degree[j], g.degree[other]))
    expected += np.diag(1 - expected.sum(axis=1))

    np.testing.assert_allclose(W, expected, atol=1e-15)
    assert np.array_equal(W, W.T)
    np.testing.assert_allclose(W.sum(axis=0), 1, atol=1e-15)
    assert Graph(metropolis(adjacency(agents, receiver, sender, both_ways=True))).undirected


@settings(deadline=None, max_examples=40)
@given(connected(directed=True))
def test_uniform_weights_split_every_senders_mass_equally(drawn):
    agents, edges = drawn
    receiver, sender = np.array(edges, dtype=int).T
    W = uniform(adjacency(agents, receiver, sender)).toarray()
    for l in range(agents):
        receivers = {j for j, other in edges if other == l} | {l}
        assert set(np.flatnonzero(W[:, l])) == receivers
        np.testing.assert_allclose(W[list(receivers), l], 1 / len(receivers), rtol=1e-15)
    assert Graph(uniform(adjacency(agents, receiver, sender))).column_stochastic


@settings(deadline=None, max_examples=40)
@given(st.integers(2, 5))
def test_uniform_equals_metropolis_on_a_regular_graph(dimension):
    cube = nx.hypercube_graph(dimension)
    A = adjacency(2**dimension, *np.array(nx.to_numpy_array(cube)).nonzero())
    assert np.array_equal(uniform(A).toarray(), metropolis(A).toarray())


def test_uniform_weights_of_an_irregular_undirected_graph_are_column_stochastic_only():
    graph = Graph(uniform(adjacency(4, [0, 0, 0], [1, 2, 3], both_ways=True)))
    assert graph.column_stochastic
    assert not graph.row_stochastic


def test_loops_sizes_and_repetitions_of_entries_do_not_matter():
    plain = adjacency(3, [0, 1], [1, 2], both_ways=True)
    odd = adjacency(3, [0, 1, 0, 2, 0], [1, 2, 1, 2, 0], both_ways=True) * 7.5
    for weights in metropolis, uniform:
        assert np.array_equal(weights(odd).toarray(), weights(plain).toarray())


@pytest.mark.parametrize(("receiver", "sender"), [(0, 2), (2, 0)])
def test_metropolis_names_an_edge_that_goes_one_way(receiver, sender):
    sentence = f"{receiver} receives from {sender} but {sender} not from {receiver}"
    with pytest.raises(ValueError, match=sentence):
        metropolis(adjacency(3, [receiver, 0, 1], [sender, 1, 0]))
