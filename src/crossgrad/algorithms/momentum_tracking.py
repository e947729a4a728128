"""Momentum tracking: gradient tracking with momentum, whose rate does not depend on how non-IID the data is."""

from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import torch
from torch import Tensor

from crossgrad.algorithms.api import Gradient, Needs, Network
from crossgrad.algorithms.steps import check_momentum


class MomentumTrackingState(NamedTuple):
    """Models, momenta, and the part of each momentum that is only the agent's own."""

    x: Tensor
    u: Tensor
    c: Tensor


@dataclass(frozen=True)
class MomentumTracking:
    """Momentum tracking: every agent follows the mean of all momenta, so no bias remains.

    Rule:
        u <- beta u + g
        x <- W x - lr (u - c)
        c <- W (c - u) + u, from c = 0

    With `momentum=0` it is gradient tracking in the form that averages first.

    Reference:
        Takezawa, Bao, Niwa, Sato, Yamada: Momentum Tracking: Momentum Acceleration for Decentralized Deep Learning on
        Heterogeneous Data. TMLR 2023, arXiv:2209.15505.

    Args:
        momentum: the share of the last velocity that is kept, 0 to below 1.

    On non-IID data, all agents reach the best model:

    >>> import torch
    >>> import crossgrad as cg
    >>> data = [(torch.ones(32, 1), torch.full((32, 1), float(k))) for k in range(5)]  # agent k's targets are all k
    >>> model = torch.nn.Linear(1, 1, bias=False)
    >>> result = cg.fit(model, data, graph=cg.ring(5), algorithm=cg.MomentumTracking(momentum=0.5), lr=0.1, steps=20)
    >>> [round(result.agent_model(k).weight.item(), 1) for k in range(5)]  # on all data, 2 is best
    [2.0, 2.0, 2.0, 2.0, 2.0]
    """

    momentum: float = 0.9

    needs: ClassVar[Needs] = Needs.DOUBLY_STOCHASTIC
    step_size: ClassVar[float] = 0.01
    kinds: ClassVar[tuple[str, ...]] = ("tracker",)

    def __post_init__(self) -> None:
        check_momentum(self.momentum)

    def init(self, x: Tensor, net: Network) -> MomentumTrackingState:
        return MomentumTrackingState(x, torch.zeros_like(x), torch.zeros_like(x))

    def step(self, s: MomentumTrackingState, lr: float, grad: Gradient, net: Network) -> MomentumTrackingState:
        g = grad(s.x)
        u = s.u.mul_(self.momentum).add_(g)
        own = s.c.sub_(u)
        x = net.mix_(s.x, torch.mul(own, lr, out=g))
        return MomentumTrackingState(x, u, net.mix_(own, u, kind="tracker"))
