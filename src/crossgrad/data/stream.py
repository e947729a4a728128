"""Samples of an agent that come as a stream: read once, in their order, without a known number."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from itertools import islice
from typing import Any, Self

from torch.utils.data import IterableDataset

from crossgrad._numerics.global_generator import all_seeded
from crossgrad._numerics.seeding import key
from crossgrad.data.arrays import as_item, kind
from crossgrad.data.nested import Nested, Placement, mapped, stacked
from crossgrad.data.types import Samples, whole_numbers_long

HEAD = 256  # samples at the start of a stream that are kept


class StreamSamples(Samples):
    """An agent's endless stream of samples, of which only the first few are kept.

    Batch i of B samples are the items i B to (i+1) B - 1 of the stream. A stream that ends begins again. A resumed run
    reads the stream from its start up to the place where it stopped, so the function must make the same stream each
    time. What it draws from `torch`, `numpy.random` and `random` is seeded by (seed, agent, batch).

    A stream has no length: the `head` counts as one epoch, and the training loss of records is measured on it.

    Args:
        source: an IterableDataset, or a function that returns a new iterator of (input, label) items.
        head: how many samples are kept; at least a batch.

    Raises:
        ValueError: it is an iterator, which can be read only once, or it has no items.

    >>> import torch
    >>> stream = StreamSamples(lambda: ((torch.full((2,), float(i)), i % 2) for i in range(5)), head=3)
    >>> stream.batch(1, 3, seed=0, agent=0)[1]  # items 3, 4, and then 0 again
    tensor([1, 0, 0])
    """

    source: Callable[[], Iterable[Any]] | IterableDataset[Any]
    placement: Placement
    goes_on: bool  # whether the stream has more items than the head

    def __init__(self, source: Any, head: int = HEAD) -> None:
        if hasattr(source, "__next__"):
            raise ValueError(
                f"A stream must be readable again from its start, to resume a run; found {kind(source)}, which can be "
                f"read once. Pass the function that makes it, or an IterableDataset."
            )
        object.__setattr__(self, "source", source)
        object.__setattr__(self, "placement", Placement())
        with all_seeded(0):
            items = [as_item(item, number) for number, item in enumerate(islice(self._items(), head + 1))]
        if not items:
            raise ValueError("a stream must have at least one sample; found none. Leave it out or fill it.")
        super().__init__(*_joined_items(items[:head]))
        object.__setattr__(self, "goes_on", len(items) > head)
        self._restart()

    def __repr__(self) -> str:
        return f"StreamSamples(first {len(self)} kept, inputs {self.shape})"

    def batch(self, number: int, size: int, seed: int, agent: int) -> tuple[Nested, Nested]:
        """Inputs and labels of a batch; batches before it that have not been read are skipped."""
        if number < self._next:
            self._restart()
        while True:
            with all_seeded(key(seed, "augment", agent, self._next)):
                items = [self._item() for _ in range(size)]
            object.__setattr__(self, "_next", self._next + 1)
            if self._next > number:
                inputs, labels = _joined_items(items)
                return self.placement(inputs), self.placement(labels, images=False)

    def placed(self, placement: Placement) -> Self:
        made = object.__new__(type(self))
        whole = super().placed(placement)
        for name, value in (("inputs", whole.inputs), ("labels", whole.labels), ("source", self.source)):
            object.__setattr__(made, name, value)
        object.__setattr__(made, "placement", placement)
        object.__setattr__(made, "goes_on", self.goes_on)
        made._restart()
        return made

    def _items(self) -> Iterator[Any]:
        return iter(self.source() if callable(self.source) else self.source)

    def _restart(self) -> None:
        object.__setattr__(self, "_next", 0)  # the batch that comes next
        object.__setattr__(self, "_reading", None)

    _next: int
    _reading: Iterator[Any] | None

    def _item(self) -> tuple[Nested, Nested]:
        """The next item; after the last one, the first again."""
        for _ in range(2):
            if self._reading is None:
                object.__setattr__(self, "_reading", self._items())
            assert self._reading is not None
            for item in self._reading:
                return as_item(item, self._next)
            object.__setattr__(self, "_reading", None)
        raise ValueError(
            "a stream must have the same items each time it is read; found none this time. Pass a function "
            "that makes it anew."
        )

    def __getstate__(self) -> dict[str, Any]:
        return self.__dict__ | {"_next": 0, "_reading": None}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)


def is_stream(source: Any) -> bool:
    """Whether something is a stream: an IterableDataset, a generator function or another function, an iterator."""
    return (
        isinstance(source, IterableDataset)
        or hasattr(source, "__next__")
        or (callable(source) and not hasattr(source, "__getitem__"))
    )


def refuse_streams(agents: Iterable[Samples], what: str) -> None:
    """Raise if one of these is a stream, for an operation that needs to know all samples.

    Args:
        agents: each agent's samples.
        what: names the operation, as the start of the error's sentence.
    """
    if any(isinstance(own, StreamSamples) for own in agents):
        raise ValueError(
            f"{what} needs data of known length; found a stream. Pass arrays or a map-style data set; as "
            f"training data, a list with one stream per agent."
        )


def _joined_items(items: list[tuple[Nested, Nested]]) -> tuple[Nested, Nested]:
    inputs, labels = (stacked([item[side] for item in items]) for side in (0, 1))
    return inputs, mapped(whole_numbers_long, labels)
