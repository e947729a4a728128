"""What a task is: all that the library must know about the meaning of outputs and labels.

n: samples, C: classes.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Any, Self

from numpy.typing import NDArray
from torch import Tensor

from crossgrad.tasks.metric import Metric
from crossgrad.tasks.outputs import call, main_output

Loss = Callable[[Any, Any], Tensor]


class Task(ABC):
    """What is learnt: the loss, the valid labels and outputs, and the metrics.

    A task of your own is an `OwnTask`, or a subclass of this class: a frozen dataclass with these fields.

    Attributes:
        loss: a function of a model's outputs and the labels of a batch that returns the mean loss of the samples.
        metrics: the metrics that are measured on test data besides the loss.
        classes: how many classes there are, for a task that has classes.
    """

    loss: Loss
    metrics: tuple[Metric, ...]
    classes: int | None = None

    def with_loss(self, loss: Loss) -> Self:
        """The same task with another loss."""
        return replace(self, loss=loss)  # type: ignore[type-var]  # every task is a dataclass

    def with_metrics(self, metrics: Iterable[Metric]) -> Self:
        """The same task with these metrics added; a metric with the name of an existing one replaces it."""
        named = {metric.name: metric for metric in (*self.metrics, *metrics)}
        return replace(self, metrics=tuple(named.values()))  # type: ignore[type-var]

    def apply(self, model: Any, inputs: Any) -> Any:
        """The model's output for loss and metrics: its tensor, the first of a tuple, `logits` of a dict or object."""
        return main_output(call(model, inputs))

    def batch_loss(self, model: Any, inputs: Any, labels: Any) -> Tensor:
        """The loss of a model on a batch: what is differentiated."""
        return self.loss(self.apply(model, inputs), labels)

    def evaluate(self, model: Any, inputs: Any, labels: Any) -> tuple[Tensor, Any]:
        """The loss on a batch, and the outputs for the metrics."""
        outputs = self.apply(model, inputs)
        return self.loss(outputs, labels), outputs

    @property
    def is_plain_cross_entropy(self) -> bool:
        """Whether the loss is PyTorch's mean cross-entropy of scores (n, C), which has a fast way for many models."""
        return False

    @property
    @abstractmethod
    def outputs(self) -> int:
        """How many numbers a model returns for each sample, or for each position in it."""

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
