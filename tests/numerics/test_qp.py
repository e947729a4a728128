"""The QP solver against the mathematics of the problem, and against two solvers that never see a Gram matrix.

Each family makes one problem (G, g) of K rows in about D dimensions. Tolerances are relative to |G_l| |g|.
"""

from collections.abc import Callable

import daqp
import numpy as np
import pytest
import scipy.optimize
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.random import Generator
from numpy.typing import NDArray

from crossgrad._numerics import qp

Array = NDArray[np.float64]
Problem = tuple[Array, Array]
Family = Callable[[Generator, int, int], Problem]

steady = settings(derandomize=True, deadline=None, database=None, max_examples=40)


def random(rng: Generator, k: int, d: int) -> Problem:
    return rng.standard_normal((k, d)), rng.standard_normal(d)


def conflicting(rng: Generator, k: int, d: int) -> Problem:
    G, g = random(rng, k, d)
    return G - 0.3 * g, g


def more_rows_than_dimensions(rng: Generator, k: int, d: int) -> Problem:
    return random(rng, k, max(1, k // 3))


def duplicate_rows(rng: Generator, k: int, d: int) -> Problem:
    G, g = random(rng, k, d)
    return G[rng.integers(0, k, k) // 2], g


def zero_rows(rng: Generator, k: int, d: int) -> Problem:
    G, g = random(rng, k, d)
    return G * (rng.random((k, 1)) < 0.5), g


def opposing_rows(rng: Generator, k: int, d: int) -> Problem:
    G, g = random(rng, k, d)
    return G[rng.integers(0, k, k) // 2] * rng.choice([-1.0, 1.0], (k, 1)), g


def small_integers(rng: Generator, k: int, d: int) -> Problem:
    return rng.integers(-2, 3, (k, d)).astype(np.float64), rng.integers(-2, 3, d).astype(np.float64) + 0.5


def tiny(rng: Generator, k: int, d: int) -> Problem:
    G, g = conflicting(rng, k, d)
    return 1e-20 * G, 1e-20 * g


def huge(rng: Generator, k: int, d: int) -> Problem:
    G, g = conflicting(rng, k, d)
    return 1e20 * G, 1e20 * g


def mixed_scale(rng: Generator, k: int, d: int) -> Problem:
    G, g = random(rng, k, d)
    return G * 10 ** rng.uniform(-10, 10, (k, 1)), g


def feasible(rng: Generator, k: int, d: int) -> Problem:
    G, g = random(rng, k, d)
    return G * np.where(G @ g < 0, -1.0, 1.0)[:, None], g


def polar(rng: Generator, k: int, d: int) -> Problem:
    G, _ = random(rng, k, d)
    return G, -rng.random(k) @ G


def parallel_1e_6(rng: Generator, k: int, d: int) -> Problem:
    G, g = random(rng, k, d)
    return G[0] + 1e-6 * G, g


def parallel_1e_9(rng: Generator, k: int, d: int) -> Problem:
    G, g = random(rng, k, d)
    return G[0] + 1e-9 * G, g


def opposed(rng: Generator, k: int, d: int) -> Problem:
    """Rows on one line but for 1e-10 to 1e-4 of their length, and so a very thin cone."""
    G, g = random(rng, k, d)
    return rng.choice([-1.0, 1.0], (k, 1)) * G[0] + 10 ** rng.uniform(-10, -4) * G, g


def nearly_cancelling(rng: Generator, k: int, d: int) -> Problem:
    """A sum of rows with positive factors is 1e-10 to 1e-3 of its terms, though no two rows are opposed."""
    G, g = random(rng, k, d)
    G[-1] = 10 ** rng.uniform(-10, -3) * G[-1] - rng.random(k - 1) @ G[:-1]
    return G * 10 ** rng.uniform(-3, 3, (k, 1)), g


def graded(rng: Generator, k: int, d: int) -> Problem:
    """Singular values from 1 to 1e-8."""
    G, g = random(rng, k, d)
    return G * 10 ** -np.linspace(0, 8, d), g


WELL_POSED: list[Family] = [
    random,
    conflicting,
    more_rows_than_dimensions,
    duplicate_rows,
    zero_rows,
    opposing_rows,
    small_integers,
    tiny,
    huge,
    mixed_scale,
    feasible,
    polar,
    parallel_1e_6,
    parallel_1e_9,
]
ILL_POSED: list[Family] = [opposed, nearly_cancelling, graded]

every_family = pytest.mark.parametrize("family", WELL_POSED + ILL_POSED, ids=lambda family: family.__name__)
well_posed = pytest.mark.parametrize("family", WELL_POSED, ids=lambda family: family.__name__)
problem = given(seed=st.integers(0, 2**32 - 1), k=st.integers(1, 24), d=st.integers(1, 30))


def make(family: Family, seed: int, k: int, d: int) -> Problem:
    return family(np.random.default_rng(seed), k, d)


def project(G: Array, g: Array, lower: float = 0.0, ridge: float = 0.0) -> tuple[Array, Array]:
    """u and z of one problem, which must be solved; the released code adds a ridge to the diagonal."""
    u, solved = qp.solve((G @ G.T + ridge * np.eye(len(G)))[None], (G @ g)[None], lower)
    assert solved.all()
    return u[0], g + u[0] @ G


def assert_optimal(G: Array, g: Array, u: Array, lower: float = 0.0, tolerance: float = 1e-8) -> None:
    size = np.linalg.norm(g + lower * G.sum(axis=0))
    lengths = np.linalg.norm(G, axis=1)
    cosines = G @ (g + u @ G) / (np.where(lengths > 0, lengths, 1.0) * max(size, 1e-300))
    assert (u >= lower).all()
    assert (cosines >= -tolerance).all()
    assert (cosines[(u > lower) & (lengths > 0)] <= tolerance).all()


@every_family
@problem
@steady
def test_z_meets_the_conditions_of_optimality(family: Family, seed: int, k: int, d: int) -> None:
    G, g = make(family, seed, k, d)
    u, z = project(G, g)
    assert_optimal(G, g, u, tolerance=1e-6 if family in ILL_POSED else 1e-8)
    assert np.linalg.norm(z) <= np.linalg.norm(g) * (1 + 1e-12)


def test_sums_of_rows_that_nearly_cancel_miss_1e_8_but_not_1e_6() -> None:
    """The exception that `solve` states is needed where it says, and nowhere beyond 1e-3."""
    missed = 0
    for near, most in ((True, 1e-6), (False, 1e-8)):
        rng = np.random.default_rng(0)
        for _ in range(1500):
            G, g = random(rng, 4, 8)
            rest = 10 ** rng.uniform(-8, -5) if near else 1e-3 * (1 + rng.random())
            G[-1] = rest * G[-1] - rng.random(3) @ G[:-1]
            u, z = project(G, g)
            assert_optimal(G, g, u, tolerance=most)
            missed += bool((np.abs(G @ z)[u > 0] > 1e-8 * np.linalg.norm(G, axis=1)[u > 0] * np.linalg.norm(g)).any())
    assert missed > 0


@well_posed
@problem
@steady
def test_z_with_a_margin_is_optimal(family: Family, seed: int, k: int, d: int) -> None:
    G, g = make(family, seed, k, d)
    u, _ = project(G, g, lower=0.5)
    assert_optimal(G, g, u, lower=0.5)


@every_family
def test_two_hundred_constraints_are_solved(family: Family) -> None:
    G, g = make(family, 50, 200, 50)  # as many as four times what can be independent
    u, z = project(G, g)
    assert_optimal(G, g, u, tolerance=1e-6 if family in ILL_POSED else 1e-8)
    assert np.linalg.norm(z) <= np.linalg.norm(g) * (1 + 1e-12)


@problem
@steady
def test_z_is_g_where_g_is_feasible(seed: int, k: int, d: int) -> None:
    u, _ = project(*make(feasible, seed, k, d))
    assert (u == 0).all()


@problem
@steady
def test_z_vanishes_where_minus_g_is_in_the_cone_of_the_rows(seed: int, k: int, d: int) -> None:
    G, g = make(polar, seed, k, d)
    _, z = project(G, g)
    assert np.linalg.norm(z) <= 1e-8 * np.linalg.norm(g)


@well_posed
@problem
@steady
def test_scaling_all_gradients_scales_z(family: Family, seed: int, k: int, d: int) -> None:
    G, g = make(family, seed, k, d)
    _, z = project(G, g)
    for factor in (1e-12, 3e7):
        _, scaled = project(factor * G, factor * g)
        assert np.linalg.norm(scaled / factor - z) <= 1e-7 * np.linalg.norm(g)


@well_posed
@problem
@steady
def test_scaling_or_permuting_rows_does_not_move_z(family: Family, seed: int, k: int, d: int) -> None:
    G, g = make(family, seed, k, d)
    _, z = project(G, g)
    rng = np.random.default_rng(seed)
    _, scaled = project(G * 10 ** rng.uniform(-10, 10, (k, 1)), g)
    _, permuted = project(G[rng.permutation(k)], g)
    assert np.linalg.norm(scaled - z) <= 1e-7 * np.linalg.norm(g)
    assert np.linalg.norm(permuted - z) <= 1e-7 * np.linalg.norm(g)


def primal(G: Array, g: Array) -> Array:
    rows = G[np.linalg.norm(G, axis=1) > 0]
    rows = rows / np.linalg.norm(rows, axis=1, keepdims=True)
    if not len(rows):
        return g
    size, free = np.linalg.norm(g), np.full(len(rows), 1e30)
    z, _, flag, _ = daqp.solve(np.eye(len(g)), -g / size, rows, free, np.zeros(len(rows)), primal_tol=1e-10)
    assert flag == 1
    return np.asarray(z * size, dtype=np.float64)


def least_squares(G: Array, g: Array) -> Array:
    lengths = np.linalg.norm(G, axis=1, keepdims=True)
    rows = G / np.where(lengths > 0, lengths, 1.0)
    size = np.linalg.norm(g)
    u, _ = scipy.optimize.nnls(rows.T, -g / size, maxiter=100 * len(g) + 1000)
    return np.asarray(g + size * (u @ rows), dtype=np.float64)


@pytest.mark.parametrize("oracle", [primal, least_squares])
@well_posed
def test_z_is_that_of_an_independent_solver(family: Family, oracle: Callable[[Array, Array], Array]) -> None:
    rng = np.random.default_rng(2021)
    for _ in range(200):
        k, d = rng.integers(1, 13), rng.integers(1, 16)
        G, g = family(rng, int(k), int(d))
        _, z = project(G, g)
        assert np.linalg.norm(z - oracle(G, g)) <= 1e-7 * np.linalg.norm(g)


@pytest.mark.parametrize("family", [opposing_rows, opposed, more_rows_than_dimensions])
def test_rounding_of_the_gram_matrix_does_not_lengthen_z(
    family: Family,
) -> None:
    """As much as millions of parameters bring about; without the ridge |z| grows to many times |g|."""
    rng = np.random.default_rng(4)
    for _ in range(300):
        k = int(rng.integers(2, 13))
        G, g = family(rng, k, 6)
        noise = 2e-14 * rng.standard_normal((k, k)) * np.outer(*2 * [np.linalg.norm(G, axis=1)])
        u, solved = qp.solve((G @ G.T + (noise + noise.T) / 2)[None], (G @ g)[None])
        assert solved.all()
        assert np.linalg.norm(g + u[0] @ G) <= np.linalg.norm(g) * (1 + 1e-9)
