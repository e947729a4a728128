"""Quasi-global momentum: a velocity that follows the movement of the averaged model."""

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from crossgrad.algorithms.api import Gradient, Needs, Network
from crossgrad.algorithms.steps import MomentumState, check_momentum


@dataclass(frozen=True)
class QGDSGDm:
    """DSGD with quasi-global momentum: the velocity follows the averaged model.

    Rule:
        s = beta m + g, or g + beta (beta m + g) with Nesterov's form
        x' = W (x - lr s)
        m <- (1 - mu) m + mu (x - x') / lr

    Reference:
        Lin, Karimireddy, Stich, Jaggi: Quasi-Global Momentum: Accelerating Decentralized Deep Learning on
        Heterogeneous Data. ICML 2021, arXiv:2102.04761.

    Args:
        momentum: beta, 0 to below 1.
        mu: weight of the newest difference of models in m.
        nesterov: whether to take Nesterov's form of the momentum.

    With DPMSGD and the same momentum and step size, agent 0 ends at 1.3 and agent 4 at 2.7:

    >>> import torch
    >>> import crossgrad as cg
    >>> data = [(torch.ones(32, 1), torch.full((32, 1), float(k))) for k in range(5)]  # agent k's targets are all k
    >>> model = torch.nn.Linear(1, 1, bias=False)
    >>> result = cg.fit(model, data, graph=cg.ring(5), algorithm=cg.QGDSGDm(momentum=0.5), lr=0.1, steps=60)
    >>> [round(result.agent_model(k).weight.item(), 1) for k in range(5)]  # on all data, 2 is best
    [1.8, 1.7, 2.0, 2.3, 2.2]
    """

    momentum: float = 0.9  # beta
    mu: float = 0.1  # share of the newest movement in m
    nesterov: bool = False

    needs: ClassVar[Needs] = Needs.DOUBLY_STOCHASTIC
    step_size: ClassVar[float] = 0.1

    def __post_init__(self) -> None:
        check_momentum(self.momentum)
        if not 0.0 < self.mu <= 1.0:
            raise ValueError(f"mu must be above 0 and at most 1; found {self.mu}. 0.1 is the authors' choice.")

    def init(self, x: Tensor, net: Network) -> MomentumState:
        return MomentumState(x, torch.zeros_like(x))

    def step(self, s: MomentumState, lr: float, grad: Gradient, net: Network) -> MomentumState:
        beta, m, g = self.momentum, s.v, grad(s.x)
        ahead = g.mul_(1 + beta).add_(m, alpha=beta * beta) if self.nesterov else g.add_(m, alpha=beta)
        x = net.mix_(torch.sub(s.x, ahead.mul_(lr), out=ahead))
        return MomentumState(x, m.mul_(1 - self.mu).add_(s.x.sub_(x).mul_(self.mu).div_(lr)))
