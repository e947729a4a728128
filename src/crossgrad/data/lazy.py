"""Samples that are read from a data set when they are needed."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property
from typing import Any, Self

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from crossgrad._numerics.global_generator import all_seeded
from crossgrad.data.arrays import LABEL_COLUMNS, as_item, as_tensors
from crossgrad.data.nested import Nested, Placement, leaves, mapped, picked, stacked
from crossgrad.data.types import Chosen, Samples, as_indices, whole_numbers_long

MAX_READ_BYTES = 64 << 20  # of samples that are not in memory, at an evaluation


class LazySamples(Samples):
    """Samples of a map-style data set, each read when it is needed.

    Random transforms inside the data set that draw from `torch`, `numpy.random` or `random` are drawn anew whenever an
    agent draws a batch, as a function of (seed, agent, batch).

    Args:
        source: anything with `len()` and `[index]` that returns (input, label), or a dict with a label column.
        workers: processes that read the batches of the next steps ahead; 0: read in this process when needed. They help
            if reading and transforming a batch takes longer than about a millisecond.
        indices: which items of the source to use, in this order; None: all.
        placement: device, type and layout of the tensors; None: as they are read.
        labels: the labels of these items if they are known; None: read when they are needed.

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
        """All labels: from the `targets`, `labels` or label column of the data set, else by reading every item once."""
        for name, known in _label_columns(self.source):
            if len(known) == len(self.source):
                labels = as_tensors(np.asarray(known)[self.indices], f"`.{name}` of the data set")
                return self.placement(whole_numbers_long(labels), images=False)
        return self.placement(mapped(whole_numbers_long, self._labels_of_items()), images=False)

    def _labels_of_items(self) -> Nested:
        """The label of every item. Each is copied at once: small tensors kept between large ones scatter the heap."""
        numbers, first = [int(i) for i in self.indices], None
        with all_seeded(0):
            for row, number in enumerate(numbers):
                label = as_item(self.source[number], number)[1]
                if row == 0:
                    first = _item_layout(label)
                    labels = mapped(lambda part: part.new_empty(len(numbers), *part.shape), label)
                _check_layout("label", number, _item_layout(label), numbers[0], first)
                for whole, part in zip(leaves(labels), leaves(label), strict=True):
                    whole[row] = part
        return labels

    @property
    def nbytes(self) -> int:
        """0, as no sample is held in memory."""
        return 0

    def take(self, indices: Chosen) -> Samples:
        rows = as_indices(indices)
        labels = picked(self.__dict__["labels"], rows) if "labels" in self.__dict__ else None
        return LazySamples(
            self.source, self.workers, indices=self.indices[rows.numpy()], placement=self.placement, labels=labels
        )

    def rows(self, chosen: Tensor, seed: int = 0) -> tuple[Nested, Nested]:
        with all_seeded(seed):
            items = [as_item(self.source[int(i)], int(i)) for i in self.indices[chosen.cpu().numpy()]]
        for what, side in (("input", 0), ("label", 1)):
            first = _item_layout(items[0][side])
            numbers = self.indices[chosen.cpu().numpy()].tolist()
            for number, item in zip(numbers, items, strict=True):
                _check_layout(what, number, _item_layout(item[side]), numbers[0], first)
        inputs, labels = (stacked([item[side] for item in items]) for side in (0, 1))
        return self.placement(inputs), self.placement(mapped(whole_numbers_long, labels), images=False)

    def piece(self, start: int, stop: int) -> tuple[Nested, Nested]:
        return self.rows(torch.arange(start, min(stop, len(self))))

    def placed(self, placement: Placement) -> Self:
        return type(self)(self.source, self.workers, indices=self.indices, placement=placement)

    def at_once(self, holders: int = 1) -> int:
        one: int = sum(part.nbytes for part in leaves(self.piece(0, 1)))
        return min(len(self), max(1, MAX_READ_BYTES // (holders * one)))

    def loaded(self) -> Samples:
        return Samples(*self.rows(torch.arange(len(self))))


def _label_columns(source: Any) -> Iterator[tuple[str, Any]]:
    """Labels that need no item to be read: attributes as torchvision's data sets have, a column as Hugging Face's."""
    for name in ("targets", "labels"):
        known = getattr(source, name, None)
        if isinstance(known, Tensor | np.ndarray | list):
            yield name, known
    names, how = getattr(source, "column_names", None), getattr(source, "format", None)
    label = next((name for name in LABEL_COLUMNS if name in names), None) if isinstance(names, list) else None
    transformed = isinstance(how, dict) and how.get("type") == "custom"  # by a function of whole items
    if label is not None and not transformed:
        yield label, np.asarray(source[label][:])


def _check_layout(what: str, number: int, found: Any, of: int, first: Any) -> None:
    """Raise unless an item has the structure, shapes and types of item number `of`."""
    if found != first:
        raise ValueError(
            f"All items of a data set must have the same structure, shapes and types; the {what} of item {number} is "
            f"{found} and that of item {of} is {first}. Resize or convert them."
        )


def _item_layout(nested: Nested) -> Any:
    return mapped(lambda part: f"{part.dtype} {tuple(part.shape)}", nested)
