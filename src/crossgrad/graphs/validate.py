"""Checks of the numbers and matrices that graphs are made from."""

from __future__ import annotations

from numbers import Integral, Real
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from scipy.sparse import csr_array

Sparse: TypeAlias = "csr_array[np.float64, tuple[int, int]]"
Vector: TypeAlias = NDArray[np.float64]
Matrix: TypeAlias = NDArray[np.float64]
Indices: TypeAlias = NDArray[np.int64]

MAX_AGENTS = 1_000_000
MAX_WEIGHTS = 100_000_000
MAX_ATTEMPTS = 100  # to draw a random graph that is connected

SUM_TOLERANCE = 1e-9
SYMMETRY_TOLERANCE = 1e-12


def whole_number(value: object, what: str, least: int = 0) -> int:
    """`value` as an int; numpy's integers pass, booleans and floats do not.

    >>> whole_number(3, "step")
    3
    """
    if isinstance(value, bool) or not isinstance(value, Integral) or value < least:
        raise ValueError(f"{what} must be a whole number of at least {least}; found {value!r}.")
    return int(value)


def number_of_agents(value: object) -> int:
    """`value` as a number of agents, 1 to 1,000,000."""
    agents = whole_number(value, "agents", least=1)
    if agents > MAX_AGENTS:
        raise ValueError(f"agents must be at most {MAX_AGENTS:,}; found {agents:,}.")
    return agents


def chance(value: object, what: str) -> float:
    """`value` as a probability above 0 and at most 1."""
    if isinstance(value, bool) or not isinstance(value, Real) or not 0 < float(value) <= 1:
        raise ValueError(f"{what} must be a number above 0 and at most 1; found {value!r}.")
    return float(value)


def weights_fit(count: float, name: str) -> None:
    """Raise ValueError if a graph has so many weights that it would exhaust the memory."""
    if count > MAX_WEIGHTS:
        raise ValueError(
            f"{name}: a graph must have at most {MAX_WEIGHTS:,} weights; this one would have {count:,.0f}. "
            "Use fewer agents or a sparser graph."
        )


def symmetric(W: Any) -> bool:
    """Whether `W`, dense or sparse, equals its transpose to 1e-12."""
    return bool(abs(W - W.T).max() <= SYMMETRY_TOLERANCE)


def row_stochastic(W: Any) -> bool:
    """Whether the rows of `W` sum to one to 1e-9."""
    return bool(np.abs(W.sum(axis=1) - 1).max() <= SUM_TOLERANCE)


def column_stochastic(W: Any) -> bool:
    """Whether the columns of `W` sum to one to 1e-9."""
    return bool(np.abs(W.sum(axis=0) - 1).max() <= SUM_TOLERANCE)
