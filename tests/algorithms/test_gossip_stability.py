"""The error that compressed gossip tolerates, against simulations with errors of that size."""

import numpy as np
import pytest
import torch

from crossgrad import graphs
from crossgrad.algorithms import DPSGD, gossip_stability
from crossgrad.algorithms.gossip_choice import ENOUGH, enough_rounds
from crossgrad.algorithms.gossip_mixing import fastest_gamma, rate_with
from crossgrad.algorithms.gossip_rounds import Gossip
from crossgrad.algorithms.gossip_stability import safe_gamma, tolerated_error
from crossgrad.codecs import Quantised, TopK


def growth(W, rounds, gamma, error, corrected, lazy, steps=60, numbers=200):
    """Mean factor per step by which rounding errors grow: gossip with dense matrices and random errors of that size."""
    rng, N = np.random.default_rng(0), len(W)
    rate = np.abs(np.linalg.eigvalsh((1 - gamma) * np.eye(N) + gamma * W)[:-1]).max()
    x = before = np.zeros((N, numbers))
    hat = rng.normal(size=(N, numbers))
    sizes = []
    for _ in range(steps):
        start, before = (2 * x - before if corrected else x), x
        z, z_before, omega = start, start, 2.0
        for number in range(rounds):
            d = z - hat
            hat = z + rng.normal(size=d.shape) * (error * (d**2).mean(axis=1, keepdims=True)) ** 0.5
            moved = z + gamma * (W @ hat - hat)
            if number:
                omega = 1 / (1 - rate**2 * omega / 4)
                moved = omega * (moved - z_before) + z_before
            z_before, z = z, moved
        x = lazy * start + (1 - lazy) * z
        sizes.append(float(((z - hat) ** 2).mean()))
    return (sizes[-1] / sizes[steps // 2]) ** (1 / (steps - steps // 2))


@pytest.mark.parametrize("graph", [graphs.ring(10), graphs.bipartite(8), graphs.torus(12)], ids=lambda g: g.name)
@pytest.mark.parametrize(("rounds", "gamma"), [(1, 1.0), (2, 0.8), (4, 1.0), (4, 0.5)])
def test_errors_below_what_is_tolerated_die_out_and_those_above_grow(graph, rounds, gamma):
    W, lazy = graph.dense(), 0.5
    limit = tolerated_error(graph.dense(), rounds, gamma, chebyshev=True, lazy=lazy)
    assert 0 < limit < 1
    both = [[growth(W, rounds, gamma, f * limit, corrected, lazy) for corrected in (False, True)] for f in (0.6, 2.5)]
    assert max(both[0]) < 1
    assert max(both[1]) > 1


def test_the_limit_is_at_most_one_because_an_error_enters_the_next_difference():
    assert tolerated_error(np.ones((1, 1)), 1, 1.0) == 1.0
    assert 0.97 < tolerated_error(graphs.ring(5).dense(), 1, 0.01) < 1.0


@pytest.mark.parametrize("rounds", [1, 2, 4, 8])
def test_a_safe_gamma_tolerates_the_codec_and_a_larger_one_does_not(rounds):
    weights, error = graphs.ring(40).dense(), Quantised(4).relative_error(2410)
    gamma = safe_gamma(weights, error, rounds, chebyshev=True, lazy=0.5)
    assert tolerated_error(weights, rounds, gamma, True, 0.5) >= 2 * error
    if gamma < 1:
        assert tolerated_error(weights, rounds, round(gamma + 0.05, 2), True, 0.5) < 2 * error


def test_a_codec_that_loses_too_much_is_refused_with_what_is_needed():
    with pytest.raises(ValueError, match=r"no step size of the gossip is safe.*Take a finer codec"):
        safe_gamma(graphs.ring(10).dense(), 1.2, 2)


@pytest.mark.parametrize("bits", [2, 4, 8])
def test_the_stated_error_is_that_of_normal_numbers(bits):
    p = torch.randn(64, 3000, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    codec = Quantised(bits)
    lost = (codec.decode(codec.encode(p, [3000]), [3000]) - p).square().sum() / p.square().sum()
    assert codec.relative_error(3000) == pytest.approx(float(lost), rel=0.25)


def test_gamma_is_chosen_where_none_is_given(world):
    w = world(graphs.ring(10))
    chosen = safe_gamma(w.graph.dense(), Quantised(4).relative_error(w.x0.shape[1]), 3, True, 0.0)
    assert chosen != 1
    by_itself = w.run(Gossip(Quantised(4), 3, True).around(DPSGD()), 3)[-1].x
    again = world(graphs.ring(10)).run(Gossip(Quantised(4), 3, True, chosen).around(DPSGD()), 3)[-1].x
    assert by_itself.equal(again)


def test_a_codec_that_does_not_state_its_error_has_gamma_one(world):
    by_itself = world(graphs.ring(6)).run(Gossip(TopK(0.5), 2).around(DPSGD()), 3)[-1].x
    assert by_itself.equal(world(graphs.ring(6)).run(Gossip(TopK(0.5), 2, gamma=1.0).around(DPSGD()), 3)[-1].x)


def test_directed_weights_are_told_to_choose_gamma():
    with pytest.raises(ValueError, match=r"set gossip\.gamma"):
        _ = graphs.exponential(6).eigenvalues


@pytest.mark.parametrize("graph", [graphs.bipartite(40), graphs.ring(10)], ids=lambda g: g.name)
def test_the_fastest_gamma_mixes_fastest_and_may_be_above_one(graph):
    eigenvalues = tuple(graph.eigenvalues)
    fastest = fastest_gamma(eigenvalues)
    assert fastest > 1
    rates = {gamma: rate_with(eigenvalues, gamma) for gamma in np.linspace(0.05, 2, 40)}
    assert all(rate >= rate_with(eigenvalues, fastest) for rate in rates.values())
    assert rate_with(eigenvalues, 1.0) == pytest.approx(graph.mixing_rate)


def test_accelerated_rounds_with_a_gamma_above_one_mix_faster_and_keep_the_mean(world):
    w = world(graphs.bipartite(10))
    fastest = fastest_gamma(tuple(w.graph.eigenvalues))

    def spread(gamma):
        x = w.run(Gossip(Quantised(8), 3, True, gamma).around(DPSGD()), 1, lr=0.0)[-1].x
        assert torch.allclose(x.mean(0), w.x0.mean(0), atol=1e-6)
        return float((x - x.mean(0)).norm() / (w.x0 - w.x0.mean(0)).norm())

    assert fastest > 1.2
    assert spread(fastest) < 0.75 * spread(1.0)
    with pytest.raises(ValueError, match=r"gamma = 2 makes models that differ grow apart on this graph"):
        spread(2.0)


def test_a_gamma_above_one_needs_a_codec_and_accelerated_rounds():
    for gossip in ({}, {"chebyshev": True, "rounds": 2}, {"codec": Quantised(4)}):
        with pytest.raises(ValueError, match="gamma must be above 0 and at most 1, or more with a codec and chebyshev"):
            Gossip(gamma=1.5, **gossip)


def test_averaged_over_agents_the_limit_is_the_same_where_all_agents_are_alike(monkeypatch):
    W, alike = graphs.bipartite(12).dense(), graphs.ring(12).dense()
    by_agent = [tolerated_error(each, 2, 0.9, True, 0.5) for each in (alike, W)]
    monkeypatch.setattr(gossip_stability, "MOST_AGENTS", 1)
    gossip_stability._tolerated.cache_clear()
    averaged = [tolerated_error(each, 2, 0.9, True, 0.5) for each in (alike, W)]
    gossip_stability._tolerated.cache_clear()
    assert averaged[0] == pytest.approx(by_agent[0], rel=1e-3)
    assert averaged[1] > 1.2 * by_agent[1]  # too hopeful where there are hubs


def test_fewer_rounds_than_are_enough_leave_more():
    W, error = graphs.bipartite(12).dense(), Quantised(4).relative_error(2410)
    choice = enough_rounds(W, error)
    assert choice.left <= ENOUGH
    assert tolerated_error(W, choice.rounds, choice.gamma, True, choice.lazy) >= 2 * error
    assert choice.rounds > 1
    assert enough_rounds(W, error, most=choice.rounds - 1).left > ENOUGH
