"""Average with the neighbours, then step along one's own gradient."""

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from crossgrad.algorithms.api import (
    Gradient,
    MomentumState,
    Needs,
    Network,
    XState,
    check_local_steps,
    check_momentum,
    move_,
)


@dataclass(frozen=True)
class DPSGD:
    """Decentralised parallel SGD: average with the neighbours, step along the own gradient.

    Rule:
        H - 1 times: x <- x - lr g(x)
        x <- W x - lr g(x)

    Reference:
        Lian, Zhang, Zhang, Hsieh, Zhang, Liu: Can Decentralized Algorithms Outperform Centralized Algorithms? NeurIPS
        2017, arXiv:1705.09056.

    Args:
        local_steps: H, gradients from one average to the next.
    """

    local_steps: int = 1  # H, gradients from one average to the next

    needs: ClassVar[Needs] = Needs.DOUBLY_STOCHASTIC

    def __post_init__(self) -> None:
        check_local_steps(self.local_steps)

    def pace(self, agents: int) -> float:
        return float(self.local_steps)

    def init(self, x: Tensor, net: Network) -> XState:
        return XState(x)

    def step(self, s: XState, lr: float, grad: Gradient, net: Network) -> XState:
        for _ in range(self.local_steps - 1):
            s.x.sub_(grad(s.x).mul_(lr))
        g = grad(s.x)
        return XState(net.mix_(s.x, g.mul_(-lr)))


@dataclass(frozen=True)
class DPMSGD:
    """DPSGD with momentum.

    Rule:
        v <- beta v - lr g(x)
        x <- W x + v, or H - 1 times x <- x + v before

    Reference:
        Yu, Jin, Yang: On the Linear Speedup Analysis of Communication Efficient Momentum SGD for Distributed Non-Convex
        Optimization. ICML 2019, arXiv:1905.03817.

    Args:
        momentum: the share of the last velocity that is kept, 0 to below 1.
        nesterov: whether to take Nesterov's form of the momentum.
        local_steps: H, gradients from one average to the next.
    """

    momentum: float = 0.98
    nesterov: bool = False
    local_steps: int = 1  # H, gradients from one average to the next

    needs: ClassVar[Needs] = Needs.DOUBLY_STOCHASTIC

    def __post_init__(self) -> None:
        check_momentum(self.momentum)
        check_local_steps(self.local_steps)

    def pace(self, agents: int) -> float:
        return float(self.local_steps)

    def init(self, x: Tensor, net: Network) -> MomentumState:
        return MomentumState(x, torch.zeros_like(x))

    def step(self, s: MomentumState, lr: float, grad: Gradient, net: Network) -> MomentumState:
        for _ in range(self.local_steps - 1):
            s.x.add_(move_(s.v, grad(s.x), lr, self.momentum, self.nesterov))
        step = move_(s.v, grad(s.x), lr, self.momentum, self.nesterov)
        return MomentumState(net.mix_(s.x, step), s.v)
