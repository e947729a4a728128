"""Which agent holds which samples."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from crossgrad.data.table import as_table
from crossgrad.data.types import Samples, Source


@dataclass(frozen=True, eq=False)
class Partition:
    """All samples 0..n-1, each held by exactly one agent, and no agent without any.

    >>> partition = Partition((np.array([0, 2]), np.array([1])))
    >>> partition.agents, partition.sizes.tolist()
    (2, [2, 1])
    """

    indices: tuple[NDArray[np.int64], ...]

    def __post_init__(self) -> None:
        object.__setattr__(self, "indices", tuple(_frozen(held) for held in self.indices))
        empty = np.flatnonzero(self.sizes == 0)
        if len(empty) or not self.indices:
            who = f"agent {empty[0]} ({len(empty)} of {len(self.indices)})" if len(empty) else "nobody"
            raise ValueError(
                f"Every agent needs data, but {who} has none; use fewer agents or another partition."
                if len(empty)
                else "A partition needs at least one agent, but there is none."
            )
        order = np.sort(np.concatenate(self.indices))
        if twice := order[1:][order[1:] == order[:-1]].tolist():
            raise ValueError(f"Each sample belongs to one agent, but sample {twice[0]} is given out more than once.")
        if order[0] != 0 or order[-1] != len(order) - 1:
            lost = np.flatnonzero(np.append(order, -1) != np.arange(len(order) + 1))[0]
            raise ValueError(
                f"The samples are numbered from 0 and none may be lost, but sample {lost} is missing "
                f"(samples {order[0]} to {order[-1]} are given out)."
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
                f"This partition is of {self.sizes.sum()} samples, but there are {len(labels)} labels; "
                f"pass the labels it was made for."
            )
        width = int(labels.max()) + 1 if classes is None else classes
        return np.stack([np.bincount(labels[held], minlength=width) for held in self.indices])

    def table(self, labels: NDArray[np.int64], classes: int | None = None) -> str:
        """Who holds how much of which class, as plain text."""
        return as_table(self.counts(labels, classes))


def split(samples: Samples, partition: Partition) -> list[Samples]:
    """The agents' own samples."""
    if len(samples) != partition.sizes.sum():
        raise ValueError(
            f"This partition is of {partition.sizes.sum()} samples, but there are {len(samples)}; "
            f"make it from the labels of these samples."
        )
    return [samples.take(held) for held in partition.indices]


def given(sources: Sequence[Source], classes: int | None = None) -> list[Samples]:
    """The agents' own samples, from one data set per agent: (X, y), Samples, or a map-style Dataset each.

    All agents are taken to know the same classes: as many as `classes` says, or else as the largest label says.
    """
    if len(sources) == 0:
        raise ValueError("At least one agent is needed, but the list of data sets is empty.")
    agents = [_of_agent(agent, source, classes) for agent, source in enumerate(sources)]
    for agent, samples in enumerate(agents):
        if _kind(samples) != _kind(agents[0]):
            raise ValueError(
                f"All agents train one model, but agent {agent} has {_kind(samples)} and agent 0 has "
                f"{_kind(agents[0])}; give all the same."
            )
    if agents[0].classes is None:
        return agents
    most = max(samples.classes or 0 for samples in agents)
    return [Samples.of(samples, most) for samples in agents]


def _of_agent(agent: int, source: Source, classes: int | None) -> Samples:
    try:
        return Samples.of(source, classes)
    except ValueError as error:
        raise ValueError(f"Agent {agent}: {error}") from error


def _kind(samples: Samples) -> str:
    task = "regression" if samples.classes is None else "class"
    return f"inputs {samples.inputs.dtype} of shape {samples.shape} with {task} labels"


def _frozen(held: Any) -> NDArray[np.int64]:
    array = np.array(held, np.int64)
    array.setflags(write=False)
    return array
