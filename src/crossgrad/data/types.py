"""Samples: in memory as tensors, or read from a data set when they are asked for."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Self, TypeAlias

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.utils.data import Dataset

from crossgrad.data.arrays import as_item, as_tensors, in_memory
from crossgrad.data.nested import Nested, Placement, layout, leaves, mapped, picked, shapes, stacked

Array: TypeAlias = Tensor | NDArray[Any]
MAX_READ_BYTES = 64 << 20  # of samples that are not in memory, at an evaluation

Chosen: TypeAlias = Sequence[int] | NDArray[np.int64] | Tensor


@dataclass(frozen=True, eq=False)
class Samples:
    """Inputs and labels in memory; what the labels mean is up to the task (`crossgrad.tasks`).

    Both are tensors (n, ...) of any type, or tuples and dicts of such. A model gets a tuple as its arguments and a dict
    as its keyword arguments. Only floating-point parts follow the `dtype` of a run.

    Args:
        inputs: one or several tensors with the samples along axis 0.
        labels: likewise.

    Raises:
        ValueError: numbers of samples differ, there is none, or a floating-point value is not finite.

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
        if any(part.ndim == 0 for part in parts) or len({len(part) for part in parts}) != 1:
            raise ValueError(
                f"Each input needs its label, but the inputs have shape {shapes(inputs)} and the labels "
                f"{shapes(labels)}; give both the same first dimension."
            )
        if any(part.numel() == 0 for part in parts):
            raise ValueError(
                f"At least one sample is needed, but the inputs have shape {shapes(inputs)} and the labels "
                f"{shapes(labels)}; leave this data set out or fill it."
            )
        for what, nested in (("inputs", inputs), ("labels", labels)):
            for part in leaves(nested):
                if part.is_floating_point():
                    _refuse_nonfinite(what, part)

    @classmethod
    def of(cls, source: Source) -> Samples:
        """Samples from whatever holds them.

        Args:
            source: (X, y) of tensors or arrays, or nestings of these; Samples; or a map-style Dataset of
                (input, label) items, such as torchvision's or Hugging Face's. Items of a Dataset are read when they are
                needed, so that it may be larger than memory; a list of items is read at once.

        Raises:
            ValueError: it is none of these, or `Samples` refuses its content.
        """
        if isinstance(source, Samples):
            return source
        pair = in_memory(source)
        if pair is not None:
            return Samples(pair[0], mapped(_whole_numbers_long, pair[1]))
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
        return self._of_checked(*self.rows(_as_indices(indices)))

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

    def at_once(self) -> int:
        """How many samples may be read at once: all of those in memory, else as many as 64 MB hold."""
        return len(self)


