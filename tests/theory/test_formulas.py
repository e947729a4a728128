"""The formulas against the paper's own text, and against one another."""

import math
from dataclasses import astuple, replace

import numpy as np
import pytest

from crossgrad._training.schedule import Constant, Cosine, Exponential, WarmUp
from crossgrad.graphs import bipartite, fully_connected, ring
from crossgrad.theory import (
    Constants,
    corrected_bound,
    corrected_coefficients,
    corrected_consensus,
    corrected_limit,
    corrected_smallest_steps,
    printed_bound,
    printed_coefficients,
    printed_consensus,
    printed_first_limit,
    printed_limit,
    printed_second_limit,
    printed_smallest_steps,
    step_sizes,
)

SOME = Constants(
    L=3.0, sigma=0.7, delta=1.3, epsilon=0.4, start=2.0, agents=8, momentum=0.6, lr=1e-3, mixing_rate=0.8, steps=500
)
MANY = [
    replace(SOME, L=L, momentum=beta, mixing_rate=rate)
    for L in (0.1, 20.0) for beta in (0.0, 0.5, 0.98) for rate in (0.0, 0.9, 0.9918)
]  # fmt: skip


def positive_root(c: Constants, power: int) -> float:
    """Of 1 - 6 a^2 L^2 / (b^power s^2) - 4 L a / b^2 = 0."""
    return float(max(np.roots([-6 * c.L**2 / (c.b**power * c.s**2), -4 * c.L / c.b**2, 1]).real))


@pytest.mark.parametrize("c", MANY)
def test_the_limits_are_the_roots_of_their_conditions(c):
    assert printed_second_limit(c) == pytest.approx(positive_root(c, power=1), rel=1e-6)
    assert corrected_limit(c) == pytest.approx(positive_root(c, power=2), rel=1e-6)
    r = c.s * math.sqrt(16 * c.s**2 + 24 * c.b**3) - 4 * c.s**2
    assert printed_second_limit(c) == pytest.approx(r / (12 * c.L * c.b), rel=1e-6)
    assert corrected_limit(c) <= printed_second_limit(c)
    assert printed_limit(c) == min(c.momentum * c.L / c.b**2, printed_second_limit(c))


def test_where_mixing_is_slow_the_printed_limit_is_too_large_by_one_over_the_root_of_b():
    c = replace(SOME, momentum=0.99, mixing_rate=1 - 1e-9)
    assert printed_second_limit(c) / corrected_limit(c) == pytest.approx(10, rel=1e-3)


@pytest.mark.parametrize("agents", [5, 10, 40])
@pytest.mark.parametrize("family", [ring, fully_connected, bipartite])
def test_the_papers_own_settings_are_outside_of_both_theorems_unless_L_is_tiny(family, agents):
    """Momentum 0.98 and step size 0.01 fit only losses of almost no curvature."""
    c = replace(SOME, L=1.0, lr=0.01, momentum=0.98, agents=agents, mixing_rate=family(agents).mixing_rate)
    assert 4.8e-5 < corrected_limit(c) < printed_second_limit(c) < 1.0001e-4
    allowed = replace(c, L=corrected_limit(c) / c.lr)
    assert 0.0048 < allowed.L < 0.01001
    assert corrected_limit(allowed) == pytest.approx(0.01)


def test_the_mixing_rate_is_the_second_largest_modulus_of_an_eigenvalue():
    for graph in (ring(10), bipartite(10), fully_connected(10)):
        moduli = np.sort(np.abs(np.linalg.eigvalsh(graph.dense())))
        assert graph.mixing_rate == pytest.approx(moduli[-2], abs=1e-12)
        assert graph.rho == pytest.approx(moduli[-2] ** 2, abs=1e-12)


def test_the_smallest_steps_of_the_corollary_are_the_first_at_which_its_step_size_is_allowed():
    for c in MANY:
        for scale in (1.0, 0.1):
            K = corrected_smallest_steps(c, scale)
            assert scale * math.sqrt(c.agents / K) <= corrected_limit(c) * (1 + 1e-9)
            assert K == 1 or scale * math.sqrt(c.agents / (K - 1)) > corrected_limit(c) * (1 - 1e-9)
        r = c.s * math.sqrt(16 * c.s**2 + 24 * c.b**3) - 4 * c.s**2
        if c.momentum:
            second = c.agents / (c.momentum * c.L) ** 2
            assert printed_smallest_steps(c) == pytest.approx(
                math.ceil(max(144 * c.agents * c.L**2 / r**2, second)), rel=1e-5
            )


def test_the_printed_terms_are_those_of_the_paper():
    c = SOME
    a, L, beta, b, s, N = c.lr, c.L, c.momentum, 0.4, 0.2, 8
    C1 = a / (2 * b) - b * a**2 / (2 * beta * L)
    C2 = (beta * L * a**2 / (2 * b**3) + a**2 * L / b**2) / C1
    C3, C4, C5 = b * L / (2 * beta) / C1, beta * L / (2 * b**3) / C1, a * L**2 / (2 * b) / C1
    assert astuple(printed_coefficients(c)) == pytest.approx((C1, C2, C3, C4, C5, a / (2 * b) / C1))
    whole = (
        2.0 / (C1 * 500)
        + (2 * C2 + C3 * a**2 * beta / b**4 + C4 + C5 * 2 * a**2 / (b**2 * (1 - 0.64))) * 0.4**2
        + (2 / N * (C2 + C3 * a**2 * beta / b**4) + C5 * 6 * a**2 / (b**2 * s**2)) * 0.7**2
        + C5 * 6 * a**2 / (b**2 * s**2) * 1.3**2
    )
    assert printed_bound(c).total == pytest.approx(whole)
    front = 2 * a**2 / b**2
    lemma = front * (0.4**2 / 0.36 + 3 * 0.7**2 / s**2 + 3 * 1.3**2 / s**2) * 500 + 6 * a**2 / (b**2 * s) * 7.0
    assert printed_consensus(c, 7.0).total == pytest.approx(lemma)


