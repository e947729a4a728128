"""Random graphs: their law, their seeds and what cannot be drawn."""

import numpy as np
import pytest

from crossgrad.graphs import erdos_renyi
from crossgrad.graphs.random_graphs import _random_pairs


def test_every_pair_is_drawn_with_the_given_probability_independently_of_the_others():
    rng = np.random.default_rng(0)
    draws, p = 2000, 0.3
    joined = np.zeros((draws, 7, 7))
    for i in range(draws):
        joined[i][_random_pairs(7, p, rng)] = 1
    upper = joined[:, *np.triu_indices(7, 1)]
    assert joined.sum() == upper.sum(), "pairs come with the smaller number first"
    tolerance = 5 * np.sqrt(p * (1 - p) / draws)
    np.testing.assert_allclose(upper.mean(axis=0), p, atol=tolerance)
    np.testing.assert_allclose(np.corrcoef(upper.T), np.eye(21), atol=5 / np.sqrt(draws))


@pytest.mark.parametrize("agents", [1, 2, 3, 10, 200])
def test_with_probability_one_all_pairs_are_drawn_once_and_in_order(agents):
    first, second = _random_pairs(agents, 1.0, np.random.default_rng(0))
    assert np.array_equal(np.lexsort((first, second)), np.arange(first.size))
    assert len(set(zip(first.tolist(), second.tolist(), strict=True))) == agents * (agents - 1) // 2
    assert np.all(first < second)
    assert np.all(second < agents)


def test_the_last_pair_of_a_million_agents_is_numbered_without_rounding():
    rng = np.random.default_rng(0)
    first, second = _random_pairs(1_000_000, 1e-9, rng)
    assert np.all((first >= 0) & (first < second) & (second < 1_000_000))


@pytest.mark.parametrize("p", [1e-300, 1e-18])
def test_a_probability_next_to_nothing_draws_nothing(p):
    assert _random_pairs(1000, p, np.random.default_rng(0))[0].size == 0


def test_the_same_seed_gives_the_same_graph_and_another_seed_another():
    one, again, other = (erdos_renyi(20, 0.3, seed=seed).dense() for seed in (1, 1, 2))
    assert np.array_equal(one, again)
    assert not np.array_equal(one, other)


def test_by_default_about_two_n_log_n_messages():
    graph = erdos_renyi(1000)
    assert graph.messages == pytest.approx(2 * 1000 * np.log(1000), rel=0.05)


def test_a_graph_that_falls_apart_is_drawn_again():
    for seed in range(20):
        assert erdos_renyi(10, 0.2, seed).spectral_gap > 0


def test_what_is_never_connected_is_said_with_a_probability_that_would_do():
    with pytest.raises(ValueError, match=r"none of 100 .* Raise the probability, to 0\.092 say"):
        erdos_renyi(100, 0.001)


@pytest.mark.parametrize("probability", [0, -0.1, 1.1, float("nan"), True, "0.5"])
def test_what_is_no_probability_is_refused(probability):
    with pytest.raises(ValueError, match="probability must be a number above 0 and at most 1"):
        erdos_renyi(5, probability)


@pytest.mark.parametrize("seed", [-1, 0.5, None, True])
def test_what_is_no_seed_is_refused(seed):
    with pytest.raises(ValueError, match="seed must be a whole number of at least 0"):
        erdos_renyi(5, 0.5, seed)
