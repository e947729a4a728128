"""The step sizes and momenta that are tried: a grid, finer places between its points, and those beyond its edges."""

import itertools
from dataclasses import dataclass
from typing import NamedTuple

PLACES = 16  # from one step size of the grid to the next
MAX_MOMENTUM = 0.999
LEAST_LR, MOST_LR = 1e-6, 1e4  # beyond which no grid is extended


class Point(NamedTuple):
    """A place in the space: of the step size in sixteenths of the way to the next, and of the momentum."""

    lr: int
    momentum: int | None  # None: the method has none


@dataclass(frozen=True)
class Space:
    """Step sizes on a logarithmic scale, and momenta.

    Args:
        lr: the grid's step sizes, two or more, rising.
        momentum: the grid's momenta, rising; empty for a method that has none.

    >>> space = Space((0.01, 0.1, 1.0), (0.0, 0.9))
    >>> [space.lr_at(place) for place in (-16, 0, 8, 32, 48)]
    [0.001, 0.01, 0.0316, 1.0, 10.0]
    >>> [space.momentum_at(place) for place in (0, 1, 2)]
    [0.0, 0.9, 0.99]
    """

    lr: tuple[float, ...]
    momentum: tuple[float, ...] = ()

    def __post_init__(self) -> None:
        if len(self.lr) < 2 or self.lr[0] <= 0 or _falls(self.lr):
            raise ValueError(f"lr must be two or more step sizes above 0, rising; found {list(self.lr)}.")
        if any(not 0 <= value < 1 for value in self.momentum) or _falls(self.momentum):
            raise ValueError(f"momentum must be values from 0 to below 1, rising; found {list(self.momentum)}.")

    def grid(self) -> list[Point]:
        """The points that are always tried, small step sizes first."""
        momenta = range(len(self.momentum)) if self.momentum else (None,)
        return [Point(PLACES * number, momentum) for number in range(len(self.lr)) for momentum in momenta]

    def lr_at(self, place: int) -> float:
        """The step size of a place, to three digits; beyond the edges the last ratio is continued."""
        at = min(max(place // PLACES, 0), len(self.lr) - 2)
        ratio = self.lr[at + 1] / self.lr[at]
        return float(f"{self.lr[at] * ratio ** (place / PLACES - at):.3g}")

    def momentum_at(self, place: int) -> float:
        """The momentum of a place; beyond the last one, 1 - momentum shrinks further by the same ratio."""
        last = len(self.momentum) - 1
        if place <= last:
            return self.momentum[place]
        ratio = (1 - self.momentum[last]) / (1 - self.momentum[last - 1]) if last else 0.1
        return float(f"{1 - (1 - self.momentum[last]) * ratio ** (place - last):.6g}")

    def beyond(self, best: Point, tried: list[Point]) -> Point | None:
        """The next point beyond the edge at which the best one lies; None if it lies at none.

        A momentum of 0 is no edge, as there is nothing below it, nor is a momentum without choice.
        """
        places = [point.lr for point in tried]
        for edge, way in ((min(places), -PLACES), (max(places), PLACES)):
            if best.lr == edge and LEAST_LR <= self.lr_at(edge + way) <= MOST_LR:
                return Point(edge + way, best.momentum)
        if best.momentum is not None and len(self.momentum) > 1:
            last = max(point.momentum or 0 for point in tried)
            if best.momentum == last and self.momentum_at(last + 1) <= MAX_MOMENTUM:
                return Point(best.lr, last + 1)
        return None


def _falls(values: tuple[float, ...]) -> bool:
    return any(later <= earlier for earlier, later in itertools.pairwise(values))
