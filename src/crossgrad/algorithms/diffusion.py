"""Exact diffusion with momentum: one message per edge, and no bias from unlike data."""

from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import torch
from torch import Tensor

from crossgrad.algorithms.api import Gradient, Needs, Network, check_momentum


class EDMState(NamedTuple):
    """Models, where the last own steps led to, and mean gradients."""

    x: Tensor
    psi: Tensor
    m: Tensor


@dataclass(frozen=True)
class EDM:
    """Exact diffusion with momentum: the last step's correction cancels the bias of unlike data (Hu 2025).

    psi = x - lr m with m <- beta m + (1 - beta) g; x <- W (psi + x - psi_previous) with W = (I + Pi) / 2. As m is a
    mean, a step size of lr / (1 - beta) here goes as far as lr does with a heavy ball. `momentum=0` is exact
    diffusion, also known as D2 (Tang 2018).
    """

    momentum: float = 0.98
    lazy: float = 0.5  # share of the identity in W; it must leave no eigenvalue of W below zero

    needs: ClassVar[Needs] = Needs.UNDIRECTED | Needs.DOUBLY_STOCHASTIC | Needs.FIXED

    def __post_init__(self) -> None:
        check_momentum(self.momentum)
        if not 0.0 <= self.lazy < 1.0:
            raise ValueError(f"EDM's lazy must be at least 0 and below 1; found {self.lazy}. 0.5 is always safe.")

    def init(self, x: Tensor, net: Network) -> EDMState:
        return EDMState(x, x.clone(), torch.zeros_like(x))

    def step(self, s: EDMState, lr: float, grad: Gradient, net: Network) -> EDMState:
        g = grad(s.x)
        m = s.m.mul_(self.momentum).add_(g.mul_(1 - self.momentum))
        psi = torch.sub(s.x, torch.mul(m, lr, out=g), out=g)
        return EDMState(net.mix_(s.x.add_(psi).sub_(s.psi), lazy=self.lazy), psi, m)
