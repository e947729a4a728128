"""Samples in memory, and a data set's parts for training and for testing."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.utils.data import Dataset

from crossgrad.data.arrays import in_memory
from crossgrad.data.nested import Nested, Placement, layout, leaves, mapped, picked, shapes

Array: TypeAlias = Tensor | NDArray[Any]

Chosen: TypeAlias = Sequence[int] | NDArray[np.int64] | Tensor


@dataclass(frozen=True, eq=False)
class Samples:
    """Inputs and labels in memory. The task decides what the labels mean (`crossgrad.tasks`).

    Both are tensors (n, ...) of any type, or tuples and dicts of such tensors. A model gets a tuple as its arguments
    and a dict as its keyword arguments. Only floating-point parts follow the `dtype` of a run.

    Args:
        inputs: one or several tensors with the samples along axis 0.
        labels: one or several tensors, with the samples along axis 0 too.

    Raises:
        ValueError: inputs and labels differ in number, there are none, or a floating-point value is not finite.

    >>> samples = Samples.of((torch.eye(3), torch.tensor([0, 2, 1])))
    >>> len(samples), samples.shape
    (3, (3,))
    >>> texts = Samples({"tokens": torch.zeros(4, 7, dtype=torch.int64), "mask": torch.ones(4, 7)}, torch.zeros(4))
    >>> texts.shape
    {'tokens': (7,), 'mask': (7,)}
    """

    inputs: Nested
    labels: Nested

    def __post_init__(self) -> None:
        inputs, labels = self.inputs, self.labels
        parts = [*leaves(inputs), *leaves(labels)]
        for part in parts:
            if part.layout != torch.strided or part.is_nested:
                found = "a nested tensor" if part.is_nested else part.layout
                raise ValueError(
                    f"inputs and labels must be dense tensors; found {found}. Convert them by x.to_dense()."
                )
            if part.is_meta:
                raise ValueError(
                    "inputs and labels need values; found the device 'meta', which has shapes only. Make them on 'cpu'."
                )
            if part.is_quantized:
                raise ValueError(
                    "inputs and labels must be plain numbers; found a quantised tensor. Convert it by x.dequantize()."
                )
        if any(part.ndim == 0 for part in parts) or len({len(part) for part in parts}) != 1:
            raise ValueError(
                f"each input must have a label; found inputs of shape {shapes(inputs)} and labels of shape "
                f"{shapes(labels)}. Give both the same first dimension."
            )
        if any(part.numel() == 0 for part in parts):
            raise ValueError(
                f"there must be at least one sample; found inputs of shape {shapes(inputs)} and labels of shape "
                f"{shapes(labels)}. Leave this data set out or fill it."
            )
        for what, nested in (("inputs", inputs), ("labels", labels)):
            for part in leaves(nested):
                if part.is_floating_point():
                    _refuse_nonfinite(what, part)

    @classmethod
    def of(cls, source: Source) -> Samples:
        """Samples from tensors, arrays or a data set.

        Args:
            source: (X, y) of tensors or arrays, or nestings of these; Samples; or a map-style Dataset of
                (input, label) items, such as torchvision's or Hugging Face's. Items of a Dataset are read when they are
                needed, so that it may be larger than memory; a list of items is read at once. An IterableDataset, or
                a function that returns an iterator of items, is a stream (`StreamSamples`).

        Raises:
            ValueError: it is none of these, or `Samples` refuses its content.
        """
        if isinstance(source, Samples):
            return source
        from crossgrad.data.stream import StreamSamples, is_stream  # a subclass, so its module imports this one

        if is_stream(source):
            return StreamSamples(source)
        pair = in_memory(source)
        if pair is not None:
            return Samples(pair[0], mapped(whole_numbers_long, pair[1]))
        from crossgrad.data.lazy import LazySamples  # a subclass, so its module imports this one

        lazy = LazySamples(source)
        lazy.piece(0, 2)  # what is no data set is noticed here
        return lazy.loaded() if isinstance(source, list) else lazy

    @classmethod
    def _of_checked(cls, inputs: Nested, labels: Nested) -> Samples:
        """Parts of samples that were checked before."""
        made = object.__new__(Samples)
        object.__setattr__(made, "inputs", inputs)
        object.__setattr__(made, "labels", labels)
        return made

    def __len__(self) -> int:
        return len(next(leaves(self.labels)))

    def __repr__(self) -> str:
        return f"Samples({len(self)}, inputs {self.shape})"

    @property
    def shape(self) -> Any:
        """The shape of one input; of several parts, in their nesting."""
        return mapped(lambda part: tuple(part.shape[1:]), self.piece(0, 1)[0])

    @property
    def nbytes(self) -> int:
        """Bytes that the samples take in memory."""
        return sum(part.nbytes for part in (*leaves(self.inputs), *leaves(self.labels)))

    def layout(self) -> Any:
        """Types and shapes of one sample; equal for data that one model can take."""
        return layout(self.piece(0, 1))

    def take(self, indices: Chosen) -> Samples:
        """The samples at these indices, in their order."""
        return self._of_checked(*self.rows(as_indices(indices)))

    def rows(self, chosen: Tensor, seed: int = 0) -> tuple[Nested, Nested]:
        """Inputs and labels at these indices; `seed` is for data sets that transform at random when they are read."""
        return picked(self.inputs, chosen), picked(self.labels, chosen)

    def piece(self, start: int, stop: int) -> tuple[Nested, Nested]:
        """Inputs and labels from `start` to before `stop`, without a copy."""
        return mapped(lambda part: part[start:stop], self.inputs), mapped(lambda part: part[start:stop], self.labels)

    def placed(self, placement: Placement) -> Samples:
        """The same samples on another device, in another type or layout."""
        return self._of_checked(placement(self.inputs), placement(self.labels, images=False))

    def loaded(self) -> Samples:
        """The same samples in memory."""
        return self

    def at_once(self, holders: int = 1) -> int:
        """How many samples may be read at once: all if they are in memory, otherwise as many as 64 MB hold.

        Args:
            holders: how many agents hold so many at the same time, so that 64 MB are shared among them.
        """
        return len(self)


Source: TypeAlias = Samples | tuple[Nested, Nested] | Dataset[Any] | Sequence[tuple[Any, Any]]


@dataclass(frozen=True, eq=False)
class Split:
    """The part to train on, and the part to test on.

    Args:
        train: samples to divide among the agents.
        test: samples of the same types and shapes.

    Raises:
        ValueError: types or shapes of the two differ.
    """

    train: Samples
    test: Samples

    def __post_init__(self) -> None:
        train, test = self.train, self.test
        if train.layout() != test.layout():
            raise ValueError(
                f"training and test samples must be of one shape; found inputs {train.shape} and {test.shape}, "
                f"labels {_label_shape(train)} and {_label_shape(test)}. Reshape one of them."
            )


def _label_shape(samples: Samples) -> Any:
    return mapped(lambda part: tuple(part.shape[1:]), samples.piece(0, 1)[1])


def as_indices(indices: Chosen) -> Tensor:
    return indices if isinstance(indices, Tensor) else torch.from_numpy(np.array(indices, np.int64))


def whole_numbers_long(part: Tensor) -> Tensor:
    return part if part.is_floating_point() or part.is_complex() else part.long()


def _refuse_nonfinite(what: str, values: Tensor) -> None:
    low, high = torch.aminmax(values)  # NaN wins in both, so this needs no second tensor of that size
    if low.isfinite() and high.isfinite():
        return
    wrong = (~values.isfinite()).flatten(1).any(1) if values.ndim > 1 else ~values.isfinite()
    raise ValueError(
        f"all {what} must be finite; found {int((~values.isfinite()).sum())} NaN or infinite numbers, in "
        f"{int(wrong.sum())} samples, the first of them sample {int(wrong.nonzero()[0])}. Repair or drop them."
    )
