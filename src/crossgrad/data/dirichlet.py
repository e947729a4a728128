"""Classes divided among the agents in random proportions."""

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from crossgrad.data.partition import Partition
from crossgrad.data.strategies import at_least_one, by_class, generator

TRIES = 1000


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

    def __call__(
        self, labels: NDArray[np.int64], agents: int, seed: int, classes: int | None = None
    ) -> Partition:
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
