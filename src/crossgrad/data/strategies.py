"""Ways to give the samples of one data set to N agents, from equal shares to one class each.

C classes; all randomness is drawn from the seed that is passed, never from a global generator.
"""

from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from crossgrad.data.partition import Partition

PURPOSE = 0x7061_7274  # keeps these draws apart from others of the same seed


class Strategy(Protocol):
    """A way to divide samples, by their labels, among agents."""

    def __call__(
        self, labels: NDArray[np.int64], agents: int, seed: int, classes: int | None = None
    ) -> Partition: ...


@dataclass(frozen=True)
class IID:
    """Every agent gets an equal share of every class.

    Per class and over all, the agents' shares differ by at most one sample. Labels that are not whole numbers
    are dealt in the order of their size, so that every agent sees the whole range.
    """

    def __call__(
        self, labels: NDArray[np.int64], agents: int, seed: int, classes: int | None = None
    ) -> Partition:
        rng = generator(labels, agents, seed)
        order = sorted_by_label(labels, rng)
        role = rng.permutation(agents)
        return Partition(tuple(order[role[agent] :: agents] for agent in range(agents)))


@dataclass(frozen=True)
class ByClass:
    """Every agent gets classes of its own: the paper's non-IID data.

    With N <= C agents, class c goes to agent c mod N. With more, agent i holds class i mod C, whose samples are
    divided among its agents in nearly equal parts. `shuffle` then permutes the agents, and deals each class in
    random order ("randomly assigned", as the paper says); without it, both are in order.
    """

    shuffle: bool = True

    def __call__(
        self, labels: NDArray[np.int64], agents: int, seed: int, classes: int | None = None
    ) -> Partition:
        rng = generator(labels, agents, seed)
        groups = by_class(labels, classes, rng if self.shuffle else None)
        role = rng.permutation(agents) if self.shuffle else np.arange(agents)
        holders = [
            [c % agents] if agents <= len(groups) else list(range(c, agents, len(groups)))
            for c in range(len(groups))
        ]
        parts = divide(groups, holders, agents)
        return Partition(tuple(parts[role[agent]] for agent in range(agents)))


@dataclass(frozen=True)
class Shards:
    """Samples sorted by label are cut into shards, and every agent gets a few (McMahan et al., 2017).

    So most agents see about `per_agent` classes, and all hold nearly as many samples.
    """

    per_agent: int = 2  # shards, >= 1

    def __post_init__(self) -> None:
        at_least_one("Shards: per_agent", self.per_agent)

    def __call__(
        self, labels: NDArray[np.int64], agents: int, seed: int, classes: int | None = None
    ) -> Partition:
        rng = generator(labels, agents, seed)
        count = agents * self.per_agent
        if count > len(labels):
            raise ValueError(
                f"Every shard needs a sample, but {agents} agents of {self.per_agent} shards each are {count} shards "
                f"of {len(labels)} samples; use fewer agents or fewer shards."
            )
        shards = np.array_split(sorted_by_label(labels, rng), count)
        dealt = rng.permutation(count).reshape(agents, self.per_agent)
        return Partition(tuple(np.concatenate([shards[s] for s in mine]) for mine in dealt))


@dataclass(frozen=True)
class LabelQuantity:
    """Every agent gets the same number of classes, and shares each with its other holders.

    All classes are held by equally many agents, give or take one.
    """

    labels_per_agent: int = 2  # classes, 1..C

    def __post_init__(self) -> None:
        at_least_one("LabelQuantity: labels_per_agent", self.labels_per_agent)

    def __call__(
        self, labels: NDArray[np.int64], agents: int, seed: int, classes: int | None = None
    ) -> Partition:
        rng = generator(labels, agents, seed)
        groups = by_class(labels, classes, rng)
        k, C = self.labels_per_agent, len(groups)
        if k > C or agents * k < C:
            raise ValueError(
                f"{agents} agents of {k} classes each should hold all of {C} classes, "
                + (f"but there are only {C}; lower" if k > C else "but some would be lost; raise")
                + " labels_per_agent or change the number of agents."
            )
        holders: list[list[int]] = [[] for _ in groups]
        for agent in range(agents):
            fewest = np.lexsort((rng.random(C), [len(held) for held in holders]))  # ties at random
            for c in fewest[:k]:
                holders[c].append(agent)
        return Partition(tuple(divide(groups, holders, agents)))


def generator(labels: NDArray[np.int64], agents: int, seed: int) -> np.random.Generator:
    """The random numbers of a partition, once its arguments have been checked."""
    at_least_one("The number of agents", agents)
    if seed < 0:
        raise ValueError(f"A seed is a whole number from 0, but this is {seed}.")
    if labels.ndim != 1 or agents > len(labels):
        raise ValueError(
            f"Every agent needs at least one sample, but there are {agents} agents and labels of shape "
            f"{labels.shape}; use fewer agents or more samples."
        )
    return np.random.default_rng([seed, PURPOSE])


def sorted_by_label(labels: NDArray[Any], rng: np.random.Generator) -> NDArray[np.int64]:
    """All samples, class after class, within each class in random order."""
    shuffled = rng.permutation(len(labels))
    return shuffled[np.argsort(labels[shuffled], kind="stable")]


def by_class(
    labels: NDArray[np.int64], classes: int | None, rng: np.random.Generator | None
) -> list[NDArray[np.int64]]:
    """The samples of each class, in random order if a generator is given."""
    if labels.dtype.kind not in "iu":
        raise ValueError(
            f"A division by class needs whole-number labels, but these are {labels.dtype}; use IID or Shards."
        )
    C = int(labels.max()) + 1 if classes is None else classes
    if labels.min() < 0 or labels.max() >= C:
        raise ValueError(f"Labels of {C} classes are 0 to {C - 1}, but these go from {labels.min()} to {labels.max()}.")
    order = np.argsort(labels, kind="stable") if rng is None else sorted_by_label(labels, rng)
    return np.split(order, np.cumsum(np.bincount(labels, minlength=C))[:-1])


def divide(groups: list[NDArray[np.int64]], holders: list[list[int]], agents: int) -> list[NDArray[np.int64]]:
    """Divide each class among its holders, in nearly equal parts."""
    parts: list[list[NDArray[np.int64]]] = [[] for _ in range(agents)]
    for group, who in zip(groups, holders, strict=True):
        for agent, part in zip(who, np.array_split(group, len(who)), strict=True):
            parts[agent].append(part)
    return [np.concatenate(part) for part in parts]


def at_least_one(what: str, value: int) -> None:
    """Refuse what is to be a whole number from 1 and is not."""
    if not isinstance(value, int | np.integer) or isinstance(value, bool) or value < 1:
        raise ValueError(f"{what} should be a whole number from 1, but is {value!r}.")
