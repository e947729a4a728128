"""Lemma 1: how far the agents' models are from their average, summed over the steps and averaged over the agents."""

import math
from dataclasses import astuple, dataclass

from crossgrad.theory.constants import Constants


@dataclass(frozen=True)
class Consensus:
    """The right side of Lemma 1, term by term.

    Args:
        epsilon: the term of epsilon, the projection's error.
        sigma: the term of sigma, the gradients' noise.
        delta: the term of delta, how non-IID the data is.
        gradients: the term of the mean gradient's squared norms; the corrected lemma has none.
    """

    epsilon: float
    sigma: float
    delta: float
    gradients: float  # of the squared norms of the mean gradient; the corrected lemma has no such term

    @property
    def total(self) -> float:
        """All terms together."""
        return math.fsum(astuple(self))


def printed_consensus(c: Constants, gradients: float) -> Consensus:
    """Lemma 1 as printed; `gradients` is the sum over the steps of |1/N sum_i grad f_i(x^i_k)|^2.

    Args:
        c: the constants of the bound.
        gradients: the sum over the steps of the squared norm of the mean gradient.
    """
    front = 2 * (c.lr / c.b) ** 2
    return Consensus(
        epsilon=front * c.steps * c.epsilon**2 / (1 - c.rho),
        sigma=front * c.steps * 3 * (c.sigma / c.s) ** 2,
        delta=front * c.steps * 3 * (c.delta / c.s) ** 2,
        gradients=front * 3 * gradients / c.s,
    )


def corrected_consensus(c: Constants) -> Consensus:
    """Lemma 1 corrected: 2 alpha^2 K (epsilon^2 + sigma^2 + delta^2) / (b s - alpha L)^2.

    For small alpha every constant comes with 1 / (b s)^2, epsilon too. It holds for alpha L < b s; beyond, agents may
    drift apart without bound, and the right side is infinite.

    Args:
        c: the constants of the bound.
    """
    front = consensus_factor(c) * c.steps
    epsilon, sigma, delta = (front * constant**2 if constant else 0.0 for constant in (c.epsilon, c.sigma, c.delta))
    return Consensus(epsilon, sigma, delta, gradients=0.0)


def consensus_factor(c: Constants) -> float:
    """2 alpha^2 / (b s - alpha L)^2, what the corrected lemma makes of a squared constant in each step."""
    room = c.b * c.s - c.lr * c.L
    return 2 * (c.lr / room) ** 2 if room > 0 else math.inf
