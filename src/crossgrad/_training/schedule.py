"""Step sizes over the course of a run: functions of the local epoch and of the share of the run that is done."""

from dataclasses import dataclass
from math import cos, floor, isfinite, pi
from typing import Protocol

from crossgrad._registry.entries import as_class_or_function
from crossgrad._registry.registry import Registry


class Schedule(Protocol):
    """A step size for every moment of a run."""

    def __call__(self, epoch: float, done: float) -> float:
        """The step size at this local epoch, when the share `done` (0 to 1) of the run is done."""


def _check_lr(lr: float) -> None:
    if not (isfinite(lr) and 0 < lr <= 1e3):
        raise ValueError(f"the step size lr must be above 0 and at most 1000; found {lr}.")


@dataclass(frozen=True)
class Constant:
    """The same step size throughout.

    Args:
        lr: the step size.
    """

    lr: float = 0.01

    def __post_init__(self) -> None:
        _check_lr(self.lr)

    def __call__(self, epoch: float, done: float) -> float:
        return self.lr


@dataclass(frozen=True)
class Exponential:
    """The step size is multiplied by `decay` after every epoch of the local data, as in the paper.

    Args:
        lr: the step size.
        decay: the factor per epoch.

    >>> Exponential(0.01, decay=0.5)(epoch=2.7, done=0.1)
    0.0025
    """

    lr: float = 0.01
    decay: float = 0.981

    def __post_init__(self) -> None:
        _check_lr(self.lr)
        if not 0 < self.decay <= 1:
            raise ValueError(f"the step size's decay must be above 0 and at most 1; found {self.decay}.")

    def __call__(self, epoch: float, done: float) -> float:
        return self.lr * self.decay ** floor(epoch)


@dataclass(frozen=True)
class Step:
    """The step size is multiplied by `factor` at each of the epochs `at`.

    Args:
        lr: the step size.
        at: epochs of the local data at which the step size changes.
        factor: the factor by which the step size is multiplied.
    """

    lr: float = 0.01
    at: tuple[float, ...] = (30.0, 60.0)  # local epochs
    factor: float = 0.1

    def __post_init__(self) -> None:
        _check_lr(self.lr)
        if not 0 < self.factor <= 1:
            raise ValueError(f"the step size's factor must be above 0 and at most 1; found {self.factor}.")

    def __call__(self, epoch: float, done: float) -> float:
        return self.lr * self.factor ** sum(epoch >= moment for moment in self.at)


@dataclass(frozen=True)
class Cosine:
    """The step size falls from `lr` to `final` over the run, along half a cosine.

    Args:
        lr: the step size.
        final: the step size at the end.
    """

    lr: float = 0.01
    final: float = 0.0

    def __post_init__(self) -> None:
        _check_lr(self.lr)
        if not 0 <= self.final <= self.lr:
            raise ValueError(f"the final step size must lie between 0 and lr = {self.lr}; found {self.final}.")

    def __call__(self, epoch: float, done: float) -> float:
        return self.final + (self.lr - self.final) * (1 + cos(pi * min(1.0, done))) / 2


@dataclass(frozen=True)
class WarmUp:
    """The step size grows linearly over the first `epochs`, then it follows the schedule `then`.

    Args:
        epochs: length of the warm-up, in epochs of the local data.
        then: the schedule after the warm-up.
    """

    epochs: float = 5.0
    then: Schedule = Exponential()

    def __post_init__(self) -> None:
        if not 0 < self.epochs < float("inf"):
            raise ValueError(f"a warm-up takes a number of epochs above 0; found {self.epochs}.")

    def __call__(self, epoch: float, done: float) -> float:
        return self.then(epoch, done) * min(1.0, max(epoch, 0.01 * self.epochs) / self.epochs)


_BUILT_IN: dict[str, type[Schedule]] = {
    "constant": Constant,
    "exponential": Exponential,
    "step": Step,
    "cosine": Cosine,
    "warm-up": WarmUp,
}

SCHEDULES: Registry[type[Schedule]] = Registry(
    "schedule",
    _BUILT_IN,
    lambda name, thing: as_class_or_function("schedule", name, thing, "__call__", ("epoch", "done"), float),
)
