"""Copies of models that a run keeps: the last good ones, or the best ones on validation data.

n: agents of this process, D: parameters.
"""

import math
from dataclasses import dataclass

from torch import Tensor

from crossgrad._storage.stateful import Stateful
from crossgrad.models.buffers import Buffers


class KeptModels(Stateful):
    """A copy of the agents' models and buffers, as they were at one evaluation."""

    def __init__(self, x_nD: Tensor, buffers: Buffers) -> None:
        self.step = 0
        self.x, self.floats, self.integers = (part.clone() for part in (x_nD, buffers.floats_NF, buffers.integers_NI))

    def keep(self, step: int, x_nD: Tensor, buffers: Buffers) -> None:
        """Write these models and buffers over those kept so far."""
        self.step = step
        self.x.copy_(x_nD)
        self.floats.copy_(buffers.floats_NF)
        self.integers.copy_(buffers.integers_NI)


@dataclass(frozen=True)
class EarlyStopping:
    """End a run when the averaged model's loss on the validation data no longer falls.

    The models of the best evaluation are the run's result.

    Args:
        patience: evaluations in a row without a new best loss after which the run ends.
        least: by how much a loss must be lower than the best one so far to count as better.
    """

    patience: int = 5
    least: float = 0.0

    def __post_init__(self) -> None:
        if not isinstance(self.patience, int) or isinstance(self.patience, bool) or self.patience < 1:
            raise ValueError(
                f"early stopping needs a patience that is a whole number, at least 1 evaluation; found "
                f"{self.patience!r}."
            )
        if not 0 <= self.least < math.inf:
            raise ValueError(f"early stopping's least must be a finite number of at least 0; found {self.least}.")


class ValidationJudge(Stateful):
    """Follows the loss on validation data from evaluation to evaluation."""

    constants = ("rule",)

    def __init__(self, rule: EarlyStopping) -> None:
        self.rule = rule
        self.best_loss, self.best_step, self.waited = math.inf, 0, 0

    @property
    def stopped(self) -> bool:
        """Whether the run is to end."""
        return self.waited >= self.rule.patience

    def update(self, loss: float, step: int) -> bool:
        """Take note of an evaluation; return whether it is the best so far."""
        if loss < self.best_loss - self.rule.least or not math.isfinite(self.best_loss):
            self.best_loss, self.best_step, self.waited = loss, step, 0
            return True
        self.waited += 1
        return False
