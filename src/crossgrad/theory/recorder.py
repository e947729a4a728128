"""Looks on while an algorithm steps: which gradients it got, and which directions it took.

N: agents, R: agents of a block, D: parameters.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar

import torch
from torch import Tensor

from crossgrad.algorithms import CGA, Algorithm
from crossgrad.algorithms.aggregation import Aggregation
from crossgrad.algorithms.api import CrossGradient, Needs, Network


@dataclass(frozen=True, eq=False)
class Noted:
    """An aggregation whose results are kept, block after block."""

    aggregate: Aggregation
    blocks: list[Tensor] = field(default_factory=list)

    def __call__(self, g_RD: Tensor, G_RKD: Tensor, pi_RL: Tensor, sizes: Sequence[int]) -> tuple[Tensor, Tensor]:
        z_RD, diagnostics = self.aggregate(g_RD, G_RKD, pi_RL, sizes)
        self.blocks.append(z_RD.clone())  # the algorithm may go on in place
        return z_RD, diagnostics


class NotedGradient:
    """A gradient whose first answer in a step is kept."""

    def __init__(self, grad: CrossGradient) -> None:
        self.grad = grad
        self.own_ND: Tensor | None = None
        self.active_N: Tensor | None = None

    @property
    def sizes(self) -> tuple[int, ...]:
        return self.grad.sizes

    def __call__(self, x_ND: Tensor, active_N: Tensor | None = None) -> Tensor:
        g_ND = self.grad(x_ND, active_N)
        if self.own_ND is None:
            self.own_ND, self.active_N = g_ND.clone(), active_N  # an algorithm may go on in place
        return g_ND

    def on_demand(self, x_ND: Tensor, active_N: Tensor | None = None) -> Callable[[slice], Tensor]:
        own, first = self.grad.on_demand(x_ND, active_N), self.own_ND is None
        if first:
            self.own_ND, self.active_N = torch.zeros_like(x_ND), active_N

        def of(rows: slice) -> Tensor:
            g_RD = own(rows)
            if first and self.own_ND is not None:
                self.own_ND[rows] = g_RD
            return g_RD

        return of

    def cross(self, models: Sequence[Tensor], hosts: Sequence[int]) -> Tensor:
        return self.grad.cross(models, hosts)


class Watched:
    """An algorithm as it is. After each step: g (`own_ND`), who drew it, and g~ (`used_ND`; g unless it aggregates)."""

    needs: ClassVar[Needs] = Needs(0)  # checked when the run was made

    def __init__(self, algorithm: Algorithm[Any]) -> None:
        self.noted = Noted(algorithm.aggregate) if isinstance(algorithm, CGA) else None
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
        noted = NotedGradient(grad)
        if self.noted is not None:
            self.noted.blocks.clear()
        state = self.algorithm.step(s, lr, noted, net)
        own = noted.own_ND if noted.own_ND is not None else torch.zeros_like(s.x)
        self.own_ND = own
        self.active_N = torch.ones(len(own), dtype=torch.bool) if noted.active_N is None else noted.active_N
        self.used_ND = own if self.noted is None else torch.cat(self.noted.blocks)
        return state
