"""One class per sample.

n: samples, C: classes.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn.functional import cross_entropy

from crossgrad.tasks.metric import Metric
from crossgrad.tasks.metrics import OF_CLASSES
from crossgrad.tasks.outputs import check_tensor
from crossgrad.tasks.task import Loss, Task


@dataclass(frozen=True)
class Classification(Task):
    """Each sample has one of `classes` classes: labels are int64 (n,), outputs are scores (n, C).

    Args:
        classes: the number of classes.
        loss: a function of scores and labels that returns the mean loss of the samples; cross-entropy by default.
        metrics: what is measured on test data.
    """

    classes: int
    loss: Loss = cross_entropy
    metrics: tuple[Metric, ...] = OF_CLASSES

    def __post_init__(self) -> None:
        if self.classes < 1:
            raise ValueError(f"classification needs at least one class; found classes = {self.classes}.")

    @property
    def outputs(self) -> int:
        return self.classes

    @property
    def is_plain_cross_entropy(self) -> bool:
        return self.loss is cross_entropy

    def check_labels(self, labels: Any) -> None:
        if not isinstance(labels, Tensor) or labels.dtype != torch.int64 or labels.ndim != 1:
            raise ValueError(
                f"class labels must be one int64 per sample; found {describe_labels(labels)}. Convert them by "
                "y.long(), one-hot ones by y.argmax(1), or pass another task."
            )
        wrong = ((labels < 0) | (labels >= self.classes)).nonzero().flatten()
        if len(wrong):
            raise ValueError(
                f"labels of {self.classes} classes must be 0 to {self.classes - 1}; found {len(wrong)} others, the "
                "first of "
                f"them {int(labels[wrong[0]])} at sample {int(wrong[0])}. Renumber them or raise classes."
            )

    def check_outputs(self, outputs: Any, labels: Any) -> None:
        check_tensor(outputs)
        if outputs.ndim != 2 or len(outputs) != len(labels) or outputs.shape[1] < self.classes:
            raise ValueError(
                f"the data has {self.classes} classes, so the model must return {self.classes} numbers per sample; "
                f"found an output of shape {tuple(outputs.shape)} for {len(labels)} samples. Change its last layer."
            )

    def predictions(self, outputs: Any, labels: Any) -> tuple[Tensor, Tensor]:
        return outputs, labels

    def kinds(self, labels: Any) -> NDArray[Any]:
        numbers: NDArray[np.int64] = labels.cpu().numpy()
        return numbers


def describe_labels(labels: Any) -> str:
    """What labels are, in a few words: for error messages."""
    if isinstance(labels, Tensor):
        return f"{labels.dtype} of shape {tuple(labels.shape)}"
    return f"a {type(labels).__name__}"
