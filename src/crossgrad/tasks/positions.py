"""One class per position: each token of a text, each pixel of an image.

n: samples, T: tokens, H and W: pixels, C: classes.
"""

from dataclasses import dataclass
from typing import Any, ClassVar, cast

import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn.functional import cross_entropy

from crossgrad.tasks.classification import describe_labels
from crossgrad.tasks.metric import Metric
from crossgrad.tasks.metrics import OF_PIXELS, OF_TOKENS
from crossgrad.tasks.outputs import check_tensor
from crossgrad.tasks.task import Loss, Task

IGNORED = -100  # PyTorch's own label of positions that do not count


@dataclass(frozen=True)
class PositionLoss:
    """The mean cross-entropy over the positions that count; 0 where none does."""

    axis: int  # of the classes in outputs
    ignored: int = IGNORED
    shift: bool = False  # whether the output at a position is compared with the label of the next

    def __call__(self, outputs: Tensor, labels: Tensor) -> Tensor:
        scores, targets = self.aligned(outputs, labels)
        total = cross_entropy(scores, targets, ignore_index=self.ignored, reduction="sum")
        return total / (targets != self.ignored).sum().clamp(min=1)

    def aligned(self, outputs: Tensor, labels: Tensor) -> tuple[Tensor, Tensor]:
        """Scores (positions, C) and labels (positions,), ignored ones included."""
        if self.shift:
            outputs, labels = outputs[:, :-1], labels[:, 1:]
        return outputs.movedim(self.axis, -1).flatten(0, -2), labels.flatten()


class _PerPosition(Task):
    """What tokens and pixels share."""

    classes: int
    ignored: int
    name: ClassVar[str]
    axis: ClassVar[int]

    @property
    def _by_position(self) -> PositionLoss:
        return PositionLoss(self.axis, self.ignored)

    def __post_init__(self) -> None:
        if self.classes < 1:
            raise ValueError(f"a task per {self.name} needs at least one class; found classes = {self.classes}.")
        if self.loss is None:
            object.__setattr__(self, "loss", self._by_position)

    @property
    def outputs(self) -> int:
        return self.classes

    def check_labels(self, labels: Any) -> None:
        if not isinstance(labels, Tensor) or labels.dtype != torch.int64 or labels.ndim < 2:
            raise ValueError(
                f"A task per {self.name} needs int64 labels with one number per {self.name}; found "
                f"{describe_labels(labels)}. Convert them by y.long()."
            )
        wrong = (((labels < 0) | (labels >= self.classes)) & (labels != self.ignored)).flatten(1)
        if bool(wrong.any()):
            sample = int(wrong.any(dim=1).nonzero()[0])
            value = int(labels.flatten(1)[sample][wrong[sample]][0])
            raise ValueError(
                f"labels of {self.classes} classes must be 0 to {self.classes - 1}, or {self.ignored} where a "
                f"{self.name} "
                f"does not count; found {value} in sample {sample}. Renumber them, raise classes or set ignored."
            )

    def check_outputs(self, outputs: Any, labels: Any) -> None:
        shape = list(labels.shape)
        shape.insert(self.axis if self.axis > 0 else len(shape), self.classes)
        if list(check_tensor(outputs).shape) != shape:
            raise ValueError(
                f"the model must return scores of {self.classes} classes for each {self.name}, of shape "
                f"{tuple(shape)}; found {tuple(outputs.shape)}. Change its last layer, or the order of its axes."
            )

    def predictions(self, outputs: Any, labels: Any) -> tuple[Tensor, Tensor]:
        scores, targets = self._by_position.aligned(outputs, labels)
        counted = targets != self.ignored
        return scores[counted], targets[counted]

    def kinds(self, labels: Any) -> NDArray[Any]:
        """The class that most positions of the sample have."""
        numbers: NDArray[Any] = labels.flatten(1).mode(dim=1).values.clamp(min=0).cpu().numpy()
        return numbers


@dataclass(frozen=True)
class TokenClassification(_PerPosition):
    """Each token has one of `classes` classes: labels are int64 (n, T), outputs (n, T, C).

    For a language model, the classes are the vocabulary. Labels are the next tokens or, with `shift`, the tokens of the
    input itself, and the output at each position predicts the token after it.

    Args:
        classes: how many there are.
        ignored: the label of tokens that count for nothing, such as padding.
        shift: whether the output at a position is compared with the label of the next.
        loss: of outputs and labels; the mean cross-entropy over the tokens that count by default.
        metrics: what is measured on test data.
    """

    classes: int
    ignored: int = IGNORED
    shift: bool = False
    loss: Loss = cast(Loss, None)
    metrics: tuple[Metric, ...] = OF_TOKENS

    name: ClassVar[str] = "token"
    axis: ClassVar[int] = -1

    @property
    def _by_position(self) -> PositionLoss:
        return PositionLoss(self.axis, self.ignored, self.shift)


@dataclass(frozen=True)
class Segmentation(_PerPosition):
    """Each pixel has one of `classes` classes: labels are int64 (n, H, W), outputs (n, C, H, W).

    Args:
        classes: how many there are.
        ignored: the label of pixels that count for nothing, such as borders.
        loss: of outputs and labels; the mean cross-entropy over the pixels that count by default.
        metrics: what is measured on test data.
    """

    classes: int
    ignored: int = IGNORED
    loss: Loss = cast(Loss, None)
    metrics: tuple[Metric, ...] = OF_PIXELS

    name: ClassVar[str] = "pixel"
    axis: ClassVar[int] = 1
