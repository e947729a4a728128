"""Gradient tracking: every agent follows an estimate of the mean gradient."""

from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import torch
from torch import Tensor

from crossgrad.algorithms.api import Gradient, Needs, Network


class TrackingState(NamedTuple):
    """Models, estimates of the mean gradient, and the gradients they were last corrected by."""

    x: Tensor
    y: Tensor
    g: Tensor


@dataclass(frozen=True)
class GradientTracking:
    """Gradient tracking: a second gossip follows the mean gradient, so no bias remains (Di Lorenzo 2016).

    y <- Pi y + g - g_previous, x <- Pi (x - lr y).
    """

    needs: ClassVar[Needs] = Needs.DOUBLY_STOCHASTIC

    def init(self, x: Tensor, net: Network) -> TrackingState:
        return TrackingState(x, torch.zeros_like(x), torch.zeros_like(x))

    def step(self, s: TrackingState, lr: float, grad: Gradient, net: Network) -> TrackingState:
        g = grad(s.x)
        y = net.mix_(s.y, kind="tracker").add_(g).sub_(s.g)
        step = torch.mul(y, lr, out=s.g)
        return TrackingState(net.mix_(s.x.sub_(step)), y, g)
