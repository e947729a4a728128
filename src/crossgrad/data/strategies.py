"""Ways to give the samples of one data set to N agents, from equal shares to one class each.

N agents, C classes; all randomness is drawn from the seed that is passed, never from a global generator.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from crossgrad.data.dealing import at_least_one, by_class, divide, partition_generator, sorted_by_label
from crossgrad.data.partition import Partition


@dataclass(frozen=True)
class IID:
    """Every agent gets an equal share of every class.

    The agents' shares differ by at most one sample, in each class and in all. Labels that are not whole numbers are
    dealt out in ascending order, so that every agent has samples from the whole range.

    >>> IID()(np.array([0, 0, 0, 1, 1, 1]), agents=3, seed=0).counts(np.array([0, 0, 0, 1, 1, 1])).tolist()
    [[1, 1], [1, 1], [1, 1]]
    """

    def __call__(self, labels: NDArray[np.int64], agents: int, seed: int, classes: int | None = None) -> Partition:
        rng = partition_generator(labels, agents, seed)
        order = sorted_by_label(labels, rng)
        role = rng.permutation(agents)
        return Partition(tuple(order[role[agent] :: agents] for agent in range(agents)))


@dataclass(frozen=True)
class ByClass:
    """Every agent gets classes of its own: the paper's non-IID data.

    With N <= C agents, class c goes to agent c mod N. With more agents than classes, agent i holds class i mod C, and
    the samples of a class are divided in nearly equal parts among the agents that hold it. With `shuffle`, agents and
    the samples of each class are then permuted at random ("randomly assigned", as the paper says).

    Args:
        shuffle: whether classes and samples are dealt in random order.

    Reference:
        Esfandiari, Tan, Jiang, Balu, Herron, Hegde, Sarkar: Cross-Gradient Aggregation for Decentralized Learning from
        Non-IID Data. ICML 2021, arXiv:2103.02051.

    >>> labels = np.array([0, 0, 1, 1, 2, 2])
    >>> print(ByClass(shuffle=False)(labels, agents=2, seed=0).table(labels))
    agent  samples  0  1  2
        0        4  2  .  2
        1        2  .  2  .
      all        6  2  2  2
    """

    shuffle: bool = True

    def __call__(self, labels: NDArray[np.int64], agents: int, seed: int, classes: int | None = None) -> Partition:
        rng = partition_generator(labels, agents, seed)
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

    So most agents have about `per_agent` classes, and all agents have nearly the same number of samples.

    Args:
        per_agent: shards of each agent, at least 1.

    Reference:
        McMahan, Moore, Ramage, Hampson, Aguera y Arcas: Communication-Efficient Learning of Deep Networks from
        Decentralized Data. AISTATS 2017, arXiv:1602.05629.

    >>> labels = np.arange(60) % 3
    >>> print(Shards(per_agent=2)(labels, agents=4, seed=0).table(labels))
    agent  samples   0   1   2
        0       14   .   7   7
        1       15   .   9   6
        2       16  12   4   .
        3       15   8   .   7
      all       60  20  20  20
    """

    per_agent: int = 2  # shards, >= 1

    def __post_init__(self) -> None:
        at_least_one("Shards: per_agent", self.per_agent)

    def __call__(self, labels: NDArray[np.int64], agents: int, seed: int, classes: int | None = None) -> Partition:
        rng = partition_generator(labels, agents, seed)
        count = agents * self.per_agent
        if count > len(labels):
            raise ValueError(
                f"Every shard needs a sample; {agents} agents of {self.per_agent} shards each are {count} "
                f"shards of {len(labels)} samples. Use fewer agents or fewer shards."
            )
        shards = np.array_split(sorted_by_label(labels, rng), count)
        dealt = rng.permutation(count).reshape(agents, self.per_agent)
        return Partition(tuple(np.concatenate([shards[s] for s in mine]) for mine in dealt))


@dataclass(frozen=True)
class LabelQuantity:
    """Every agent gets the same number of classes; a class is divided among all agents that have it.

    The numbers of agents that hold a class differ by at most one between classes.

    Args:
        labels_per_agent: classes of each agent, 1 to C.

    Reference:
        Li, Diao, Chen, He: Federated Learning on Non-IID Data Silos: An Experimental Study. 2021, arXiv:2102.02079.

    >>> labels = np.arange(60) % 3
    >>> print(LabelQuantity(labels_per_agent=2)(labels, agents=4, seed=0).table(labels))
    agent  samples   0   1   2
        0       17  10   7   .
        1       14   .   7   7
        2       17  10   .   7
        3       12   .   6   6
      all       60  20  20  20
    """

    labels_per_agent: int = 2  # classes, 1..C

    def __post_init__(self) -> None:
        at_least_one("LabelQuantity: labels_per_agent", self.labels_per_agent)

    def __call__(self, labels: NDArray[np.int64], agents: int, seed: int, classes: int | None = None) -> Partition:
        rng = partition_generator(labels, agents, seed)
        groups = by_class(labels, classes, rng)
        k, C = self.labels_per_agent, len(groups)
        if k > C or agents * k < C:
            raise ValueError(
                f"LabelQuantity({k}) must give {agents} agents {k} classes each, and all of the {C} there are; "
                + (f"{k} are more than {C}. Lower" if k > C else f"{agents} x {k} are fewer than {C}. Raise")
                + f" labels_per_agent to {C if k > C else -(-C // agents)}."
            )
        holders: list[list[int]] = [[] for _ in groups]
        for agent in range(agents):
            fewest = np.lexsort((rng.random(C), np.array([len(held) for held in holders])))  # ties at random
            for c in fewest[:k]:
                holders[c].append(agent)
        return Partition(tuple(divide(groups, holders, agents)))
