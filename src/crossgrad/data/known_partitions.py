"""Partitions that come with the data: by a column of its own, or given sample by sample."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from crossgrad.data.partition import Partition


@dataclass(frozen=True, eq=False)
class ByColumn:
    """A natural partition: samples are grouped by a column such as site, user or writer.

    With as many values as agents, agent i holds the samples of the i-th value in ascending order. With more values,
    whole groups are dealt out, the largest first, each to the agent that holds the fewest samples so far.

    Args:
        values: one per sample; numbers or texts.

    Reference:
        Caldas et al.: LEAF: A Benchmark for Federated Settings, 2018, arXiv:1812.01097.

    >>> ByColumn(["b", "a", "b"])(np.array([0, 1, 1]), agents=2, seed=0).indices
    (array([1]), array([0, 2]))
    """

    values: Sequence[Any] | NDArray[Any]

    def __call__(self, labels: NDArray[np.int64], agents: int, seed: int, classes: int | None = None) -> Partition:
        if len(self.values) != len(labels):
            raise ValueError(
                f"ByColumn needs a value for each of {len(labels)} samples; found {len(self.values)} values."
            )
        names, group_n = np.unique(np.asarray(self.values), return_inverse=True)
        if len(names) < agents:
            raise ValueError(
                f"ByColumn needs at least as many different values as agents; found {len(names)} values for {agents} "
                f"agents. Use a graph of {len(names)} agents."
            )
        groups = np.split(np.argsort(group_n, kind="stable"), np.cumsum(np.bincount(group_n))[:-1])
        if len(groups) == agents:
            return Partition(tuple(groups))
        held: list[list[NDArray[np.int64]]] = [[] for _ in range(agents)]
        sizes = np.zeros(agents, np.int64)
        for group in sorted(groups, key=len, reverse=True):
            agent = int(sizes.argmin())
            held[agent].append(group)
            sizes[agent] += len(group)
        return Partition(tuple(np.sort(np.concatenate(mine)) for mine in held))


@dataclass(frozen=True, eq=False)
class Given:
    """A partition that is given, sample by sample.

    Args:
        partition: which agent holds which samples.

    >>> partition = Partition((np.array([0, 2]), np.array([1])))  # agent 0 holds samples 0 and 2, agent 1 sample 1
    >>> Given(partition)(np.array([0, 1, 0]), agents=2, seed=0).sizes.tolist()
    [2, 1]
    """

    partition: Partition

    def __call__(self, labels: NDArray[np.int64], agents: int, seed: int, classes: int | None = None) -> Partition:
        if self.partition.agents != agents:
            raise ValueError(
                f"The partition must be for the graph's {agents} agents; found one for {self.partition.agents}. "
                f"Use a graph of {self.partition.agents} agents."
            )
        return self.partition
