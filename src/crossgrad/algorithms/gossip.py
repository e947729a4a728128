"""Average with the neighbours, then step along one's own gradient."""

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from crossgrad.algorithms.api import Gradient, Needs, Network
from crossgrad.algorithms.steps import MomentumState, XState, check_momentum, move_


@dataclass(frozen=True)
class DPSGD:
    """Decentralised parallel SGD: average with the neighbours, step along the own gradient.

    Rule:
        x <- W x - lr g(x)

    Reference:
        Lian, Zhang, Zhang, Hsieh, Zhang, Liu: Can Decentralized Algorithms Outperform Centralized Algorithms? NeurIPS
        2017, arXiv:1705.09056.

    On non-IID data, agents end at different models:

    >>> import torch
    >>> import crossgrad as cg
    >>> data = [(torch.ones(32, 1), torch.full((32, 1), float(k))) for k in range(5)]  # agent k's targets are all k
    >>> model = torch.nn.Linear(1, 1, bias=False)
    >>> result = cg.fit(model, data, graph=cg.ring(5), algorithm=cg.DPSGD(), lr=0.2, steps=20)
    >>> [round(result.agent_model(k).weight.item(), 1) for k in range(5)]  # on all data, 2 is best
    [1.3, 1.4, 2.0, 2.6, 2.7]
    """

    needs: ClassVar[Needs] = Needs.DOUBLY_STOCHASTIC
    step_size: ClassVar[float] = 0.3

    def init(self, x: Tensor, net: Network) -> XState:
        return XState(x)

    def step(self, s: XState, lr: float, grad: Gradient, net: Network) -> XState:
        g = grad(s.x)
        return XState(net.mix_(s.x, g.mul_(-lr)))


@dataclass(frozen=True)
class DPMSGD:
    """DPSGD with momentum.

    Rule:
        v <- beta v - lr g(x)
        x <- W x + v

    Reference:
        Yu, Jin, Yang: On the Linear Speedup Analysis of Communication Efficient Momentum SGD for Distributed Non-Convex
        Optimization. ICML 2019, arXiv:1905.03817.

    Args:
        momentum: the share of the last velocity that is kept, 0 to below 1.
        nesterov: whether to take Nesterov's form of the momentum.

    With momentum 0.5, steps go twice as far. So agents end where those of DPSGD do with twice the step size:

    >>> import torch
    >>> import crossgrad as cg
    >>> data = [(torch.ones(32, 1), torch.full((32, 1), float(k))) for k in range(5)]  # agent k's targets are all k
    >>> model = torch.nn.Linear(1, 1, bias=False)
    >>> result = cg.fit(model, data, graph=cg.ring(5), algorithm=cg.DPMSGD(momentum=0.5), lr=0.1, steps=30)
    >>> [round(result.agent_model(k).weight.item(), 1) for k in range(5)]  # on all data, 2 is best
    [1.3, 1.4, 2.0, 2.6, 2.7]
    """

    momentum: float = 0.98
    nesterov: bool = False

    needs: ClassVar[Needs] = Needs.DOUBLY_STOCHASTIC
    step_size: ClassVar[float] = 0.01

    def __post_init__(self) -> None:
        check_momentum(self.momentum)

    def init(self, x: Tensor, net: Network) -> MomentumState:
        return MomentumState(x, torch.zeros_like(x))

    def step(self, s: MomentumState, lr: float, grad: Gradient, net: Network) -> MomentumState:
        step = move_(s.v, grad(s.x), lr, self.momentum, self.nesterov)
        return MomentumState(net.mix_(s.x, step), s.v)
