"""Samples in memory, and their division into training and test part."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.utils.data import Dataset

from crossgrad.data.arrays import as_pair

Array: TypeAlias = Tensor | NDArray[Any]


@dataclass(frozen=True, eq=False)
class Samples:
    """Inputs (n, *shape) and labels: int64 (n,) of `classes` classes, or floating numbers to regress on.

    Checked where made: as many labels as inputs, at least one, all finite, class labels within 0..classes-1.

    >>> samples = Samples.of((torch.eye(3), torch.tensor([0, 2, 1])))
    >>> len(samples), samples.shape, samples.classes
    (3, (3,), 3)
    """

    inputs: Tensor
    labels: Tensor
    classes: int | None = None

    def __post_init__(self) -> None:
        inputs, labels = self.inputs, self.labels
        if inputs.ndim == 0 or labels.ndim == 0 or len(inputs) != len(labels):
            raise ValueError(
                f"Each input needs its label, but the inputs have shape {tuple(inputs.shape)} and the labels "
                f"{tuple(labels.shape)}; give both the same first dimension."
            )
        if inputs.numel() == 0 or labels.numel() == 0:
            raise ValueError(
                f"At least one sample is needed, but the inputs have shape {tuple(inputs.shape)} and the labels "
                f"{tuple(labels.shape)}; leave this data set out or fill it."
            )
        if not inputs.is_floating_point():
            raise ValueError(
                f"Inputs are floating point, but these are {inputs.dtype}; convert them first, "
                f"for instance pixels by X.float() / 255."
            )
        _refuse_nonfinite("inputs", inputs)
        if labels.is_floating_point():
            self._check_targets()
        else:
            self._check_classes()

    def _check_targets(self) -> None:
        if self.classes is not None:
            raise ValueError(
                f"Labels of {self.classes} classes are whole numbers, but these are {self.labels.dtype}; "
                f"convert them by y.long(), or leave out classes to regress on them."
            )
        _refuse_nonfinite("labels", self.labels)

    def _check_classes(self) -> None:
        labels, classes = self.labels, self.classes
        if labels.dtype != torch.int64 or labels.ndim != 1:
            raise ValueError(
                f"Class labels are one int64 per sample, but these are {labels.dtype} of shape "
                f"{tuple(labels.shape)}; convert them by y.long(), one-hot ones by y.argmax(1)."
            )
        if classes is None:
            raise ValueError("Class labels need the number of classes; pass classes, or use Samples.of((X, y)).")
        wrong = ((labels < 0) | (labels >= classes)).nonzero().flatten()
        if len(wrong):
            raise ValueError(
                f"Labels of {classes} classes are 0 to {classes - 1}, but {len(wrong)} are not, the first of "
                f"them {int(labels[wrong[0]])} at sample {int(wrong[0])}; renumber them or raise classes."
            )

    def __len__(self) -> int:
        return len(self.inputs)

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of one input."""
        return tuple(self.inputs.shape[1:])

    def class_labels(self) -> NDArray[Any]:
        """The labels as an array, for a partition rule; of several numbers to regress on, the first."""
        return (self.labels.flatten(1)[:, 0] if self.labels.ndim > 1 else self.labels).cpu().numpy()

    @classmethod
    def of(cls, source: Source, classes: int | None = None) -> Samples:
        """Samples from (X, y), from Samples, or from a map-style torch Dataset of (input, label) items.

        A Dataset is read once into memory: random augmentation inside it is therefore frozen. Without
        `classes`, whole-number labels are taken to be of as many classes as the largest label says.
        """
        if isinstance(source, Samples):
            return source if classes in (None, source.classes) else cls(source.inputs, source.labels, classes)
        inputs, labels = as_pair(source)
        if not labels.is_floating_point() and not labels.is_complex():
            labels = labels.long()
            if classes is None and labels.numel():
                classes = max(int(labels.max()) + 1, 1)
        return cls(inputs, labels, classes)

    def take(self, indices: Sequence[int] | NDArray[np.int64] | Tensor) -> Samples:
        """The samples at these indices, in their order."""
        chosen = indices if isinstance(indices, Tensor) else torch.from_numpy(np.array(indices, np.int64))
        return Samples(*self.rows(chosen), self.classes)

    def rows(self, chosen: Tensor) -> tuple[Tensor, Tensor]:
        """Inputs and labels at these indices. Images whose channels lie last in memory keep them there."""
        inputs, chosen = self.inputs, chosen.to(self.inputs.device)
        if inputs.dim() == 4 and inputs.stride(1) == 1:  # index_select itself would turn them round
            picked = inputs.permute(0, 2, 3, 1).index_select(0, chosen).permute(0, 3, 1, 2)
        else:
            picked = inputs.index_select(0, chosen)
        return picked, self.labels.index_select(0, chosen)


Source: TypeAlias = Samples | tuple[Array, Array] | Dataset[Any] | Sequence[tuple[Any, Any]]


@dataclass(frozen=True, eq=False)
class Split:
    """The part to train on, and the part to test on."""

    train: Samples
    test: Samples

    def __post_init__(self) -> None:
        train, test = self.train, self.test
        if (train.shape, train.classes) != (test.shape, test.classes):
            raise ValueError(
                f"Training and test samples should be alike, but have inputs {train.shape} and {test.shape}, "
                f"classes {train.classes} and {test.classes}; reshape one, or pass classes for both."
            )


def _refuse_nonfinite(what: str, values: Tensor) -> None:
    low, high = torch.aminmax(values)  # NaN wins in both, so this needs no second tensor of that size
    if low.isfinite() and high.isfinite():
        return
    wrong = (~values.isfinite()).flatten(1).any(1) if values.ndim > 1 else ~values.isfinite()
    raise ValueError(
        f"All {what} should be finite, but {int((~values.isfinite()).sum())} are NaN or infinite, in "
        f"{int(wrong.sum())} samples, the first of them sample {int(wrong.nonzero()[0])}; repair or drop them."
    )
