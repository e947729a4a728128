"""Step sizes given as a function, or by a scheduler of torch.optim."""

import inspect
from collections.abc import Callable
from dataclasses import dataclass, field
from numbers import Real
from typing import Any

import torch

from crossgrad._training.schedule import Constant, Schedule


@dataclass(frozen=True)
class TorchSchedule:
    """The step sizes of a `torch.optim.lr_scheduler`, which is stepped once per local epoch.

    Args:
        make: makes the scheduler for an optimiser.
        lr: the step size that the optimiser begins with.

    >>> halved = TorchSchedule(lambda optimiser: torch.optim.lr_scheduler.StepLR(optimiser, 2, gamma=0.5), lr=0.1)
    >>> [halved(epoch, done=0.0) for epoch in (0.0, 1.9, 2.0, 4.5)]
    [0.1, 0.1, 0.05, 0.025]
    """

    make: Callable[[torch.optim.Optimizer], Any]
    lr: float = 0.01
    _known: list[float] = field(default_factory=list, repr=False, compare=False)

    def __call__(self, epoch: float, done: float) -> float:
        while len(self._known) <= int(epoch):
            self._known[:] = self._sizes(max(16, 2 * int(epoch) + 2), needed=int(epoch) + 1)
        return self._known[int(epoch)]

    def _sizes(self, epochs: int, needed: int) -> list[float]:
        optimiser = torch.optim.SGD([torch.zeros(1, requires_grad=True)], lr=self.lr)
        scheduler, sizes = self.make(optimiser), []
        for _ in range(epochs):
            sizes.append(float(optimiser.param_groups[0]["lr"]))
            optimiser.step()
            try:
                scheduler.step()
            except (TypeError, ValueError) as error:  # some end after a number of steps, some want a loss
                if len(sizes) < needed:
                    raise ValueError(
                        f"a TorchSchedule is stepped once per local epoch, {needed - 1} times by now; its scheduler "
                        f"{type(scheduler).__name__} refuses: {error}. Make it for that many steps, or use another."
                    ) from error
                break
        return sizes


@dataclass(frozen=True)
class OfEpoch:
    """A step size as a function of the local epoch alone."""

    function: Callable[[float], float]

    def __call__(self, epoch: float, done: float) -> float:
        return self.function(epoch)


def as_schedule(lr: Any) -> Schedule:
    """Return the schedule that a number, a function or a Schedule stands for.

    Raises:
        TypeError: it is none of these; a scheduler of torch.optim needs a `TorchSchedule` around it.
    """
    if (isinstance(lr, Real) and not isinstance(lr, bool)) or (isinstance(lr, torch.Tensor) and lr.numel() == 1):
        return Constant(float(lr))
    if isinstance(lr, torch.optim.lr_scheduler.LRScheduler) or (
        isinstance(lr, type) and issubclass(lr, torch.optim.lr_scheduler.LRScheduler)
    ):
        raise TypeError(
            "lr must be a number, a function of the epoch or a Schedule; found a scheduler of torch.optim. Pass "
            "TorchSchedule(lambda optimiser: ..., lr=0.1), with a function that makes the scheduler."
        )
    if not callable(lr):
        raise TypeError(f"lr must be a number, a function of the epoch or a Schedule; found {type(lr).__name__}.")
    if _takes(lr, 2):
        schedule: Schedule = lr
        return schedule
    if _takes(lr, 1):
        return OfEpoch(lr)
    raise TypeError(
        "lr, where it is a function, takes the local epoch, or the epoch and the share of the run that is "
        "done; found one that takes neither. Write lr=lambda epoch: 0.1 and so on."
    )


def _takes(function: Any, count: int) -> bool:
    """Whether a function can be called with so many arguments."""
    try:
        inspect.signature(function).bind(*[0.0] * count)
    except TypeError:
        return False
    except ValueError:  # of some built-in functions nobody knows
        return count == 1
    return True
