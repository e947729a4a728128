"""Ways to give the samples of one data set to N agents, from equal shares to one class each.

N agents, C classes; all randomness is drawn from the seed that is passed, never from a global generator.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from crossgrad.data.dealing import at_least_one, by_class, divide, draw_shares, generator, sorted_by_label
from crossgrad.data.partition import Partition


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

    Args:
        per_agent: shards, >= 1.

    Reference:
        McMahan, Moore, Ramage, Hampson, Aguera y Arcas: Communication-Efficient Learning of Deep Networks from
        Decentralized Data. AISTATS 2017, arXiv:1602.05629.
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

    Args:
        alpha: > 0.
        min_samples: of every agent, 1 or more.

    Reference:
        Hsu, Qi, Brown: Measuring the Effects of Non-Identical Data Distribution for Federated Visual Classification.
        2019, arXiv:1909.06335.
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
        even_N = np.ones(agents)
        return draw_shares(groups, lambda: (self.alpha, even_N), self.min_samples, rng, f"Dirichlet({self.alpha})")


@dataclass(frozen=True)
class LabelAndQuantity:
    """Agents differ in how much they hold and in which classes: shares of both are drawn from Dirichlet distributions.

    Agent j's share of class c is proportional to q_j p_cj with q ~ Dirichlet(quantity) over the agents and
    p_c ~ Dirichlet(alpha) for every class. Both are drawn again until every agent has `min_samples`.

    Args:
        alpha: > 0; small: most of a class goes to one agent.
        quantity: > 0; small: a few agents hold most of the data.
        min_samples: of every agent, 1 or more.

    Reference:
        Li, Diao, Chen, He: Federated Learning on Non-IID Data Silos: An Experimental Study, 2021, arXiv:2102.02079
        (label skew and quantity skew, there one at a time).
    """

    alpha: float = 0.5
    quantity: float = 1.0
    min_samples: int = 1

    def __post_init__(self) -> None:
        for name in ("alpha", "quantity"):
            if not (getattr(self, name) > 0 and math.isfinite(getattr(self, name))):
                raise ValueError(f"LabelAndQuantity: {name} should be a number above 0, but is {getattr(self, name)}.")
        at_least_one("LabelAndQuantity: min_samples", self.min_samples)

    def __call__(self, labels: NDArray[np.int64], agents: int, seed: int, classes: int | None = None) -> Partition:
        rng = generator(labels, agents, seed)
        groups = by_class(labels, classes, rng)

        def draw() -> tuple[float, NDArray[np.float64]]:
            return self.alpha, rng.dirichlet(np.full(agents, self.quantity))

        words = f"LabelAndQuantity({self.alpha}, {self.quantity})"
        return draw_shares(groups, draw, self.min_samples, rng, words)


@dataclass(frozen=True, eq=False)
class ByColumn:
    """Samples go by a column of their own, such as site, user or writer: a natural partition.

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
    """A partition that is known already.

    Args:
        partition: which agent holds which samples.
    """

    partition: Partition

    def __call__(self, labels: NDArray[np.int64], agents: int, seed: int, classes: int | None = None) -> Partition:
        if self.partition.agents != agents:
            raise ValueError(
                f"The partition must be for the graph's {agents} agents; found one for {self.partition.agents}. "
                f"Use a graph of {self.partition.agents} agents."
            )
        return self.partition


def as_rule(value: Any) -> PartitionRule:
    """The partition rule that a user may have meant.

    Args:
        value: a rule; its name, such as "iid"; a Partition; one list of sample indices per agent; or None: IID.

    Raises:
        ValueError: it is none of these.
    """
    if value is None:
        return IID()
    if isinstance(value, str):
        if value not in PARTITIONS:
            raise ValueError(f"There is no partition {value!r}; choose one of {', '.join(PARTITIONS)}.")
        return PARTITIONS[value]()
    if isinstance(value, type):
        value = value()
    if isinstance(value, Partition):
        return Given(value)
    if isinstance(value, list | tuple):
        return Given(Partition(tuple(value)))
    if not callable(value):
        raise ValueError(
            f"partition must be a rule such as crossgrad.IID(), its name, or one list of sample indices per agent; "
            f"found a {type(value).__name__}."
        )
    rule: PartitionRule = value
    return rule


@dataclass(frozen=True)
class LabelQuantity:
    """Every agent gets the same number of classes, and shares each with its other holders.

    All classes are held by equally many agents, give or take one.

    Args:
        labels_per_agent: classes, 1..C.

    Reference:
        Li, Diao, Chen, He: Federated Learning on Non-IID Data Silos: An Experimental Study. 2021, arXiv:2102.02079.
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
    "label-and-quantity": LabelAndQuantity,
}
