"""A task of one's own: a function of model and batch, and a dict of metrics."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from crossgrad.tasks.metric import Metric, as_metrics
from crossgrad.tasks.metrics import METRICS
from crossgrad.tasks.task import Loss, Task


class Batch(NamedTuple):
    """The argument of a user's loss besides the model: inputs and labels, each a tensor or a nesting of tensors."""

    inputs: Any
    labels: Any


@dataclass(frozen=True)
class OwnTask(Task):
    """A task made of functions: `model_loss(model, batch)` is the loss; metrics are functions of outputs and labels.

    Args:
        model_loss: a function of the model and a batch (`batch.inputs`, `batch.labels`) that returns the mean loss of
            the samples.
        own_metrics: functions of scores and targets, `torchmetrics` objects, or metrics, by name.
        output: a function of model and inputs that returns the outputs for the metrics; by default the model's main
            output.
        pair: a function of outputs and labels that returns the scores and targets for the metrics; by default the
            outputs and labels themselves.
        metrics: further metrics besides `own_metrics`.

    >>> import torch
    >>> task = OwnTask(lambda model, batch: (model(batch.inputs) - batch.labels).abs().mean())
    >>> float(task.batch_loss(torch.nn.Identity(), torch.ones(4), torch.zeros(4)))
    1.0
    """

    model_loss: Callable[[Any, Batch], Tensor]
    own_metrics: Any = field(default_factory=dict)
    output: Callable[[Any, Any], Any] | None = None
    pair: Callable[[Any, Any], tuple[Any, Any]] | None = None
    metrics: tuple[Metric, ...] = ()

    def __post_init__(self) -> None:
        every = (*as_metrics(self.metrics, METRICS), *as_metrics(self.own_metrics, METRICS))
        object.__setattr__(self, "metrics", tuple({metric.name: metric for metric in every}.values()))

    @property
    def loss(self) -> Loss:  # type: ignore[override]
        raise ValueError("a loss of outputs was expected; an OwnTask has one of model and batch. Use batch_loss.")

    def with_loss(self, loss: Loss) -> "OwnTask":
        raise ValueError("a loss must be given once; an OwnTask has its own. Leave `loss` out.")

    @property
    def outputs(self) -> int:
        raise ValueError(
            "models by name need the number of outputs; that of an OwnTask is not known. Pass a model of your own."
        )

    def apply(self, model: Any, inputs: Any) -> Any:
        return super().apply(model, inputs) if self.output is None else self.output(model, inputs)

    def batch_loss(self, model: Any, inputs: Any, labels: Any) -> Tensor:
        return self.model_loss(model, Batch(inputs, labels))

    def evaluate(self, model: Any, inputs: Any, labels: Any) -> tuple[Tensor, Any]:
        return self.batch_loss(model, inputs, labels), self.apply(model, inputs) if self.metrics else None

    def check_labels(self, labels: Any) -> None:
        """All labels are fine."""

    def check_outputs(self, outputs: Any, labels: Any) -> None:
        """All outputs are fine."""

    def predictions(self, outputs: Any, labels: Any) -> tuple[Any, Any]:
        return (outputs, labels) if self.pair is None else self.pair(outputs, labels)

    def kinds(self, labels: Any) -> NDArray[Any]:
        """Zeros: the kinds of samples are not known, so all are of one kind."""
        first = labels
        while isinstance(first, dict | tuple):
            first = next(iter(first.values())) if isinstance(first, dict) else first[0]
        return np.zeros(len(first), np.int64)
