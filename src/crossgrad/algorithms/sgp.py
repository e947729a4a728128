"""Stochastic gradient push: averaging by push-sum, which is unbiased on directed graphs."""

from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import torch
from torch import Tensor

from crossgrad.algorithms.api import Gradient, Needs, Network
from crossgrad.algorithms.steps import check_momentum, move_


class SGPState(NamedTuple):
    """De-biased models, push-sum weights (they sum to the number of agents) and velocities."""

    x: Tensor
    w: Tensor
    v: Tensor


@dataclass(frozen=True)
class SGP:
    """Stochastic gradient push: push-sum averaging, for directed graphs too.

    Rule:
        u <- Pi (w x - lr g),  w <- Pi w, from w = 1
        x <- u / w

    On a doubly stochastic graph w stays 1, and the rule is the one the paper compares with.

    Reference:
        Assran, Loizou, Ballas, Rabbat: Stochastic Gradient Push for Distributed Deep Learning. ICML 2019,
        arXiv:1811.10792.

    Args:
        momentum: the share of the last velocity that is kept, 0 to below 1.
        nesterov: whether to take Nesterov's form of the momentum.
    """

    momentum: float = 0.0
    nesterov: bool = False

    needs: ClassVar[Needs] = Needs.COLUMN_STOCHASTIC
    step_size: ClassVar[float] = 0.3

    def __post_init__(self) -> None:
        check_momentum(self.momentum)

    def init(self, x: Tensor, net: Network) -> SGPState:
        return SGPState(x, torch.ones_like(x[:, :1]), torch.zeros_like(x))

    def step(self, s: SGPState, lr: float, grad: Gradient, net: Network) -> SGPState:
        step = move_(s.v, grad(s.x), lr, self.momentum, self.nesterov)
        u, w = net.push_(s.x.mul_(s.w).add_(step), s.w)
        return SGPState(u.div_(w), w, s.v)
