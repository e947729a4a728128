"""Partitions whose shares are drawn from Dirichlet distributions.

N agents, C classes.
"""

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from crossgrad.data.dealing import at_least_one, by_class, draw_shares, partition_generator
from crossgrad.data.partition import Partition


@dataclass(frozen=True)
class Dirichlet:
    """Every class is divided in proportions drawn from Dirichlet(alpha) (Hsu et al., 2019).

    Small alpha: most of a class goes to one agent. Large alpha: shares become equal. Proportions are drawn
    again until every agent has `min_samples`.

    Args:
        alpha: concentration, above 0.
        min_samples: the fewest samples an agent may have, 1 or more.

    Reference:
        Hsu, Qi, Brown: Measuring the Effects of Non-Identical Data Distribution for Federated Visual Classification.
        2019, arXiv:1909.06335.

    With a small alpha, most of a class goes to one agent:

    >>> labels = np.arange(60) % 3
    >>> print(Dirichlet(alpha=0.1)(labels, agents=4, seed=0).table(labels))
    agent  samples   0   1   2
        0        6   .   .   6
        1       20  20   .   .
        2       18   .   4  14
        3       16   .  16   .
      all       60  20  20  20
    """

    alpha: float = 0.5  # > 0
    min_samples: int = 1

    def __post_init__(self) -> None:
        if not (self.alpha > 0 and math.isfinite(self.alpha)):
            raise ValueError(f"Dirichlet: alpha must be a number above 0; found {self.alpha}.")
        at_least_one("Dirichlet: min_samples", self.min_samples)

    def __call__(self, labels: NDArray[np.int64], agents: int, seed: int, classes: int | None = None) -> Partition:
        rng = partition_generator(labels, agents, seed)
        groups = by_class(labels, classes, rng)
        even_N = np.ones(agents)
        return draw_shares(groups, lambda: (self.alpha, even_N), self.min_samples, rng, f"Dirichlet({self.alpha})")


@dataclass(frozen=True)
class LabelAndQuantity:
    """Agents differ in their classes and in their numbers of samples, which Dirichlet distributions decide.

    Agent j's share of class c is proportional to q_j p_cj with q ~ Dirichlet(quantity) over the agents and
    p_c ~ Dirichlet(alpha) for every class. Both are drawn again until every agent has `min_samples`.

    Args:
        alpha: concentration of each class, above 0; if it is small, most of a class goes to one agent.
        quantity: concentration of the quantity, above 0; if it is small, a few agents hold most of the data.
        min_samples: the fewest samples an agent may have, 1 or more.

    Reference:
        Li, Diao, Chen, He: Federated Learning on Non-IID Data Silos: An Experimental Study. 2021, arXiv:2102.02079
        (label skew and quantity skew, there one at a time).

    >>> labels = np.arange(60) % 3
    >>> print(LabelAndQuantity(alpha=1.0, quantity=0.5)(labels, agents=4, seed=0).table(labels))
    agent  samples   0   1   2
        0       31  13  12   6
        1       10   .   1   9
        2       12   4   4   4
        3        7   3   3   1
      all       60  20  20  20
    """

    alpha: float = 0.5
    quantity: float = 1.0
    min_samples: int = 1

    def __post_init__(self) -> None:
        for name in ("alpha", "quantity"):
            if not (getattr(self, name) > 0 and math.isfinite(getattr(self, name))):
                raise ValueError(f"LabelAndQuantity: {name} must be a number above 0; found {getattr(self, name)}.")
        at_least_one("LabelAndQuantity: min_samples", self.min_samples)

    def __call__(self, labels: NDArray[np.int64], agents: int, seed: int, classes: int | None = None) -> Partition:
        rng = partition_generator(labels, agents, seed)
        groups = by_class(labels, classes, rng)

        def draw() -> tuple[float, NDArray[np.float64]]:
            return self.alpha, rng.dirichlet(np.full(agents, self.quantity))

        words = f"LabelAndQuantity({self.alpha}, {self.quantity})"
        return draw_shares(groups, draw, self.min_samples, rng, words)
