"""DecentLaM: momentum of the whole step, the averaging included."""

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from crossgrad.algorithms.api import Gradient, Needs, Network
from crossgrad.algorithms.steps import MomentumState, check_momentum


@dataclass(frozen=True)
class DecentLaM:
    """DecentLaM: momentum that does not increase the bias that DPSGD has on non-IID data.

    Rule:
        g~ = (x - W (x - lr g)) / lr
        m <- beta m + g~
        x <- x - lr m

    Reference:
        Yuan, Chen, Huang, Zhang, Pan, Xu, Yin: DecentLaM: Decentralized Momentum SGD for Large-batch Deep Training.
        ICCV 2021, arXiv:2104.11981.

    Args:
        momentum: the share of the last velocity that is kept, 0 to below 1.

    With DPMSGD and the same momentum and step size, agent 0 ends at 1.3 and agent 4 at 2.7:

    >>> import torch
    >>> import crossgrad as cg
    >>> data = [(torch.ones(32, 1), torch.full((32, 1), float(k))) for k in range(5)]  # agent k's targets are all k
    >>> model = torch.nn.Linear(1, 1, bias=False)
    >>> result = cg.fit(model, data, graph=cg.ring(5), algorithm=cg.DecentLaM(momentum=0.5), lr=0.1, steps=20)
    >>> [round(result.agent_model(k).weight.item(), 1) for k in range(5)]  # on all data, 2 is best
    [1.8, 1.7, 2.0, 2.3, 2.2]
    """

    momentum: float = 0.9

    needs: ClassVar[Needs] = Needs.DOUBLY_STOCHASTIC
    step_size: ClassVar[float] = 0.01

    def __post_init__(self) -> None:
        check_momentum(self.momentum)

    def init(self, x: Tensor, net: Network) -> MomentumState:
        return MomentumState(x, torch.zeros_like(x))

    def step(self, s: MomentumState, lr: float, grad: Gradient, net: Network) -> MomentumState:
        g = grad(s.x)
        ahead = torch.sub(s.x, g.mul_(lr), out=g)
        g = torch.sub(s.x, net.mix_(ahead), out=ahead).div_(lr)
        m = s.v.mul_(self.momentum).add_(g)
        return MomentumState(s.x.sub_(torch.mul(m, lr, out=g)), m)
