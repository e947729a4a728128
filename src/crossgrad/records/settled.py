"""When a run has settled: the averaged model's accuracy no longer moves."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

ROUNDING_EPOCHS = 0.01  # an evaluation comes after a whole number of steps, so up to so much beside a whole epoch


@dataclass(frozen=True)
class SettledRule:
    """A run has settled when its accuracy moved less than `points` percentage points over `epochs` of the local data.

    >>> SettledRule(points=0.2, epochs=3.0).holds([(1, 0.90), (2, 0.97), (3, 0.971), (4, 0.9705), (5, 0.9715)])
    True
    """

    points: float = 0.2
    epochs: float = 3.0

    def __post_init__(self) -> None:
        for name in ("points", "epochs"):
            value = getattr(self, name)
            if not 0 < value < math.inf:
                raise ValueError(f"a rule for settled runs needs {name} above 0 and finite; found {value}.")

    def holds(self, measured: Sequence[tuple[float, float]]) -> bool:
        """Whether it has settled, from the epoch and the accuracy (0 to 1) of each evaluation after the first step."""
        if not measured:
            return False
        since = measured[-1][0] - self.epochs
        recent = [100 * accuracy for epoch, accuracy in measured if epoch >= since - ROUNDING_EPOCHS]
        return measured[0][0] <= since + ROUNDING_EPOCHS and max(recent) - min(recent) < self.points
