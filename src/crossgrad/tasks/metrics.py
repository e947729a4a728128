"""Metrics: numbers that say how well a model does on some data, collected batch by batch.

A metric that is added here, and to the metrics of a task below, is in all records, tables, SQL and the page.

n: samples of a batch, C: classes.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor


@dataclass(frozen=True)
class Metric:
    """One number, or one per class, that says how well a model does.

    Attributes:
        name: in records and SQL: a Python identifier.
        label: in words, for tables and axes.
        collect: from the scores and targets of a batch (`Task.predictions`) to what is kept of it. Metrics with the
            same function share what it returns.
        value: from what was kept of all batches to the value.
        percent: whether it is a share, shown in percent.
        higher_is_better: decides which agent is the worst.
        rank: 0 for one number, 1 for one per class, 2 for one per pair of classes.

    >>> scores, targets = torch.tensor([[0.1, 0.9], [0.8, 0.2]]), torch.tensor([1, 1])
    >>> ACCURACY.value([ACCURACY.collect(scores, targets)])
    0.5
    """

    name: str
    label: str
    collect: Callable[[Tensor, Tensor], Any]
    value: Callable[[Sequence[Any]], float | Tensor]
    percent: bool = False
    higher_is_better: bool = True
    rank: int = 0


def right_by_class(scores_nC: Tensor, targets_n: Tensor) -> Tensor:
    """How many samples of each class there are, and how many of them have their class as the highest score: (2, C)."""
    classes, right = scores_nC.shape[1], targets_n[scores_nC.argmax(dim=1) == targets_n]
    return torch.stack([torch.bincount(part, minlength=classes) for part in (targets_n, right)])


def _accuracy(parts: Sequence[Tensor]) -> float:
    held, right = torch.stack(list(parts)).sum(dim=(0, 2)).tolist()
    return float(right) / held if held else float("nan")


def _class_accuracy(parts: Sequence[Tensor]) -> Tensor:
    counts_2C = torch.stack(list(parts)).sum(dim=0).double().cpu()
    return counts_2C[1] / counts_2C[0]


ACCURACY = Metric("accuracy", "accuracy", right_by_class, _accuracy, percent=True)
CLASS_ACCURACY = Metric(
    "class_accuracy", "accuracy on each class", right_by_class, _class_accuracy, percent=True, rank=1
)

OF_CLASSES = (ACCURACY, CLASS_ACCURACY)
