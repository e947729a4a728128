"""Ways to give the samples of one data set to N agents, from equal shares to one class each.

N agents, C classes; all randomness is drawn from the seed that is passed, never from a global generator.
"""

import math
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from crossgrad.data.dealing import at_least_one, by_class, divide, generator, sorted_by_label
from crossgrad.data.partition import Partition

TRIES = 1000


class PartitionRule(Protocol):
    """A way to divide samples, by their labels, among agents."""

    def __call__(self, labels: NDArray[np.int64], agents: int, seed: int, classes: int | None = None) -> Partition: ...


@dataclass(frozen=True)
class IID:
    """Every agent gets an equal share of every class.

    Per class and over all, the agents' shares differ by at most one sample. Labels that are not whole numbers
    are dealt in the order of their size, so that every agent sees the whole range.

    >>> IID()(np.array([0, 0, 0, 1, 1, 1]), agents=3, seed=0).counts(np.array([0, 0, 0, 1, 1, 1])).tolist()
    [[1, 1], [1, 1], [1, 1]]
    """

    def __call__(self, labels: NDArray[np.int64], agents: int, seed: int, classes: int | None = None) -> Partition:
        rng = generator(labels, agents, seed)
        order = sorted_by_label(labels, rng)
        role = rng.permutation(agents)
        return Partition(tuple(order[role[agent] :: agents] for agent in range(agents)))


@dataclass(frozen=True)
class ByClass:
    """Every agent gets classes of its own: the paper's non-IID data.

    With N <= C agents, class c goes to agent c mod N. With more, agent i holds class i mod C, whose samples
    are divided among its agents in nearly equal parts. `shuffle` then permutes the agents, and deals each class
    in random order ("randomly assigned", as the paper says); without it, both are in order.

    >>> labels = np.array([0, 0, 1, 1, 2, 2])
    >>> print(ByClass(shuffle=False)(labels, agents=2, seed=0).table(labels))
    agent  samples  0  1  2
        0        4  2  .  2
        1        2  .  2  .
      all        6  2  2  2
    """

    shuffle: bool = True

    def __call__(self, labels: NDArray[np.int64], agents: int, seed: int, classes: int | None = None) -> Partition:
        rng = generator(labels, agents, seed)
        groups = by_class(labels, classes, rng if self.shuffle else None)
        role = rng.permutation(agents) if self.shuffle else np.arange(agents)
        holders = [
            [c % agents] if agents <= len(groups) else list(range(c, agents, len(groups))) for c in range(len(groups))
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

    def __call__(self, labels: NDArray[np.int64], agents: int, seed: int, classes: int | None = None) -> Partition:
        rng = generator(labels, agents, seed)
        count = agents * self.per_agent
        if count > len(labels):
            raise ValueError(
                f"Every shard needs a sample, but {agents} agents of {self.per_agent} shards each are {count} "
                f"shards of {len(labels)} samples; use fewer agents or fewer shards."
            )
        shards = np.array_split(sorted_by_label(labels, rng), count)
        dealt = rng.permutation(count).reshape(agents, self.per_agent)
        return Partition(tuple(np.concatenate([shards[s] for s in mine]) for mine in dealt))


@dataclass(frozen=True)
class Dirichlet:
    """Every class is divided in proportions drawn from Dirichlet(alpha) (Hsu et al., 2019).

    Small alpha: most of a class goes to one agent. Large alpha: shares become equal. Proportions are drawn
    again until every agent has `min_samples`.
    """

    alpha: float = 0.5  # > 0
    min_samples: int = 1

    def __post_init__(self) -> None:
        if not (self.alpha > 0 and math.isfinite(self.alpha)):
            raise ValueError(f"Dirichlet: alpha should be a number above 0, but is {self.alpha}.")
        at_least_one("Dirichlet: min_samples", self.min_samples)

    def __call__(self, labels: NDArray[np.int64], agents: int, seed: int, classes: int | None = None) -> Partition:
        rng = generator(labels, agents, seed)
        groups = by_class(labels, classes, rng)
        n_C1 = np.array([len(group) for group in groups])[:, None]
        for _ in range(TRIES):
            shares_CN = rng.dirichlet(np.full(agents, self.alpha), len(groups))
            ends_CN = np.rint(shares_CN.cumsum(1) * n_C1).astype(np.int64)
            ends_CN[:, -1] = n_C1[:, 0]  # the sum of the shares is 1 but for rounding
            if np.diff(ends_CN, axis=1, prepend=0).sum(0).min() >= self.min_samples:
                cut = [np.split(group, ends[:-1]) for group, ends in zip(groups, ends_CN, strict=True)]
                return Partition(tuple(np.concatenate(mine) for mine in zip(*cut, strict=True)))
        raise ValueError(
            f"Dirichlet({self.alpha}) should give each of {agents} agents at least {self.min_samples} of "
            f"{len(labels)} samples, but {TRIES} draws did not; raise alpha or lower the number of agents."
        )


@dataclass(frozen=True)
class LabelQuantity:
    """Every agent gets the same number of classes, and shares each with its other holders.

    All classes are held by equally many agents, give or take one.
    """

    labels_per_agent: int = 2  # classes, 1..C

    def __post_init__(self) -> None:
        at_least_one("LabelQuantity: labels_per_agent", self.labels_per_agent)

    def __call__(self, labels: NDArray[np.int64], agents: int, seed: int, classes: int | None = None) -> Partition:
        rng = generator(labels, agents, seed)
        groups = by_class(labels, classes, rng)
        k, C = self.labels_per_agent, len(groups)
        if k > C or agents * k < C:
            raise ValueError(
                f"LabelQuantity({k}) should give {agents} agents {k} classes each, and all of the {C} there are, but "
                + (f"{k} are more than {C}; lower" if k > C else f"{agents} x {k} are fewer than {C}; raise")
                + f" labels_per_agent to {C if k > C else -(-C // agents)}."
            )
        holders: list[list[int]] = [[] for _ in groups]
        for agent in range(agents):
            fewest = np.lexsort((rng.random(C), np.array([len(held) for held in holders])))  # ties at random
            for c in fewest[:k]:
                holders[c].append(agent)
        return Partition(tuple(divide(groups, holders, agents)))


PARTITIONS: dict[str, type[PartitionRule]] = {
    "iid": IID,
    "class": ByClass,
    "shards": Shards,
    "dirichlet": Dirichlet,
    "label-quantity": LabelQuantity,
}
