"""Mixing rates against closed forms and against numpy's eigenvalues of the dense matrix."""

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from scipy.sparse import csr_array

from crossgrad.graphs import (
    Graph,
    adjacency,
    bipartite,
    chain,
    erdos_renyi,
    exponential,
    from_matrix,
    fully_connected,
    one_peer_exponential,
    ring,
    spectrum,
    star,
    torus,
    uniform,
)


def second_modulus(W):
    """Largest modulus among the eigenvalues but for one of 1, from the general solver."""
    return np.sort(np.abs(np.linalg.eigvals(W)))[-2] if len(W) > 1 else 0.0


PAPER = [
    (fully_connected, 5, 0.0, 25),
    (fully_connected, 10, 0.0, 100),
    (fully_connected, 40, 0.0, 1600),
    (ring, 5, 0.5393, 15),
    (ring, 10, 0.8727, 30),
    (ring, 40, 0.9918, 120),
    (bipartite, 5, 0.50, 17),
    (bipartite, 10, 0.78, 42),
    (bipartite, 40, 0.96, 192),
]


@pytest.mark.parametrize(("make", "agents", "rate", "nonzeros"), PAPER)
def test_the_papers_nine_graphs_have_their_spectra_and_their_numbers_of_weights(make, agents, rate, nonzeros):
    graph = make(agents)
    assert graph.mixing_rate == pytest.approx(rate, abs=5e-5)
    assert graph.weights.nnz == nonzeros
    assert graph.messages == nonzeros - agents
    assert graph.doubly_stochastic
    assert graph.undirected


def test_rate_rho_and_gap_are_one_number_for_symmetric_weights(family):
    graph = family[1](12).to_undirected()
    assert graph.mixing_rate == pytest.approx(second_modulus(graph.dense()), abs=1e-12)
    assert graph.rho == graph.mixing_rate**2
    assert graph.spectral_gap == 1 - graph.mixing_rate


def test_one_averaging_never_shrinks_disagreement_less_than_the_rate_says(family):
    graph = family[1](12)
    x = np.random.default_rng(0).standard_normal((12, 50))
    x -= x.mean(axis=0)
    shrunk = np.linalg.norm(graph.weights @ x, axis=0) / np.linalg.norm(x, axis=0)
    assert shrunk.max() <= graph.mixing_rate + 1e-14


def test_directed_but_doubly_stochastic_weights_go_by_the_largest_singular_value():
    j = np.arange(7)
    graph = Graph(uniform(adjacency(7, j, (j + 1) % 7)))
    assert graph.mixing_rate == pytest.approx(np.cos(np.pi / 7), abs=1e-14)


def test_weights_that_are_stochastic_in_one_way_only_go_by_the_second_eigenvalue():
    columns = uniform(star(6).weights)
    expected = second_modulus(columns.toarray())
    assert Graph(columns).mixing_rate == pytest.approx(expected, abs=1e-14)
    assert Graph(csr_array(columns.T)).mixing_rate == pytest.approx(expected, abs=1e-14)


def test_averaging_that_only_swaps_never_mixes():
    assert from_matrix([[0, 1], [1, 0]]).mixing_rate == pytest.approx(1)


@pytest.mark.parametrize("agents", [10_000, 10_001])
def test_the_ring_of_ten_thousand_agents_has_its_closed_form(agents):
    assert ring(agents).mixing_rate == pytest.approx((1 + 2 * np.cos(2 * np.pi / agents)) / 3, abs=1e-14)


def test_the_chain_of_ten_thousand_agents_has_its_closed_form():
    assert chain(10_000).mixing_rate == pytest.approx((1 + 2 * np.cos(np.pi / 10_000)) / 3, abs=1e-14)


def test_the_torus_of_ten_thousand_agents_has_its_closed_form():
    assert torus(10_000).mixing_rate == pytest.approx((3 + 2 * np.cos(2 * np.pi / 100)) / 5, abs=1e-13)


def test_the_directed_ring_of_ten_thousand_agents_has_its_closed_form():
    j = np.arange(10_000)
    graph = Graph(uniform(adjacency(10_000, j, (j + 1) % 10_000)))
    assert graph.mixing_rate == pytest.approx(np.cos(np.pi / 10_000), abs=1e-14)


@pytest.mark.parametrize(("agents", "rate"), [(10_000, 1.0), (10_001, np.cos(np.pi / 10_001))])
def test_a_long_ring_without_own_weights_is_judged_by_its_lowest_eigenvalue(agents, rate):
    edges = ring(agents).weights * 1.5
    edges.setdiag(0)
    assert Graph(edges).mixing_rate == pytest.approx(rate, abs=1e-12)


@pytest.mark.parametrize("make", [fully_connected, star, torus, erdos_renyi, exponential])
def test_the_sparse_route_agrees_with_the_dense_one(make, monkeypatch):
    dense = make(90).mixing_rate
    monkeypatch.setattr(spectrum, "MAX_DENSE_AGENTS", 2)
    assert make(90).mixing_rate == pytest.approx(dense, abs=1e-12)


@settings(deadline=None, max_examples=10)
@given(st.integers(0, 100))
@example(79)  # two pairs of eigenvalues whose moduli agree to 1e-4
def test_the_sparse_route_agrees_on_random_column_and_row_stochastic_weights(seed):
    W = np.random.default_rng(seed).random((60, 60)) ** 4
    for weights in W / W.sum(axis=0), W / W.sum(axis=1, keepdims=True):
        rate = spectrum._sparse_rate([csr_array(weights)])
        assert rate == pytest.approx(second_modulus(weights), abs=1e-10)


@pytest.mark.parametrize("agents", [60, 64])
def test_the_sparse_route_agrees_on_products(agents, monkeypatch):
    dense = one_peer_exponential(agents).mixing_rate
    monkeypatch.setattr(spectrum, "MAX_DENSE_AGENTS", 2)
    assert one_peer_exponential(agents).mixing_rate == pytest.approx(dense, abs=1e-12)


def test_a_rate_that_cannot_be_found_is_no_number_but_a_sentence(monkeypatch):
    monkeypatch.setattr(spectrum, "MAX_ARPACK_ITERATIONS", 5)
    slow = uniform(chain(1500).weights)
    with pytest.raises(ValueError, match="1,500 agents is so near to one"):
        _ = Graph(slow).mixing_rate
