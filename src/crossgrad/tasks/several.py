"""Several labels per sample, each there or not.

n: samples, L: labels.
"""

from dataclasses import dataclass
from typing import Any

import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn.functional import binary_cross_entropy_with_logits

from crossgrad.tasks.classification import describe_labels
from crossgrad.tasks.metric import Metric
from crossgrad.tasks.metrics import OF_LABELS
from crossgrad.tasks.outputs import check_tensor
from crossgrad.tasks.task import Loss, Task


def mean_binary_cross_entropy(outputs: Tensor, labels: Tensor) -> Tensor:
    """The mean over samples and labels of the cross-entropy of each, there or not."""
    return binary_cross_entropy_with_logits(outputs, labels.to(outputs.dtype))


@dataclass(frozen=True)
class MultiLabel(Task):
    """Each sample has any of `labels` labels: labels are (n, L) of 0 and 1, outputs are scores (n, L).

    A label is predicted if its score is above 0.

    Args:
        labels: the number of labels.
        loss: a function of scores and labels that returns the mean loss of the samples; the mean binary cross-entropy
            by default.
        metrics: what is measured on test data.
    """

    labels: int
    loss: Loss = mean_binary_cross_entropy
    metrics: tuple[Metric, ...] = OF_LABELS

    @property
    def outputs(self) -> int:
        return self.labels

    def check_labels(self, labels: Any) -> None:
        if not isinstance(labels, Tensor) or labels.ndim != 2 or labels.shape[1] != self.labels:
            raise ValueError(
                f"A multi-label task needs labels (n, {self.labels}) of 0 and 1; found {describe_labels(labels)}."
            )
        if not bool(((labels == 0) | (labels == 1)).all()):
            wrong = int(((labels != 0) & (labels != 1)).any(dim=1).nonzero()[0])
            raise ValueError(
                f"labels must be 1 (there) or 0 (not there); found other numbers in sample {wrong}. Convert them."
            )

    def check_outputs(self, outputs: Any, labels: Any) -> None:
        if check_tensor(outputs).shape != labels.shape:
            raise ValueError(
                f"the model must return one score for each of {self.labels} labels; found an output of shape "
                f"{tuple(outputs.shape)} for {len(labels)} samples. Change its last layer."
            )

    def predictions(self, outputs: Any, labels: Any) -> tuple[Tensor, Tensor]:
        return outputs, labels

    def kinds(self, labels: Any) -> NDArray[Any]:
        """The number of the first label that is 1; `labels` where there is none."""
        there = torch.cat([labels > 0.5, labels.new_ones(len(labels), 1, dtype=torch.bool)], dim=1)
        numbers: NDArray[Any] = there.int().argmax(dim=1).cpu().numpy()
        return numbers
