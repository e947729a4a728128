"""Quasi-global momentum: a velocity that estimates where everybody moves."""

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from crossgrad.algorithms.api import Gradient, MomentumState, Needs, Network, check_momentum


@dataclass(frozen=True)
class QGDSGDm:
    """DSGD with quasi-global momentum: the velocity follows the averaged model (Lin 2021).

    Y = x - lr (beta m + g), x' = Pi Y, m <- beta m + (1 - beta) (x - x') / lr.
    """

    momentum: float = 0.9

    needs: ClassVar[Needs] = Needs.DOUBLY_STOCHASTIC

    def __post_init__(self) -> None:
        check_momentum(self.momentum)

    def init(self, x: Tensor, net: Network) -> MomentumState:
        return MomentumState(x, torch.zeros_like(x))

    def step(self, s: MomentumState, lr: float, grad: Gradient, net: Network) -> MomentumState:
        beta = self.momentum
        g, m = grad(s.x), s.v.mul_(beta)
        ahead = g.add_(m).mul_(lr)
        x = net.mix_(torch.sub(s.x, ahead, out=ahead))
        return MomentumState(x, m.add_(s.x.sub_(x).mul_(1 - beta).div_(lr)))
