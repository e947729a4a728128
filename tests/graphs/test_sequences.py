"""Graphs that change from step to step."""

from functools import reduce

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from crossgrad.graphs import (
    GraphSequence,
    chain,
    exponential,
    from_matrix,
    fully_connected,
    one_peer_exponential,
    random_matchings,
    ring,
    star,
    uniform,
)


def product(sequence, steps):
    return reduce(lambda W, step: sequence.at(step).dense() @ W, range(steps), np.eye(sequence.agents))


@pytest.mark.parametrize("power", range(7))
def test_two_to_the_p_agents_average_exactly_in_p_steps(power):
    agents = 2**power
    sequence = one_peer_exponential(agents)
    assert np.array_equal(product(sequence, power), np.full((agents, agents), 1 / agents))
    assert sequence.mixing_rate == 0
    assert sequence.spectral_gap == 1


@pytest.mark.parametrize("agents", [3, 5, 6, 7, 8, 10, 33])
def test_in_step_k_everybody_hears_the_one_two_to_the_k_places_before(agents):
    sequence = one_peer_exponential(agents)
    period = int(np.ceil(np.log2(agents)))
    assert sequence.period == period
    for step in range(2 * period):
        expected = np.eye(agents) / 2
        for j in range(agents):
            expected[j, (j - 2 ** (step % period)) % agents] += 0.5
        assert np.array_equal(sequence.at(step).dense(), expected)
    assert sequence.doubly_stochastic
    assert sequence.messages == agents
    assert not sequence.undirected or agents == 2


@pytest.mark.parametrize("agents", [3, 5, 10, 12])
def test_the_rate_of_a_period_is_the_norm_of_its_product_per_step(agents):
    sequence = one_peer_exponential(agents)
    W = product(sequence, sequence.period) - 1 / agents
    expected = np.sqrt(np.linalg.eigvalsh(W.T @ W).max()) ** (1 / sequence.period)
    assert sequence.mixing_rate == pytest.approx(expected, abs=1e-12)
    assert sequence.rho == sequence.mixing_rate**2


def test_periodic_graphs_are_built_once():
    sequence = one_peer_exponential(8)
    assert sequence.at(1) is sequence.at(4)
    assert sequence.union() is sequence.union()


@settings(deadline=None, max_examples=30)
@given(st.integers(1, 15), st.integers(0, 50), st.integers(0, 10**6))
def test_a_matching_is_a_pure_function_of_seed_and_step(agents, seed, step):
    one, other = random_matchings(agents, seed), random_matchings(agents, seed)
    _ = [other.at(k) for k in range(3)]
    assert np.array_equal(one.at(step).dense(), other.at(step).dense())


def test_matchings_change_with_the_step_and_with_the_seed():
    sequence = random_matchings(20, seed=1)
    assert not np.array_equal(sequence.at(0).dense(), sequence.at(1).dense())
    assert not np.array_equal(sequence.at(0).dense(), random_matchings(20, seed=2).at(0).dense())
    assert sequence.period is None


def test_no_base_is_the_fully_connected_base():
    for step in range(5):
        one, other = random_matchings(9, 3), random_matchings(9, 3, base=fully_connected(9))
        assert np.array_equal(one.at(step).dense(), other.at(step).dense())
    assert np.array_equal(one.union().dense(), other.union().dense())


@pytest.mark.parametrize("agents", [4, 5, 40])
def test_nearly_everybody_has_a_partner_if_all_pairs_are_joined(agents):
    sequence = random_matchings(agents)
    assert sequence.messages == agents // 2 * 2
    assert sequence.undirected
    assert sequence.mutual
    assert sequence.doubly_stochastic


@pytest.mark.parametrize("make", [one_peer_exponential, lambda n: random_matchings(n, base=ring(n))])
def test_the_union_has_exactly_the_edges_that_ever_occur(make):
    sequence = make(9)
    ever = sum(sequence.at(step).dense() for step in range(100)) > 0
    assert np.array_equal(sequence.union().dense() > 0, ever)


def test_the_rate_of_random_matchings_is_near_its_expectation():
    agents = 6
    expected = np.sqrt(1 / 2 - 1 / (2 * (agents - 1)))  # E[W'W] = E[W] = I/2 + (11' - I) / (2 (N-1))
    assert random_matchings(agents).mixing_rate == pytest.approx(expected, abs=0.03)


def test_matchings_of_a_star_let_one_leaf_speak_at_a_time():
    sequence = random_matchings(5, base=star(5))
    assert sequence.messages == 2
    assert 0 < sequence.spectral_gap < 1


def test_an_undirected_version_joins_both_ways_in_every_step():
    directed = one_peer_exponential(9)
    sequence = directed.to_undirected()
    for step in range(5):
        heard = directed.at(step).dense() > 0
        assert np.array_equal(sequence.at(step).dense() > 0, heard | heard.T)
    assert sequence.undirected
    assert sequence.union().undirected
    assert sequence.period == directed.period


def test_a_sequence_of_one_graph_mixes_like_the_graph():
    for graph in ring(7), exponential(7), from_matrix(uniform(star(5).weights)):
        sequence = GraphSequence("same", graph.agents, 1, lambda step, graph=graph: graph, graph.union)
        assert sequence.mixing_rate == pytest.approx(graph.mixing_rate, abs=1e-15)
        assert sequence.row_stochastic == graph.row_stochastic


def test_the_rate_of_random_weights_that_lose_the_mean_is_not_made_up():
    graph = from_matrix(uniform(star(5).weights))
    sequence = GraphSequence("leaky", 5, None, graph.at, graph.union)
    with pytest.raises(ValueError, match="leaky: a mixing rate needs doubly stochastic weights; these are not"):
        _ = sequence.mixing_rate


@pytest.mark.parametrize("step", [-1, 0.5, True])
def test_what_is_no_step_is_refused(step):
    for sequence in one_peer_exponential(5), random_matchings(5):
        with pytest.raises(ValueError, match="step must be a whole number of at least 0"):
            sequence.at(step)


def test_sizes_that_differ_are_refused():
    with pytest.raises(ValueError, match="base must have 5 agents; found 6"):
        random_matchings(5, base=ring(6))
    with pytest.raises(ValueError, match="must have 5 agents; step 0 has 6"):
        GraphSequence("odd", 5, None, ring(6).at, ring(5).union).at(0)
    with pytest.raises(ValueError, match="period must be a whole number of at least 1; found 0"):
        GraphSequence("odd", 5, 0, ring(5).at, ring(5).union)


def test_matchings_of_a_directed_graph_are_refused():
    with pytest.raises(ValueError, match="pairs average both ways"):
        random_matchings(8, base=exponential(8))


def test_names_say_what_they_are():
    assert repr(one_peer_exponential(8)) == "GraphSequence('one-peer-exponential', 8 agents, period 3)"
    assert repr(ring(8)) == "Graph('ring', 8 agents, 16 messages)"


@pytest.mark.parametrize("period", [2, None])
def test_an_edge_that_the_union_lacks_is_named_instead_of_miscounted(period):
    sequence = GraphSequence("lacking", 4, period, lambda step: ring(4) if step % 2 else chain(4), lambda: chain(4))
    with pytest.raises(ValueError, match="in step 1 agent 0 receives from 3, which it lacks"):
        _ = sequence.union(), sequence.at(1)


def test_a_union_of_another_size_is_refused():
    with pytest.raises(ValueError, match="union graph must have 4 agents; it has 5"):
        GraphSequence("larger", 4, 1, lambda step: ring(4), lambda: ring(5)).union()
