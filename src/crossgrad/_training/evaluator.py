"""Losses and metrics of models on data.

D: parameters.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

import torch
from torch import Tensor

from crossgrad._numerics.global_generator import seeded
from crossgrad.data import Samples
from crossgrad.models.buffers import Buffers
from crossgrad.models.flat import FlatModel
from crossgrad.tasks import Metric, Task

EVALUATED_PER_PASS = 1024  # of an evaluation


class Score(NamedTuple):
    """How a model does on some samples."""

    loss: float  # mean over the samples
    metrics: dict[str, float | Tensor]  # the task's


class Evaluator:
    """Evaluates flat models on samples; leaves no trace in any agent's buffers."""

    def __init__(self, model: FlatModel, task: Task, buffers: Buffers, autocast: bool = False) -> None:
        self.model, self.task, self.buffers, self.autocast = model, task, buffers, autocast

    def loss(self, x_D: Tensor, buffers: tuple[Tensor, Tensor], samples: Samples) -> float:
        """The mean loss of one model, with its buffers."""
        return self._pass(x_D, buffers, samples, measured=False).loss

    def score(self, x_D: Tensor, buffers: tuple[Tensor, Tensor], samples: Samples) -> Score:
        """Loss and metrics of one model, with its buffers."""
        return self._pass(x_D, buffers, samples, measured=True)

    def accuracy(self, x_D: Tensor, buffers: tuple[Tensor, Tensor], samples: Samples) -> float:
        """The accuracy of one model, with its buffers; the task must measure it."""
        return float(self._pass(x_D, buffers, samples, measured=True).metrics["accuracy"])

    @torch.no_grad()
    def _pass(self, x_D: Tensor, buffers: tuple[Tensor, Tensor], samples: Samples, measured: bool) -> Score:
        floats, integers = (part.clone() for part in buffers)
        self.model.module.eval()
        self.model.load(x_D)
        self.buffers.load(floats, integers)
        task, metrics = self.task, self.task.metrics if measured else ()
        first = {metric.collect: metric for metric in reversed(metrics)}  # equal ones share their results
        kept: dict[Any, list[Any]] = {collect: [] for collect in first}
        loss = 0.0
        for part in torch.split(torch.arange(len(samples)), min(EVALUATED_PER_PASS, samples.at_once())):
            first_sample = int(part[0])
            inputs, labels = samples.piece(first_sample, int(part[-1]) + 1)
            noise = seeded(first_sample, x_D.device)  # for models that draw in evaluations, too
            with noise, torch.autocast(x_D.device.type, torch.bfloat16, enabled=self.autocast):
                each, outputs = task.evaluate(self.model.module, inputs, labels)
            loss += float(each) * len(part)
            if kept:
                predictions = task.predictions(outputs, labels)
                if self.autocast and predictions[0].is_floating_point():
                    predictions = (predictions[0].to(x_D.dtype), predictions[1])
                for metric in first.values():
                    with _naming(metric, predictions):
                        kept[metric.collect].append(metric.collect(*predictions))
        self.model.unload()
        values: dict[str, float | Tensor] = {}
        for metric in metrics:
            with _naming(metric, predictions):
                values[metric.name] = metric.value(kept[metric.collect])
        return Score(loss / len(samples), values)


@contextmanager
def _naming(metric: Metric, predictions: Any) -> Iterator[None]:
    """Turn an error of a metric into a ValueError that names it."""
    try:
        yield
    except (RuntimeError, ValueError, TypeError, IndexError, AttributeError, KeyError) as error:
        reason = str(error).splitlines()[0] if str(error) else type(error).__name__
        shapes = " and ".join(
            f"of shape {tuple(part.shape)}" if isinstance(part, Tensor) else f"in a {type(part).__name__}"
            for part in predictions
        )
        raise ValueError(
            f"the metric {metric.name!r} must suit the task; it fails on scores and targets {shapes}: {reason}. Leave "
            "it out, or use another."
        ) from error
