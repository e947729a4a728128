"""How many accelerated, compressed rounds of gossip a graph needs."""

from typing import NamedTuple

import numpy as np

from crossgrad._numerics.arrays import Floats
from crossgrad.algorithms.gossip_mixing import disagreement_left
from crossgrad.algorithms.gossip_stability import safe_gamma

ENOUGH = 0.45  # of the disagreement may be left by an averaging: docs/open-problem.md
LAZY = (0.35, 0.5)  # just above the least that accelerated rounds allow EDM, and what is usual


class RoundsChoice(NamedTuple):
    """Accelerated, compressed rounds for a graph, and the share of disagreement that they leave."""

    rounds: int
    gamma: float
    lazy: float
    left: float


def enough_rounds(weights: Floats, error: float, most: int = 4) -> RoundsChoice:
    """The fewest accelerated rounds that leave at most `ENOUGH` of the disagreement, with a safe gamma.

    For methods that need eigenvalues above -1/3, such as EDM: their lazy share is one of `LAZY`. If no number of rounds
    is enough, the one that leaves least.

    Args:
        weights: Pi, symmetric.
        error: relative error of the codec on normal numbers, `codec.relative_error(D)`.
        most: rounds that are tried at most.

    >>> from crossgrad.graphs import ring
    >>> from crossgrad.codecs import Quantised
    >>> enough_rounds(ring(40).dense(), Quantised(4).relative_error(2410))[:3]
    (1, 1.0, 0.35)
    """
    found, eigenvalues = [], tuple(np.linalg.eigvalsh(weights).tolist())
    for rounds in range(1, most + 1):
        for lazy in LAZY:
            try:
                gamma = safe_gamma(weights, error, rounds, rounds > 1, lazy)
            except ValueError:
                continue
            left = disagreement_left(eigenvalues, rounds, gamma, rounds > 1, lazy)
            found.append(RoundsChoice(rounds, gamma, lazy, left))
        if found and min(choice.left for choice in found) <= ENOUGH:
            break
    if not found:
        safe_gamma(weights, error, 1, lazy=LAZY[-1])  # raises, with what is needed
    return min(found, key=lambda choice: choice.left)