class LazySamples(Samples):
    """Samples of a map-style data set, each read when it is asked for.

    Random transforms inside the data set that draw from `torch`, `numpy.random` or `random` are drawn anew whenever an
    agent draws a batch, as a function of (seed, agent, batch).

    Args:
        source: anything with `len()` and `[index]` that returns (input, label), or a dict with a label column.
        workers: processes that read the batches of the next steps ahead; 0: read in this process when needed. They pay
            where reading and transforming a batch takes longer than about a millisecond.

    >>> from torch.utils.data import TensorDataset
    >>> LazySamples(TensorDataset(torch.eye(4), torch.arange(4))).rows(torch.tensor([2]))[1]
    tensor([2])
    """

    def __init__(
        self,
        source: Any,
        workers: int = 0,
        *,
        indices: NDArray[np.int64] | None = None,
        placement: Placement | None = None,
        labels: Nested = None,
    ) -> None:
        chosen = np.arange(len(source)) if indices is None else indices
        for name, value in {
            "source": source, "workers": workers, "indices": chosen, "placement": placement or Placement(),
        }.items():  # fmt: skip
            object.__setattr__(self, name, value)
        if labels is not None:
            self.__dict__["labels"] = labels

    source: Any
    workers: int
    indices: NDArray[np.int64]
    placement: Placement

    def __len__(self) -> int:
        return len(self.indices)

    def __repr__(self) -> str:
        return f"LazySamples({len(self)} of {type(self.source).__name__})"

    @property
    def inputs(self) -> Nested:
        """All inputs, read now."""
        return self.loaded().inputs

    @cached_property
    def labels(self) -> Nested:
        """All labels: of the data set's `targets` or `labels` where it has them; else every item is read once."""
        for name in ("targets", "labels"):
            known = getattr(self.source, name, None)
            if isinstance(known, Tensor | np.ndarray | list) and len(known) == len(self.source):
                labels = as_tensors(np.asarray(known)[self.indices], f"`.{name}` of the data set")
                return self.placement(_whole_numbers_long(labels), images=False)
        with _seeded(0):
            labels = stacked([as_item(self.source[int(i)], int(i))[1] for i in self.indices])
        return self.placement(mapped(_whole_numbers_long, labels), images=False)

    @property
    def nbytes(self) -> int:
        """0: nothing is held."""
        return 0

    def take(self, indices: Chosen) -> Samples:
        rows = _as_indices(indices)
        labels = picked(self.__dict__["labels"], rows) if "labels" in self.__dict__ else None
        return LazySamples(
            self.source, self.workers, indices=self.indices[rows.numpy()], placement=self.placement, labels=labels
        )

    def rows(self, chosen: Tensor, seed: int = 0) -> tuple[Nested, Nested]:
        with _seeded(seed):
            items = [as_item(self.source[int(i)], int(i)) for i in self.indices[chosen.cpu().numpy()]]
        for what, side in (("input", 0), ("label", 1)):
            first = _item_layout(items[0][side])
            for number, item in enumerate(items):
                if (found := _item_layout(item[side])) != first:
                    raise ValueError(
                        f"All items of a data set should be alike, but the {what} of item "
                        f"{int(self.indices[int(chosen[number])])} is {found} and that of item "
                        f"{int(self.indices[int(chosen[0])])} is {first}; resize or convert them."
                    )
        inputs, labels = (stacked([item[side] for item in items]) for side in (0, 1))
        return self.placement(inputs), self.placement(mapped(_whole_numbers_long, labels), images=False)

    def piece(self, start: int, stop: int) -> tuple[Nested, Nested]:
        return self.rows(torch.arange(start, min(stop, len(self))))

    def placed(self, placement: Placement) -> Self:
        return type(self)(self.source, self.workers, indices=self.indices, placement=placement)

    def at_once(self) -> int:
        one: int = sum(part.nbytes for part in leaves(self.piece(0, 1)))
        return min(len(self), max(1, MAX_READ_BYTES // one))

    def loaded(self) -> Samples:
        return Samples(*self.rows(torch.arange(len(self))))


Source: TypeAlias = Samples | tuple[Nested, Nested] | Dataset[Any] | Sequence[tuple[Any, Any]]


@dataclass(frozen=True, eq=False)
class Split:
    """The part to train on, and the part to test on.

    Args:
        train: samples that agents share out.
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
                f"Training and test samples must be of one shape; found inputs {train.shape} and {test.shape}, "
                f"labels {_label_shape(train)} and {_label_shape(test)}. Reshape one of them."
            )


def _label_shape(samples: Samples) -> Any:
    return mapped(lambda part: tuple(part.shape[1:]), samples.piece(0, 1)[1])


def _as_indices(indices: Chosen) -> Tensor:
    return indices if isinstance(indices, Tensor) else torch.from_numpy(np.array(indices, np.int64))


def _item_layout(nested: Nested) -> Any:
    return mapped(lambda part: f"{part.dtype} {tuple(part.shape)}", nested)


def _whole_numbers_long(part: Tensor) -> Tensor:
    return part if part.is_floating_point() or part.is_complex() else part.long()


@contextmanager
def _seeded(seed: int) -> Iterator[None]:
    """The global generators seeded, and afterwards as they were."""
    before = random.getstate(), np.random.get_state()
    with torch.random.fork_rng(devices=[]):
        torch.default_generator.manual_seed(seed)
        random.seed(seed)
        np.random.seed(seed % 2**32)
        try:
            yield
        finally:
            random.setstate(before[0])
            np.random.set_state(before[1])


def _refuse_nonfinite(what: str, values: Tensor) -> None:
    low, high = torch.aminmax(values)  # NaN wins in both, so this needs no second tensor of that size
    if low.isfinite() and high.isfinite():
        return
    wrong = (~values.isfinite()).flatten(1).any(1) if values.ndim > 1 else ~values.isfinite()
    raise ValueError(
        f"All {what} should be finite, but {int((~values.isfinite()).sum())} are NaN or infinite, in "
        f"{int(wrong.sum())} samples, the first of them sample {int(wrong.nonzero()[0])}; repair or drop them."
    )
