"""Records the gradients that an algorithm gets in each step, and the directions that it takes.

N: agents, R: agents of a block, D: parameters.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar

import torch
from torch import Tensor

from crossgrad._gradients.wrapper import GradientWrapper, Request
from crossgrad.algorithms import CGA, Algorithm
from crossgrad.algorithms.aggregation import Aggregation
from crossgrad.algorithms.api import CrossGradient, Needs, Network


@dataclass(frozen=True, eq=False)
class RecordedAggregation:
    """An aggregation whose results are kept, block after block."""

    aggregate: Aggregation
    blocks: list[Tensor] = field(default_factory=list)

    def __call__(self, g_RD: Tensor, G_RKD: Tensor, pi_RL: Tensor, sizes: Sequence[int]) -> tuple[Tensor, Tensor]:
        z_RD, diagnostics = self.aggregate(g_RD, G_RKD, pi_RL, sizes)
        self.blocks.append(z_RD.clone())  # the algorithm may go on in place
        return z_RD, diagnostics


class RecordedGradient(GradientWrapper):
    """A gradient whose first result in a step is kept: `own_ND`, and the agents that drew a batch for it."""

    def __init__(self, gradient: CrossGradient) -> None:
        super().__init__(gradient)
        self.own_ND: Tensor | None = None
        self.active_N: Tensor | None = None
        self.calls = 0

    def select(self, x_ND: Tensor, active_N: Tensor | None) -> Tensor | None:
        self.calls += 1
        if self.calls == 1:
            self.own_ND, self.active_N = torch.zeros_like(x_ND), active_N
        return active_N

    def change(self, g_MD: Tensor, request: Request) -> Tensor:
        if request.own and self.calls == 1 and self.own_ND is not None:
            self.own_ND[list(request.agents)] = g_MD
        return g_MD


class RecordedAlgorithm:
    """An algorithm, unchanged, that records each step.

    After a step, `own_ND` are the agents' own gradients g, `active_N` the agents that drew a batch, and `used_ND` the
    directions g~ that an aggregation made of them; g itself where the algorithm has none.
    """

    needs: ClassVar[Needs] = Needs(0)  # checked when the run was made

    def __init__(self, algorithm: Algorithm[Any]) -> None:
        self.noted = RecordedAggregation(algorithm.aggregate) if isinstance(algorithm, CGA) else None
        self.algorithm: Algorithm[Any] = algorithm
        if isinstance(algorithm, CGA) and self.noted is not None:
            self.algorithm = replace(algorithm, aggregate=self.noted)
        self.own_ND = self.used_ND = torch.zeros(0, 0)
        self.active_N = torch.zeros(0, dtype=torch.bool)

    @property
    def both(self) -> tuple[Tensor, Tensor]:
        """g~ and g."""
        return self.used_ND, self.own_ND

    def init(self, x: Tensor, net: Network) -> Any:
        return self.algorithm.init(x, net)

    def step(self, s: Any, lr: float, grad: CrossGradient, net: Network) -> Any:
        noted = RecordedGradient(grad)
        if self.noted is not None:
            self.noted.blocks.clear()
        state = self.algorithm.step(s, lr, noted, net)
        own = noted.own_ND if noted.own_ND is not None else torch.zeros_like(s.x)
        self.own_ND = own
        self.active_N = torch.ones(len(own), dtype=torch.bool) if noted.active_N is None else noted.active_N
        self.used_ND = own if self.noted is None else torch.cat(self.noted.blocks)
        return state
