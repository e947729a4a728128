"""Which conditions of the theory a run meets, each in a sentence with both numbers."""

import math
from dataclasses import dataclass

from crossgrad._training.schedule import Schedule
from crossgrad.theory.constants import Constants
from crossgrad.theory.limits import (
    corrected_limit,
    corrected_smallest_steps,
    printed_first_limit,
    printed_second_limit,
    printed_smallest_steps,
)

SCHEDULE_SAMPLES = 1000  # at which a schedule is looked at


@dataclass(frozen=True)
class Condition:
    """A condition, whether it holds, and the numbers that decide.

    Args:
        name: what must hold.
        holds: whether it does.
        numbers: both sides.
    """

    name: str
    holds: bool
    numbers: str

    @property
    def sentence(self) -> str:
        """The condition and the verdict."""
        return f"{'holds' if self.holds else 'VIOLATED'}: {self.name}: {self.numbers}."


def step_sizes(schedule: Schedule, epochs: float) -> tuple[float, float]:
    """The least and the largest step size of a run.

    Args:
        schedule: the step sizes.
        epochs: length of the run.
    """
    sizes = [schedule(epochs * k / SCHEDULE_SAMPLES, k / SCHEDULE_SAMPLES) for k in range(SCHEDULE_SAMPLES)]
    return min(sizes), max(sizes)


def conditions(c: Constants, least_lr: float) -> list[Condition]:
    """All conditions; c.lr is the largest step size of the run.

    Args:
        c: the constants of the bound.
        least_lr: the smallest step size of the run.
    """
    first, second, corrected = printed_first_limit(c), printed_second_limit(c), corrected_limit(c)
    alpha = f"alpha = {c.lr:.3g}"
    return [
        Condition("Assumption 4, sqrt(rho) below 1", c.mixing_rate < 1, f"sqrt(rho) = {c.mixing_rate:.4g}"),
        Condition(
            "Theorem 1, a constant step size", math.isclose(least_lr, c.lr),
            f"it goes from {c.lr:.3g} to {least_lr:.3g} (the largest is judged)" if least_lr < c.lr else alpha,
        ),
        Condition(
            "Theorem 1 as printed, alpha <= beta L / (1 - beta)^2", c.lr <= first,
            f"{alpha}, estimated limit {first:.3g}" + ("" if c.momentum else ", as beta = 0: it allows no alpha"),
        ),
        Condition(
            "Theorem 1 as printed, alpha <= alpha*", c.lr <= second,
            f"{alpha}, estimated limit {second:.3g}" + _times(c.lr, second),
        ),
        Condition(
            "Theorem 1 corrected, alpha <= alpha*", c.lr <= corrected,
            f"{alpha}, estimated limit {corrected:.3g}" + _times(c.lr, corrected),
        ),
        _enough("Corollary 1 as printed", c, printed_smallest_steps(c)),
        _enough("Corollary 1 corrected", c, corrected_smallest_steps(c)),
    ]  # fmt: skip


def _times(alpha: float, limit: float) -> str:
    return f" ({alpha / limit:.3g} times)" if alpha > limit > 0 else ""


def _enough(name: str, c: Constants, needed: float) -> Condition:
    return Condition(f"{name}, K large enough for alpha = sqrt(N / K)", c.steps >= needed, _of_steps(c, needed))


def _of_steps(c: Constants, needed: float) -> str:
    return f"K = {c.steps:,}, estimated smallest " + ("none, as beta = 0" if math.isinf(needed) else f"{needed:.3g}")
