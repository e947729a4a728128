"""Graphs from matrices and from networkx."""

import networkx as nx
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.sparse import coo_array

from crossgrad.graphs import from_matrix, from_networkx, ring


def test_a_matrix_comes_back_as_it_went_in(family):
    graph = family[1](7)
    for matrix in graph.dense(), graph.dense().tolist(), coo_array(graph.dense()):
        assert np.array_equal(from_matrix(matrix).dense(), graph.dense())


@pytest.mark.parametrize(
    ("matrix", "sentence"),
    [
        ([], r"shape \(0,\)"),
        ([[]], r"shape \(1, 0\)"),
        (np.empty((0, 0)), r"shape \(0, 0\)"),
        ([1.0, 0.0], r"shape \(2,\)"),
        (np.ones((2, 3)), r"shape \(2, 3\)"),
        (coo_array(np.ones((2, 3))), r"shape \(2, 3\)"),
        ([[1.0], [0.5, 0.5]], "rows of unequal length"),
        ([["1"]], "real numbers; found <U1"),
        ([[None]], "real numbers; found object"),
        ([[1j]], "real numbers; found complex128"),
    ],
)
def test_what_is_no_square_real_matrix_is_refused(matrix, sentence):
    with pytest.raises(ValueError, match=rf"^mine: .*{sentence}.*\.$"):
        from_matrix(matrix, "mine")


@settings(deadline=None, max_examples=25)
@given(st.integers(2, 12), st.integers(0, 100))
def test_an_undirected_networkx_graph_gets_metropolis_weights(agents, seed):
    g = nx.gnp_random_graph(agents, 0.4, seed=seed)
    g.add_edges_from(nx.path_graph(agents).edges)
    graph = from_networkx(g)
    assert graph.undirected
    joined = nx.to_numpy_array(g, nodelist=range(agents)) > 0
    assert np.array_equal(graph.dense() - np.diag(graph.dense().diagonal()) > 0, joined)


def test_a_networkx_edge_from_u_to_v_lets_v_hear_u():
    graph = from_networkx(nx.DiGraph([(0, 1), (1, 2), (2, 0), (0, 2)]))
    assert graph.neighbours(1).tolist() == [0]
    assert graph.neighbours(2).tolist() == [0, 1]
    assert graph.column_stochastic
    assert not graph.row_stochastic


def test_nodes_that_are_numbers_keep_them_and_others_are_numbered_in_order():
    assert from_networkx(nx.Graph([(2, 0), (0, 1)])).degrees.tolist() == [2, 1, 1]
    assert from_networkx(nx.Graph([("c", "a"), ("a", "b")])).degrees.tolist() == [1, 2, 1]


def test_networkx_weights_are_taken_and_the_rest_is_the_agents_own():
    g = nx.Graph(name="mine")
    g.add_weighted_edges_from([(0, 1, 0.25), (1, 2, 0.5)])
    assert from_networkx(g, "weight").dense().tolist() == [[0.75, 0.25, 0], [0.25, 0.25, 0.5], [0, 0.5, 0.5]]
    assert from_networkx(g).name == "mine"


def test_networkx_weights_of_a_directed_graph_stand_in_the_hearers_row():
    g = nx.DiGraph()
    g.add_weighted_edges_from([(0, 1, 0.25), (1, 0, 0.125), (1, 1, 0.75)])
    assert from_networkx(g, "weight").dense().tolist() == [[0.875, 0.125], [0.25, 0.75]]


def test_there_and_back_through_networkx_changes_nothing():
    g = nx.from_numpy_array(ring(9).dense())
    np.testing.assert_allclose(from_networkx(g, "weight").dense(), ring(9).dense(), atol=1e-15)


def test_one_node_is_one_agent():
    g = nx.empty_graph(1)
    assert from_networkx(g).dense().tolist() == from_networkx(g, "weight").dense().tolist() == [[1.0]]


@pytest.mark.parametrize(
    ("g", "sentence"),
    [
        (nx.Graph(), "one node at least; found none"),
        (nx.MultiGraph([(0, 1), (0, 1)]), "found a multigraph. Use nx.Graph"),
        (nx.Graph([(0, 1, {"weight": 1}), (2, 3, {"weight": 1})]), "found 2 parts"),
        (nx.Graph([(0, 1)]), "as 'weight'; found None from 0 to 1"),
        (nx.Graph([(0, 1, {"weight": "much"})]), "found 'much' from 0 to 1"),
        (nx.Graph([(0, 1, {"weight": -0.5})]), "found -0.5 from 0 to 1"),
        (nx.Graph([(0, 1, {"weight": float("nan")})]), "found nan from 0 to 1"),
        (nx.Graph([(0, 1, {"weight": 0.75}), (1, 2, {"weight": 0.5})]), "agent 1 .* at most 1; found 1.25"),
    ],
)
def test_a_networkx_graph_that_does_not_do_is_refused_in_a_sentence(g, sentence):
    with pytest.raises(ValueError, match=sentence):
        from_networkx(g, "weight")
