"""Theorem 1: a bound on the mean of |grad F|^2 at the averaged models of K steps, term by term."""

import math
from dataclasses import astuple, dataclass

from crossgrad.theory.consensus import consensus_factor
from crossgrad.theory.constants import Constants


@dataclass(frozen=True)
class Coefficients:
    """C1 to C6 of the paper's appendix.

    Args:
        C1: coefficient of |grad F(average)|^2, by which everything is divided.
        C2: coefficient of |mean g~|^2.
        C3: printed: coefficient of |z - average|^2; corrected: of |mean velocity|^2.
        C4: coefficient of |mean (g~ - g)|^2.
        C5: coefficient of the squared distance from the average.
        C6: coefficient of |mean gradient|^2, which lowers the bound.
    """

    C1: float  # of |grad F(average)|^2, by which everything is divided
    C2: float  # of |mean g~|^2
    C3: float  # printed: of |z - average|^2; corrected: of |mean velocity|^2
    C4: float  # of |mean (g~ - g)|^2
    C5: float  # of the distance from the average, squared
    C6: float  # of |mean gradient|^2, which helps


@dataclass(frozen=True)
class Bound:
    """The right side of Theorem 1, term by term.

    Args:
        start: (F(x_0) - F*) / (C1 K)
        epsilon_steps: by C2 and C3: the projection makes steps longer.
        epsilon_bias: by C4: the projection turns steps.
        epsilon_consensus: by C5: the projection drives agents apart.
        sigma_steps: by C2 and C3: noise makes steps longer; divided by N, as agents average.
        sigma_consensus: by C5: noise drives agents apart.
        delta_consensus: by C5: non-IID data drives agents apart.
    """

    start: float  # (F(x_0) - F*) / (C1 K)
    epsilon_steps: float  # C2 and C3: the projection makes steps longer
    epsilon_bias: float  # C4: it turns them
    epsilon_consensus: float  # C5: it drives agents apart
    sigma_steps: float  # C2 and C3, over N: averaging over agents helps
    sigma_consensus: float  # C5
    delta_consensus: float  # C5

    @property
    def total(self) -> float:
        """All terms together; infinite where the theorem says nothing."""
        return math.fsum(astuple(self))


NO_BOUND = Bound(*[math.inf] * 7)


def printed_coefficients(c: Constants) -> Coefficients | None:
    """C1 to C6 as printed; None at beta = 0, where C1 and C3 divide by zero. C1 <= 0 above the first limit.

    Args:
        c: the constants of the bound.
    """
    a, L, beta, b = c.lr, c.L, c.momentum, c.b
    if beta == 0:
        return None
    C1 = a / (2 * b) - b * a**2 / (2 * beta * L)
    if C1 == 0:
        return None
    return Coefficients(
        C1=C1,
        C2=(beta * L * a**2 / (2 * b**3) + a**2 * L / b**2) / C1,
        C3=b * L / (2 * beta) / C1,
        C4=beta * L / (2 * b**3) / C1,
        C5=a * L**2 / (2 * b) / C1,
        C6=a / (2 * b) / C1,
    )


def printed_bound(c: Constants) -> Bound:
    """The right side of Theorem 1 as printed; infinite where C1 is not positive, and without limit as alpha -> 0.

    Args:
        c: the constants of the bound.
    """
    C = printed_coefficients(c)
    if C is None or C.C1 <= 0:
        return NO_BOUND
    drift = C.C3 * c.lr**2 * c.momentum / c.b**4
    apart = C.C5 * 2 * (c.lr / c.b) ** 2
    return Bound(
        start=c.start / (C.C1 * c.steps),
        epsilon_steps=(2 * C.C2 + drift) * c.epsilon**2,
        epsilon_bias=C.C4 * c.epsilon**2,
        epsilon_consensus=apart / (1 - c.rho) * c.epsilon**2,
        sigma_steps=2 / c.agents * (C.C2 + drift) * c.sigma**2,
        sigma_consensus=3 * apart / c.s**2 * c.sigma**2,
        delta_consensus=3 * apart / c.s**2 * c.delta**2,
    )


def corrected_coefficients(c: Constants) -> Coefficients:
    """C1 to C6 with Young's inequality at equal weights: C4 = 4 and C6 = 2 whatever alpha is, and beta may be 0.

    Args:
        c: the constants of the bound.
    """
    a, L, beta, b = c.lr, c.L, c.momentum, c.b
    C1 = a / (4 * b)
    return Coefficients(
        C1=C1,
        C2=(beta * L * a**2 / (2 * b**3) + a**2 * L / (2 * b**2)) / C1,
        C3=beta * L / (2 * b) / C1,
        C4=a / b / C1,
        C5=a * L**2 / (2 * b) / C1,
        C6=a / (2 * b) / C1,
    )


def corrected_bound(c: Constants) -> Bound:
    """The right side of Theorem 1 corrected, for alpha up to `corrected_limit`; infinite from alpha L = b s on.

    Args:
        c: the constants of the bound.
    """
    C = corrected_coefficients(c)
    steps = 2 * (C.C2 + C.C3 * (c.lr / c.b) ** 2)
    apart = C.C5 * consensus_factor(c)
    if math.isinf(apart):
        return NO_BOUND
    return Bound(
        start=c.start / (C.C1 * c.steps),
        epsilon_steps=steps * c.epsilon**2,
        epsilon_bias=C.C4 * c.epsilon**2,
        epsilon_consensus=apart * c.epsilon**2,
        sigma_steps=steps / c.agents * c.sigma**2,
        sigma_consensus=apart * c.sigma**2,
        delta_consensus=apart * c.delta**2,
    )
