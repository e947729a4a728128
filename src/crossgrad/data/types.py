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
    """Inputs (n, *shape) and labels; what the labels mean is up to the task (`crossgrad.tasks`).

    Checked where made: as many labels as inputs, at least one, all finite.

    >>> samples = Samples.of((torch.eye(3), torch.tensor([0, 2, 1])))
    >>> len(samples), samples.shape
    (3, (3,))
    """

    inputs: Tensor
    labels: Tensor

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
            _refuse_nonfinite("labels", labels)

    def __len__(self) -> int:
        return len(self.inputs)

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of one input."""
        return tuple(self.inputs.shape[1:])

    @classmethod
    def of(cls, source: Source) -> Samples:
        """Samples from (X, y), from Samples, or from a map-style torch Dataset of (input, label) items.

        A Dataset is read once into memory: random augmentation inside it is therefore frozen. Labels that are whole
        numbers become int64.
        """
        if isinstance(source, Samples):
            return source
        inputs, labels = as_pair(source)
        return cls(inputs, labels if labels.is_floating_point() or labels.is_complex() else labels.long())

    def take(self, indices: Sequence[int] | NDArray[np.int64] | Tensor) -> Samples:
        """The samples at these indices, in their order."""
        chosen = indices if isinstance(indices, Tensor) else torch.from_numpy(np.array(indices, np.int64))
        return Samples(*self.rows(chosen))

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
        if train.shape != test.shape or train.labels.shape[1:] != test.labels.shape[1:]:
            raise ValueError(
                f"Training and test samples must be of one shape; found inputs {train.shape} and {test.shape}, labels "
                f"{tuple(train.labels.shape[1:])} and {tuple(test.labels.shape[1:])}. Reshape one of them."
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
