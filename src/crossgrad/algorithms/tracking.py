"""Gradient tracking: every agent follows an estimate of the mean gradient."""

from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import torch
from torch import Tensor

from crossgrad.algorithms.api import Gradient, Needs, Network
from crossgrad.algorithms.steps import check_momentum


class TrackingState(NamedTuple):
    """Models, estimates of the mean gradient, the gradients they were last corrected by, and their momentum."""

    x: Tensor
    y: Tensor
    g: Tensor
    m: Tensor  # empty without momentum


@dataclass(frozen=True)
class GradientTracking:
    """Gradient tracking: a second gossip follows the mean gradient, so no bias remains.

    Rule:
        y <- W y + g - g_previous
        m <- beta m + y
        x <- W (x - lr m)

    Reference:
        Di Lorenzo, Scutari: NEXT: In-Network Nonconvex Optimization. IEEE Transactions on Signal and Information
        Processing over Networks 2016, arXiv:1602.00591.

    Args:
        momentum: heavy ball on the tracked gradient.

    On non-IID data, all agents reach the best model:

    >>> import torch
    >>> import crossgrad as cg
    >>> data = [(torch.ones(32, 1), torch.full((32, 1), float(k))) for k in range(5)]  # agent k's targets are all k
    >>> model = torch.nn.Linear(1, 1, bias=False)
    >>> result = cg.fit(model, data, graph=cg.ring(5), algorithm=cg.GradientTracking(), lr=0.2, steps=20)
    >>> [round(result.agent_model(k).weight.item(), 1) for k in range(5)]  # on all data, 2 is best
    [2.0, 2.0, 2.0, 2.0, 2.0]
    """

    momentum: float = 0.0  # heavy ball on the tracked gradient

    needs: ClassVar[Needs] = Needs.DOUBLY_STOCHASTIC
    step_size: ClassVar[float] = 0.3
    kinds: ClassVar[tuple[str, ...]] = ("tracker",)

    def __post_init__(self) -> None:
        check_momentum(self.momentum)

    def init(self, x: Tensor, net: Network) -> TrackingState:
        return TrackingState(
            x, torch.zeros_like(x), torch.zeros_like(x), x.new_zeros(x.shape if self.momentum else (len(x), 0))
        )

    def step(self, s: TrackingState, lr: float, grad: Gradient, net: Network) -> TrackingState:
        g = grad(s.x)
        y = net.mix_(s.y, kind="tracker").add_(g).sub_(s.g)
        m = s.m.mul_(self.momentum).add_(y) if self.momentum else s.m
        step = torch.mul(m if self.momentum else y, lr, out=s.g)
        return TrackingState(net.mix_(s.x.sub_(step)), y, g, m)
