"""What a task is: all that the library must know about the meaning of outputs and labels.

n: samples, C: classes.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import replace
from typing import Any, Self

from numpy.typing import NDArray
from torch import Tensor

from crossgrad.tasks.metrics import Metric

Loss = Callable[[Any, Any], Tensor]


class Task(ABC):
    """What is learnt. A task of your own is a subclass, a frozen dataclass whose fields `loss` and `metrics` are set.

    Attributes:
        loss: from a model's outputs and the labels of a batch to one number, the mean over the samples.
        metrics: what is measured besides the loss, on test data.
        classes: how many classes there are, for a task that has classes.
    """

    loss: Loss
    metrics: tuple[Metric, ...]
    classes: int | None = None

    def with_loss(self, loss: Loss) -> Self:
        """The same task with another loss."""
        return replace(self, loss=loss)  # type: ignore[type-var]  # every task is a dataclass

    @property
    @abstractmethod
    def outputs(self) -> int:
        """How many numbers a model returns for each sample."""

    @abstractmethod
    def check_labels(self, labels: Any) -> None:
        """Raise ValueError unless these can be the labels of samples."""

    @abstractmethod
    def check_outputs(self, outputs: Any, labels: Any) -> None:
        """Raise ValueError unless a model for this task can return these outputs for samples with these labels."""

    @abstractmethod
    def predictions(self, outputs: Any, labels: Any) -> tuple[Tensor, Tensor]:
        """Scores and targets as metrics take them: one row for each thing that is predicted.

        For classes, scores are (n, C) and targets (n,) of int64; for numbers, both have the same shape.
        """

    @abstractmethod
    def kinds(self, labels: Any) -> NDArray[Any]:
        """One number per sample that partitions sort by, such as its class."""
