"""Batches of samples that are read when they are needed, in this process or ahead of time by worker processes."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch.utils.data import DataLoader, Dataset, Sampler

from crossgrad._numerics.seeding import key
from crossgrad.data.augment import Augment, augmented
from crossgrad.data.batches import Batches
from crossgrad.data.lazy import LazySamples
from crossgrad.data.nested import Nested, Placement
from crossgrad.data.stream import StreamSamples
from crossgrad.data.types import Samples

STEPS_AHEAD = 2  # of all agents' batches that workers prepare

BatchKey = tuple[int, int]  # agent of the pool, number of its batch


class Loader:
    """Reads batches of agents whose samples are not in memory.

    Worker processes prepare the batches of the next steps in the order in which agents draw if all take part; a batch
    that is drawn out of that order (an agent was absent) is read here. Results do not depend on the workers.
    """

    def __init__(self, agents: Sequence[Samples], augment: Augment | None) -> None:
        self.augment = augment
        self.workers = max((own.workers for own in agents if isinstance(own, LazySamples)), default=0)
        self.devices = [own.placement.device if isinstance(own, LazySamples) else None for own in agents]
        if self.workers:  # which prepare batches in the computer's memory
            agents = [
                own.placed(replace(own.placement, device=None)) if isinstance(own, LazySamples) else own
                for own in agents
            ]
        self.agents = agents
        self._ahead: Iterator[tuple[BatchKey, Nested, Nested]] | None = None
        self._held: dict[BatchKey, tuple[Nested, Nested]] = {}
        self._reached: BatchKey = (-1, -1)

    def draw(
        self, who: list[int], numbers: NDArray[np.int64], batches: Batches, first: int
    ) -> Iterator[tuple[Nested, Nested]]:
        """The batches of these agents; see `Pool.draw`."""
        reader = _Reader(self.agents, self.augment, batches, first)
        for j, number in zip(who, numbers.tolist(), strict=True):
            if not self.workers or isinstance(self.agents[j], StreamSamples):
                _, inputs, labels = reader[j, number]
                yield inputs, labels
            else:
                inputs, labels = self._from_workers((j, number), reader)
                placement = Placement(self.devices[j])
                yield placement(inputs), placement(labels)

    def _from_workers(self, wanted: BatchKey, reader: "_Reader") -> tuple[Nested, Nested]:
        if self._ahead is None:
            order = _Order(len(self.agents), wanted[1])
            self._ahead = iter(
                DataLoader(
                    reader,
                    sampler=order,
                    batch_size=None,
                    collate_fn=_as_it_is,
                    num_workers=self.workers,
                    generator=torch.Generator(),  # or it would draw from the global one
                    prefetch_factor=max(1, STEPS_AHEAD * len(self.agents) // self.workers),
                )
            )
        if wanted in self._held:
            return self._held.pop(wanted)
        while (self._reached[1], self._reached[0]) < (wanted[1], wanted[0]):
            self._reached, inputs, labels = next(self._ahead)
            if self._reached == wanted:
                return inputs, labels
            self._held[self._reached] = (inputs, labels)
            if len(self._held) > STEPS_AHEAD * len(self.agents):  # of agents that are away for long
                self._held.pop(next(iter(self._held)))
        _, inputs, labels = reader[wanted]
        return inputs, labels

    def __getstate__(self) -> dict[str, Any]:
        return self.__dict__ | {"_ahead": None, "_held": {}, "_reached": (-1, -1)}


class _Reader(Dataset[Any]):
    """Batches by (agent, number), read and augmented."""

    def __init__(self, agents: Sequence[Samples], augment: Augment | None, batches: Batches, first: int) -> None:
        self.agents, self.augment, self.batches, self.first = agents, augment, batches, first

    def __getitem__(self, wanted: BatchKey) -> tuple[BatchKey, Nested, Nested]:
        j, number = wanted
        chosen = torch.from_numpy(self.batches.indices(self.first + j, number))
        seed = key(self.batches.seed, "augment", self.first + j, number)
        own = self.agents[j]
        if isinstance(own, StreamSamples):
            inputs, labels = own.batch(number, len(chosen), self.batches.seed, self.first + j)
        else:
            inputs, labels = own.rows(chosen, seed)
        if self.augment is not None:
            inputs = augmented(self.augment, inputs, seed)
        return wanted, inputs, labels


def _as_it_is(batch: Any) -> Any:
    return batch


class _Order(Sampler[BatchKey]):
    """The endless order in which workers prepare batches: those of all agents, step by step."""

    def __init__(self, agents: int, first: int) -> None:
        self.agents, self.first = agents, first

    def __iter__(self) -> Iterator[BatchKey]:
        number = self.first
        while True:
            for agent in range(self.agents):
                yield agent, number
            number += 1
