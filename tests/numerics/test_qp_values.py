"""The QP solver on problems with known answers, in batches, and on what is no problem at all."""

import numpy as np
import pytest
from numpy.typing import NDArray

from crossgrad._numerics import qp

Array = NDArray[np.float64]


def project(G: Array, g: Array, lower: float = 0.0, ridge: float = 0.0) -> tuple[Array, Array]:
    """u and z of one problem, which must be solved; the released code adds a ridge to the diagonal."""
    u, solved = qp.solve((G @ G.T + ridge * np.eye(len(G)))[None], (G @ g)[None], lower)
    assert solved.all()
    return u[0], g + u[0] @ G


def batch(problems: int, k: int, d: int) -> tuple[Array, Array]:
    rng = np.random.default_rng(5)
    G, g = rng.standard_normal((problems, k, d)), rng.standard_normal((problems, d))
    return G @ G.swapaxes(1, 2), (G @ g[:, :, None])[:, :, 0]


@pytest.mark.parametrize("factor", [1.0, 1e-10, 1e10])
@pytest.mark.parametrize(
    ("G", "lower", "ridge", "z"),
    [
        ([(-1, 1), (0.5, 1)], 0.0, 0.0, (0.5, 0.5)),
        ([(-1, 1), (0.5, 1)], 0.5, 0.0, (0.75, 1)),
        ([(1, 0.1), (1, -0.1)], 0.0, 0.0, (1, 0)),
        ([(1, 0.1), (1, -0.1)], 0.5, 0.0, (2, 0)),
        ([(-1, 1), (0.5, 1)], 0.5, 1e-3, (0.75, 1)),
    ],
)
def test_golden_values(
    G: list[tuple[float, float]], lower: float, ridge: float, z: tuple[float, float], factor: float
) -> None:
    rows, g = factor * np.array(G, dtype=float), factor * np.array([1.0, 0.0])
    _, found = project(rows, g, lower, ridge * factor**2)
    np.testing.assert_allclose(found, factor * np.array(z), rtol=0, atol=1e-9 * factor)


def test_golden_values_of_the_released_code_with_weights_of_a_third() -> None:
    g = np.array([1.0, 0.0]) / 3
    _, z = project(np.array([(-1, 1), (0.5, 1)]) / 3, g, lower=0.5, ridge=1e-3)
    np.testing.assert_allclose(z, (0.25, 1 / 3), atol=1e-9)
    _, z = project(np.array([(1, 0.1), (1, -0.1)]) / 3, g, lower=0.5, ridge=1e-3)
    np.testing.assert_allclose(z, (2 / 3, 0), atol=1e-9)


def test_a_margin_is_a_shift() -> None:
    K, c = batch(5, 8, 20)
    u, _ = qp.solve(K, c, lower=0.5)
    shifted, _ = qp.solve(K, c + 0.5 * K.sum(axis=2))
    np.testing.assert_allclose(u, 0.5 + shifted, atol=1e-9)


@pytest.mark.parametrize(("k", "d"), [(1, 5), (2, 5), (6, 4), (12, 30)])
def test_a_batch_is_its_problems_one_by_one(k: int, d: int) -> None:
    K, c = batch(50, k, d)
    u, solved = qp.solve(K, c)
    assert solved.all()
    for j in range(50):
        alone, _ = qp.solve(K[j : j + 1], c[j : j + 1])
        np.testing.assert_allclose(K[j] @ u[j], K[j] @ alone[0], atol=1e-9 * d)


@pytest.mark.parametrize("lower", [0.0, 0.5])
@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_non_finite_input_is_not_solved_and_harms_no_other_problem(bad: float, lower: float) -> None:
    K, c = batch(6, 4, 10)
    expected, _ = qp.solve(K, c, lower)
    K[1, 2, 3] = bad
    c[3, 0] = bad
    K[4], c[4] = bad, bad
    u, solved = qp.solve(K, c, lower)
    assert solved.tolist() == [True, False, True, False, False, True]
    assert (u[~solved] == 0).all()
    np.testing.assert_allclose(u[solved], expected[solved], rtol=1e-9)


@pytest.mark.parametrize(
    ("K", "c"),
    [
        ([[-1.0, 0.0], [0.0, 1.0]], [-1.0, -1.0]),
        ([[1.0, 2.0], [2.0, 1.0]], [-1.0, -1.0]),
        ([[1e-280, 1e200], [1e200, 1e-280]], [-1e300, 1e300]),
        ([[1.0, -1.0], [-1.0, 1.0]], [-1.0, -1.0]),
        ([[1e-280, 0.0], [0.0, 1.0]], [-1e250, -1.0]),
    ],
)
def test_what_is_no_gram_matrix_is_not_solved(K: list[list[float]], c: list[float]) -> None:
    u, solved = qp.solve(np.array([K]), np.array([c]))
    assert not solved.any()
    assert (u == 0).all()


def test_a_singular_system_harms_no_other_problem() -> None:
    """False Gram matrices with the eigenvalue -RIDGE, to the last digit in at least one case."""
    false = 2 * 0.75**2 / (1 + qp.RIDGE) - (1 + qp.RIDGE) + np.spacing(0.125) * np.arange(-8, 9)
    K = np.array([[[1, 0.75, 0.75], [0.75, 1, a], [0.75, a, 1]] for a in false] + [np.eye(3)])
    u, _ = qp.solve(K, -np.ones((len(K), 3)))
    assert np.isfinite(u).all()
    np.testing.assert_allclose(u[-1], 1.0)


def test_random_symmetric_matrices_never_raise_and_never_give_nan() -> None:
    rng = np.random.default_rng(3)
    for k in (2, 3, 5, 20):
        K = rng.standard_normal((200, k, k)) * 10 ** rng.uniform(-100, 100, (200, 1, 1))
        u, solved = qp.solve(K + K.swapaxes(1, 2), rng.standard_normal((200, k)))
        assert np.isfinite(u).all()
        assert (u[~solved] == 0).all()


def test_rows_of_zeros_have_the_lower_bound() -> None:
    G, g = np.array([[-1.0, 0.0], [0.0, 0.0]]), np.array([1.0, 1.0])
    for lower in (0.0, 0.5):
        u, _ = project(G, g, lower)
        np.testing.assert_allclose(u, [1.0, lower])


@pytest.mark.parametrize(("problems", "k"), [(0, 3), (3, 0), (0, 0)])
def test_no_problems_and_no_constraints_are_solved(problems: int, k: int) -> None:
    u, solved = qp.solve(np.zeros((problems, k, k)), np.zeros((problems, k)))
    assert u.shape == (problems, k)
    assert solved.tolist() == [True] * problems


def test_the_input_is_left_as_it_was() -> None:
    K, c = batch(5, 4, 10)
    before = K.copy(), c.copy()
    qp.solve(K, c, lower=0.5)
    np.testing.assert_array_equal(K, before[0])
    np.testing.assert_array_equal(c, before[1])
