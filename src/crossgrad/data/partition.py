"""Which agent holds which samples."""

from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from crossgrad.data.table import as_table


@dataclass(frozen=True, eq=False)
class Partition:
    """Which agent holds which of the samples 0 to n-1: each sample has one agent, and each agent has at least one.

    Args:
        indices: for each agent, the samples that it holds.

    >>> partition = Partition((np.array([0, 2]), np.array([1])))
    >>> partition.agents, partition.sizes.tolist()
    (2, [2, 1])
    """

    indices: tuple[NDArray[np.int64], ...]

    def __post_init__(self) -> None:
        object.__setattr__(self, "indices", tuple(_read_only(held) for held in self.indices))
        empty = np.flatnonzero(self.sizes == 0)
        if not self.indices:
            raise ValueError("a partition must have at least one agent; found none.")
        if len(empty):
            raise ValueError(
                f"every agent needs at least one sample; found none for {len(empty)} of {self.agents} agents, the "
                "first of "
                f"them agent {empty[0]}. Use fewer agents or another partition."
            )
        order = np.sort(np.concatenate(self.indices))
        if twice := order[1:][order[1:] == order[:-1]].tolist():
            raise ValueError(f"each sample must belong to one agent; found sample {twice[0]} more than once.")
        if order[0] != 0 or order[-1] != len(order) - 1:
            lost = np.flatnonzero(np.append(order, -1) != np.arange(len(order) + 1))[0]
            raise ValueError(
                f"samples are numbered from 0, and each must belong to an agent; found samples {order[0]} to "
                f"{order[-1]} without {lost}."
            )

    @property
    def agents(self) -> int:
        """How many agents there are."""
        return len(self.indices)

    @property
    def sizes(self) -> NDArray[np.int64]:
        """How many samples each agent holds."""
        return np.array([len(held) for held in self.indices], np.int64)

    def counts(self, labels: NDArray[np.int64], classes: int | None = None) -> NDArray[np.int64]:
        """How many samples of each class each agent holds, as (agents, classes)."""
        if len(labels) != self.sizes.sum():
            raise ValueError(
                f"there must be a label for each of the partition's {self.sizes.sum()} samples; found {len(labels)} "
                f"labels. Pass the labels it was made for."
            )
        width = int(labels.max()) + 1 if classes is None else classes
        return np.stack([np.bincount(labels[held], minlength=width) for held in self.indices])

    def table(self, labels: NDArray[np.int64], classes: int | None = None) -> str:
        """How many samples of each class each agent holds, as plain text."""
        return as_table(self.counts(labels, classes))


class PartitionRule(Protocol):
    """A way to divide samples, by their labels, among agents."""

    def __call__(self, labels: NDArray[np.int64], agents: int, seed: int, classes: int | None = None) -> Partition: ...


def _read_only(held: Any) -> NDArray[np.int64]:
    array = np.array(held, np.int64)
    array.setflags(write=False)
    return array
