"""What a graph promises, and what it refuses."""

import ast
import pickle
import sys
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.sparse import coo_array, csr_array

from crossgrad import graphs
from crossgrad.graphs import Graph, adjacency, chain, exponential, from_matrix, ring, star, torus, uniform


def test_weights_are_float64_sorted_and_without_zeros_whatever_comes_in():
    W = csr_array((np.array([1, 0, 1]), np.array([1, 0, 0]), np.array([0, 2, 3])), shape=(2, 2))
    graph = Graph(W)
    assert graph.weights.dtype == np.float64
    assert graph.weights.has_sorted_indices
    assert graph.weights.indices.tolist() == [1, 0]
    assert W.nnz == 3, "the argument is left as it was"


def test_duplicate_entries_add_up():
    twice = coo_array(([0.25] * 8, ([0, 0, 1, 1] * 2, [0, 1, 0, 1] * 2)))
    assert np.array_equal(from_matrix(twice).dense(), np.full((2, 2), 0.5))


def test_neighbours_are_the_others_with_a_weight_in_ascending_order(family):
    graph = family[1](12)
    dense = graph.dense()
    for j in range(12):
        expected = [other for other in range(12) if other != j and dense[j, other] > 0]
        assert graph.neighbours(j).tolist() == expected
        assert graph.neighbours(j).dtype == np.int64
        assert graph.degrees[j] == len(expected)
    assert graph.messages == sum(graph.degrees) == np.count_nonzero(dense - np.diag(np.diag(dense)))


@pytest.mark.parametrize("j", [-1, 5])
def test_an_agent_that_is_not_there_has_no_neighbours(j):
    with pytest.raises(ValueError, match=f"an agent must be one of 0 to 4; found {j}"):
        ring(5).neighbours(j)


def test_a_fixed_graph_is_the_sequence_that_repeats_after_one_step():
    graph = ring(5)
    assert graph.at(0) is graph.at(7) is graph.union() is graph
    assert graph.period == 1


def test_undirected_means_symmetric_weights_and_mutual_only_symmetric_edges():
    unequal = Graph(uniform(star(4).weights))
    assert (star(4).undirected, star(4).mutual) == (True, True)
    assert (unequal.undirected, unequal.mutual) == (False, True)
    assert (exponential(8).undirected, exponential(8).mutual) == (False, False)


def test_rows_or_columns_that_sum_to_one_suffice():
    columns = Graph(uniform(star(4).weights))
    rows = from_matrix(columns.dense().T)
    assert (columns.row_stochastic, columns.column_stochastic) == (False, True)
    assert (rows.row_stochastic, rows.column_stochastic) == (True, False)
    assert not columns.doubly_stochastic
    assert not rows.doubly_stochastic


def test_to_undirected_joins_both_ways_with_symmetric_weights():
    directed = exponential(11)
    graph = directed.to_undirected()
    assert graph.undirected
    assert graph.doubly_stochastic
    heard = directed.dense() > 0
    assert np.array_equal(graph.dense() > 0, heard | heard.T)
    assert (graph.name, directed.to_undirected("mine").name) == ("exponential", "mine")


def test_to_undirected_changes_nothing_in_a_graph_with_metropolis_weights():
    assert np.array_equal(torus(12).to_undirected().dense(), torus(12).dense())


@settings(deadline=None, max_examples=25)
@given(st.permutations(range(9)))
def test_renumbering_the_agents_changes_neither_degrees_nor_spectrum(order):
    graph = chain(9)
    renumbered = from_matrix(graph.dense()[np.ix_(order, order)])
    assert renumbered.degrees.tolist() == graph.degrees[list(order)].tolist()
    assert renumbered.mixing_rate == pytest.approx(graph.mixing_rate, abs=1e-13)
    assert renumbered.doubly_stochastic


def test_one_step_of_a_sequence_may_fall_apart_but_a_graph_may_not():
    apart = csr_array(np.eye(3))
    assert Graph(apart, part_of_sequence=True).mixing_rate == 1
    with pytest.raises(ValueError, match="found 3 parts: agents 0 and 1 are in different ones"):
        Graph(apart)


def test_a_graph_with_a_way_there_but_none_back_is_refused():
    with pytest.raises(ValueError, match="lonely: every agent must be reached from every other"):
        from_matrix([[1, 0], [0.5, 0.5]], "lonely")


@pytest.mark.parametrize(
    ("matrix", "sentence"),
    [
        ([[0.5, 0.5], [0.5, np.nan]], "found nan for agent 1 in the average of agent 1"),
        ([[0.5, np.inf], [0.5, 0.5]], "found inf for agent 1 in the average of agent 0"),
        ([[1.5, -0.5], [-0.5, 1.5]], "found -0.5 for agent 1 in the average of agent 0"),
        ([[0.5, 0.4], [0.5, 0.5]], "found 0.9 in row 0 and 0.9 in column 1"),
    ],
)
def test_bad_weights_are_named(matrix, sentence):
    with pytest.raises(ValueError, match=sentence):
        Graph(csr_array(np.array(matrix)))


@pytest.mark.parametrize(
    ("weights", "sentence"),
    [
        (np.eye(2), "must be a csr_array; found ndarray. Use from_matrix"),
        (csr_array((0, 0)), r"found the shape \(0, 0\)"),
        (csr_array((2, 3)), r"found the shape \(2, 3\)"),
        (csr_array(np.eye(2) * 1j), "must be real numbers; found complex128"),
    ],
)
def test_what_is_no_square_real_matrix_is_refused(weights, sentence):
    with pytest.raises(ValueError, match=sentence):
        Graph(weights)


def test_sums_may_be_off_by_rounding_only():
    Graph(csr_array(np.full((3, 3), 1 / 3 + 1e-10)))
    with pytest.raises(ValueError, match="sum to one"):
        Graph(csr_array(np.full((3, 3), 1 / 3 + 1e-8)))


def test_a_graph_survives_pickling(any_family):
    graph = any_family[1](6)
    again = pickle.loads(pickle.dumps(graph))
    for step in range(3):
        assert np.array_equal(again.at(step).dense(), graph.at(step).dense())


def test_ten_thousand_agents_on_a_ring_take_a_few_megabytes():
    weights = ring(10_000).weights
    assert weights.data.nbytes + weights.indices.nbytes + weights.indptr.nbytes < 1e6
    assert adjacency(10_000, [0], [1]).nnz == 1


def test_graphs_import_numpy_and_scipy_only():
    allowed = {"numpy", "scipy", "crossgrad", *sys.stdlib_module_names}
    for file in Path(graphs.__file__).parent.glob("*.py"):
        for node in ast.parse(file.read_text()).body:
            names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            names += [node.module] if isinstance(node, ast.ImportFrom) else []
            assert {name.split(".")[0] for name in names} <= allowed, file.name
            own = [name for name in names if name.startswith("crossgrad")]
            below = ("crossgrad.graphs", "crossgrad._numerics", "crossgrad._registry")
            assert all(name.startswith(below) for name in own)


def test_edges_are_the_entries_off_the_diagonal_sorted_by_receiver(family):
    graph = family[1](9).union()
    dense = graph.dense() * (1 - np.eye(9))
    receiver, sender, weight = graph.edges
    assert np.array_equal(np.stack([receiver, sender]), np.stack(np.nonzero(dense)))
    assert np.array_equal(weight, dense[receiver, sender])
