"""The samples of several agents together, so that all batches of a step are picked at once."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from crossgrad._numerics.seeding import key
from crossgrad.data.augment import Augment, augmented
from crossgrad.data.batches import Batches
from crossgrad.data.lazy import LazySamples
from crossgrad.data.loader import Loader
from crossgrad.data.nested import Nested, Placement, cut, leaves, mapped
from crossgrad.data.stream import StreamSamples
from crossgrad.data.types import Samples

DrawnSamples = tuple[Nested, Nested]  # inputs and labels of a batch


@dataclass(frozen=True, eq=False)
class Pool:
    """The samples of several agents, in one block of memory unless some of them are read when needed.

    Attributes:
        agents: each agent's own samples.
        all: those of all agents, one after the other, in the same memory; None if some are read when needed.
        starts_N: where each agent's begin in `all`.
        augment: the transform of training batches, if any.
        loader: reads the batches of those that are not in memory.
    """

    agents: tuple[Samples, ...]
    all: Samples | None
    starts_N: NDArray[np.int64]
    augment: Augment | None = None
    loader: Loader | None = None

    @classmethod
    def of(
        cls,
        agents: Sequence[Samples],
        device: torch.device | None = None,
        dtype: torch.dtype | None = None,
        channels_last: bool = False,
        augment: Augment | None = None,
    ) -> "Pool":
        """The pool of these agents.

        Args:
            agents: their samples, which are copied if all are in memory.
            device: where batches go.
            dtype: the type of their floating-point parts.
            channels_last: whether the channels of images lie last in memory.
            augment: the transform of training batches.
        """
        placement = Placement(device, dtype, channels_last)
        starts_N = np.cumsum([0, *(len(own) for own in agents[:-1])])
        if any(isinstance(own, LazySamples | StreamSamples) for own in agents):
            placed = tuple(own.placed(placement) for own in agents)
            return cls(placed, None, starts_N, augment, Loader(placed, augment))
        inputs = mapped(lambda *parts: _joined_parts(parts, placement, images=True), *(own.inputs for own in agents))
        labels = mapped(lambda *parts: _joined_parts(parts, placement, images=False), *(own.labels for own in agents))
        whole = Samples._of_checked(inputs, labels)
        parts = [
            Samples._of_checked(*whole.piece(start, start + len(own)))
            for start, own in zip(starts_N.tolist(), agents, strict=True)
        ]
        return cls(tuple(parts), whole, starts_N, augment)

    def draw(self, who: list[int], numbers: NDArray[np.int64], batches: Batches, first: int) -> Iterator[DrawnSamples]:
        """The next batches of these agents.

        Args:
            who: the agents, by their place in the pool, ascending.
            numbers: which batch of each, counted from 0.
            batches: which samples make a batch.
            first: the number of the pool's first agent among all.
        """
        if self.all is None:
            assert self.loader is not None
            yield from self.loader.draw(who, numbers, batches, first)
            return
        agents, sizes = np.array(who, np.int64), [batches.batch_sizes[first + j] for j in who]
        chosen = batches.together(agents + first, numbers) + np.repeat(self.starts_N[agents], sizes)
        inputs, labels = (cut(part, sizes) for part in self.all.rows(torch.from_numpy(chosen)))
        for j, number, own, own_labels in zip(who, numbers.tolist(), inputs, labels, strict=True):
            if self.augment is not None:
                own = augmented(self.augment, own, key(batches.seed, "augment", first + j, number))
            yield own, own_labels


def _joined_parts(parts: Sequence[Tensor], placement: Placement, images: bool) -> Tensor:
    """One agent's part after the other's, in a new tensor."""
    example = parts[0]
    dtype = placement.dtype if example.is_floating_point() and placement.dtype else example.dtype
    nhwc = placement.channels_last and images and example.dim() == 4
    shape = (*example.shape[2:], example.shape[1]) if nhwc else example.shape[1:]
    whole = torch.empty(sum(len(part) for part in parts), *shape, dtype=dtype, device=placement.device)
    whole = whole.permute(0, 3, 1, 2) if nhwc else whole
    start = 0
    for part in parts:
        whole[start : start + len(part)] = part
        start += len(part)
    return whole


def input_numbers(samples: Samples) -> int:
    """How many numbers one input has, in all its parts together."""
    return sum(part[0].numel() for part in leaves(samples.piece(0, 1)[0]))
