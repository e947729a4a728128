"""How large a step size may be (Theorem 1), and how many steps the corollary asks for.

`printed` is the paper's text, `corrected` what follows from its assumptions; docs/theory.md has the derivation.
"""

import math

from crossgrad.theory.constants import Constants


def printed_first_limit(c: Constants) -> float:
    """beta L / (1 - beta)^2, the first condition of Theorem 1. At beta = 0 it leaves no step size at all.

    The corrected theorem has no such condition: it comes from weights in Young's inequality that make C1 negative where
    it is violated.

    Args:
        c: the constants of the bound.
    """
    return c.momentum * c.L / c.b**2


def printed_second_limit(c: Constants) -> float:
    """alpha* of the appendix: where 1 - 6 alpha^2 L^2 / (b s^2) - 4 L alpha / b^2 = 0, the second condition.

    Computed without cancellation as 2 b^2 s / (L (4 s + sqrt(16 s^2 + 24 b^3))).

    Args:
        c: the constants of the bound.
    """
    return 2 * c.b**2 * c.s / (c.L * (4 * c.s + math.sqrt(16 * c.s**2 + 24 * c.b**3)))


def printed_limit(c: Constants) -> float:
    """The largest step size that Theorem 1 as printed allows.

    Args:
        c: the constants of the bound.
    """
    return min(printed_first_limit(c), printed_second_limit(c))


def corrected_limit(c: Constants) -> float:
    """The largest step size of the corrected Theorem 1: where 1 - 6 alpha^2 L^2 / (b s)^2 - 4 L alpha / b^2 = 0.

    b^2 where the printed root has b^3, so it is the smaller of the two, and the only condition.

    Args:
        c: the constants of the bound.

    >>> c = Constants(L=2.0, sigma=0, delta=0, epsilon=0, start=1, agents=1, momentum=0.98, lr=1e-4)
    >>> f"{corrected_limit(c):.3e}", f"{printed_second_limit(c):.3e}"
    ('4.999e-05', '5.000e-05')
    """
    return 2 * c.b**2 * c.s / (c.L * (4 * c.s + math.sqrt(16 * c.s**2 + 24 * c.b**2)))


def printed_smallest_steps(c: Constants) -> float:
    """K of Corollary 1: max(144 N L^2 / r^2, N / (beta L)^2), for alpha = sqrt(N / K); infinite at beta = 0.

    Args:
        c: the constants of the bound.
    """
    r = 12 * c.L * c.b * printed_second_limit(c)  # r = s sqrt(16 s^2 + 24 b^3) - 4 s^2
    second = c.agents / (c.momentum * c.L) ** 2 if c.momentum else math.inf
    return _whole_steps(max(c.agents * (12 * c.L / r) ** 2, second))


def corrected_smallest_steps(c: Constants, scale: float = 1.0) -> float:
    """The smallest K for which alpha = scale sqrt(N / K) is within the corrected limit.

    Args:
        c: the constants of the bound.
        scale: the constant in front of the rate.
    """
    return _whole_steps(c.agents * (scale / corrected_limit(c)) ** 2)


def _whole_steps(steps: float) -> float:
    return steps if math.isinf(steps) else float(max(1, math.ceil(steps * (1 - 1e-12))))