def test_the_corrected_terms_are_those_of_the_derivation():
    c = SOME
    a, L, b, s = c.lr, c.L, 0.4, 0.2
    apart = 4 * (a * L) ** 2 / (b * s - a * L) ** 2
    longer = 4 * a * L * 1.6 / b**2
    expected = (
        4 * b * 2.0 / (a * 500), longer * 0.4**2, 4 * 0.4**2, apart * 0.4**2, longer / 8 * 0.7**2, apart * 0.7**2,
        apart * 1.3**2,
    )  # fmt: skip
    assert astuple(corrected_bound(c)) == pytest.approx(expected)
    assert corrected_bound(c).total == pytest.approx(sum(expected))
    squares = 0.4**2 + 0.7**2 + 1.3**2
    assert corrected_consensus(c).total == pytest.approx(2 * a**2 * 500 * squares / (b * s - a * L) ** 2)


@pytest.mark.parametrize("c", MANY)
def test_within_the_corrected_limit_the_mean_gradient_only_helps(c):
    """C6 - 2 C2 - 2 C3 (alpha / b)^2 >= 0 and alpha L < b s, which is what the proof asks for."""
    c = replace(c, lr=corrected_limit(c))
    C = corrected_coefficients(c)
    assert C.C6 - 2 * C.C2 - 2 * C.C3 * (c.lr / c.b) ** 2 >= 0
    assert c.lr * c.L <= c.b * c.s / math.sqrt(6) * (1 + 1e-9)


def test_the_printed_C4_is_youngs_inequality_with_a_weight_that_vanishes_with_alpha():
    for lr in (1e-5, 1e-3, 1.0):
        c = replace(SOME, lr=lr)
        theta = lr * c.b**2 / (c.momentum * c.L)
        assert pytest.approx(1 / (theta * (1 - theta))) == printed_coefficients(c).C4
        assert printed_coefficients(c).C4 >= corrected_coefficients(c).C4 == pytest.approx(4)


def test_as_alpha_vanishes_the_printed_bound_grows_and_the_corrected_one_tends_to_its_bias():
    """With alpha K held fixed, so that the first term stays."""
    small, smaller = (replace(SOME, lr=lr, steps=round(1 / lr)) for lr in (1e-5, 1e-6))
    assert printed_bound(smaller).total > 9 * printed_bound(small).total
    limit = 4 * SOME.b * SOME.start + 4 * SOME.epsilon**2
    assert corrected_bound(smaller).total == pytest.approx(limit, rel=1e-3)


def test_without_momentum_the_printed_theorem_is_empty_and_the_corrected_one_is_not():
    c = replace(SOME, momentum=0.0)
    assert printed_first_limit(c) == printed_limit(c) == 0
    assert printed_coefficients(c) is None
    assert printed_bound(c).total == printed_smallest_steps(c) == math.inf
    assert 0 < corrected_bound(c).total < math.inf
    assert corrected_coefficients(c).C3 == 0
    nearly = replace(c, momentum=1e-9)
    assert corrected_bound(c).total == pytest.approx(corrected_bound(nearly).total, rel=1e-6)


def test_beyond_their_range_the_bounds_say_nothing():
    far = replace(SOME, lr=SOME.b * SOME.s / SOME.L)
    assert corrected_bound(far).total == corrected_consensus(far).total == math.inf
    assert printed_bound(replace(SOME, L=1e-3, lr=0.1)).total == math.inf  # alpha above beta L / b^2: C1 < 0
    on_the_limit = replace(SOME, L=1.0, momentum=0.5, lr=2.0)
    assert printed_coefficients(on_the_limit) is None


def test_one_agent_and_a_full_graph_have_a_spectral_gap_of_one():
    for graph in (fully_connected(1), fully_connected(7)):
        c = replace(SOME, agents=graph.agents, mixing_rate=graph.mixing_rate)
        assert (c.s, c.rho) == (1.0, 0.0)
        assert corrected_bound(c).total < corrected_bound(replace(SOME, agents=graph.agents)).total


@pytest.mark.parametrize(
    ("name", "value"),
    [("L", 0.0), ("L", math.nan), ("lr", 0.0), ("lr", math.inf), ("sigma", -1.0), ("delta", math.nan), ("start", -1e-9),
     ("momentum", 1.0), ("momentum", -0.1), ("mixing_rate", 1.0), ("agents", 0), ("steps", 0)],
)  # fmt: skip
def test_constants_that_cannot_be_are_refused(name, value):
    with pytest.raises(ValueError, match=f"{name} must be .*; found"):
        replace(SOME, **{name: value})


def test_the_step_sizes_of_a_schedule_are_found_wherever_they_are():
    assert step_sizes(Constant(0.1), 7.0) == (0.1, 0.1)
    assert step_sizes(Exponential(0.1, 0.5), 2.0) == pytest.approx((0.05, 0.1))
    least, largest = step_sizes(WarmUp(5.0, Cosine(0.1)), 20.0)
    assert least < 0.002
    assert 0.07 < largest < 0.1
