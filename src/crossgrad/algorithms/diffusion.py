"""Exact diffusion: one message per edge, and no bias from non-IID data."""

from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import torch
from torch import Tensor

from crossgrad.algorithms.api import Gradient, Needs, Network
from crossgrad.algorithms.steps import check_lazy, check_momentum

MIN_EIGENVALUE = -1 / 3  # eigenvalue of W at which the corrections begin to add up
DIFFUSION_NEEDS = Needs.UNDIRECTED | Needs.DOUBLY_STOCHASTIC | Needs.FIXED | Needs.EIGENVALUES


class D2State(NamedTuple):
    """Models, and psi of the step before: where the agents' own steps led to."""

    x: Tensor
    psi: Tensor


@dataclass(frozen=True)
class D2:
    """D2: the last step's correction cancels the bias from non-IID data.

    Rule:
        psi <- x - lr g
        x <- W (psi + x - psi_previous), first W psi, with W = (1 - lazy) Pi + lazy I

    which is x_{k+1} = W (2 x_k - x_{k-1} - lr (g_k - g_{k-1})). All eigenvalues of W must be above -1/3. The paper has
    `lazy=0`, but then a ring with an even number of agents has the eigenvalue -1/3. `lazy=0.5`, which is exact
    diffusion, is safe on every graph.

    Reference:
        Tang, Lian, Yan, Zhang, Liu: D2: Decentralized Training over Decentralized Data. ICML 2018, arXiv:1803.07068.
        Yuan, Ying, Zhao, Sayed: Exact Diffusion for Distributed Optimization and Learning. IEEE Transactions on Signal
        Processing 2019, arXiv:1702.05122.

    Args:
        lazy: share of the identity in W = (1 - lazy) Pi + lazy I.

    On non-IID data, all agents reach the best model:

    >>> import torch
    >>> import crossgrad as cg
    >>> data = [(torch.ones(32, 1), torch.full((32, 1), float(k))) for k in range(5)]  # agent k's targets are all k
    >>> model = torch.nn.Linear(1, 1, bias=False)
    >>> result = cg.fit(model, data, graph=cg.ring(5), algorithm=cg.D2(), lr=0.2, steps=20)
    >>> [round(result.agent_model(k).weight.item(), 1) for k in range(5)]  # on all data, 2 is best
    [2.0, 2.0, 2.0, 2.0, 2.0]
    """

    lazy: float = 0.1  # share of the identity in W

    needs: ClassVar[Needs] = DIFFUSION_NEEDS
    step_size: ClassVar[float] = 0.3
    lowest: ClassVar[float] = MIN_EIGENVALUE

    def __post_init__(self) -> None:
        check_lazy(self.lazy)

    def init(self, x: Tensor, net: Network) -> D2State:
        return D2State(x, x.clone())

    def step(self, s: D2State, lr: float, grad: Gradient, net: Network) -> D2State:
        g = grad(s.x)
        psi = torch.sub(s.x, g.mul_(lr), out=g)
        return D2State(net.mix_(s.x.add_(psi).sub_(s.psi), lazy=self.lazy), psi)


def exact_diffusion() -> D2:
    """Exact diffusion: D2 with W = (I + Pi) / 2, which is safe on every undirected graph.

    Reference:
        Yuan, Ying, Zhao, Sayed: Exact Diffusion for Distributed Optimization and Learning. IEEE Transactions on Signal
        Processing 2019, arXiv:1702.05122.

    On non-IID data, all agents reach the best model:

    >>> import torch
    >>> import crossgrad as cg
    >>> data = [(torch.ones(32, 1), torch.full((32, 1), float(k))) for k in range(5)]  # agent k's targets are all k
    >>> model = torch.nn.Linear(1, 1, bias=False)
    >>> result = cg.fit(model, data, graph=cg.ring(5), algorithm=cg.exact_diffusion(), lr=0.2, steps=20)
    >>> [round(result.agent_model(k).weight.item(), 1) for k in range(5)]  # on all data, 2 is best
    [2.0, 2.0, 2.0, 2.0, 2.0]
    """
    return D2(lazy=0.5)


class EDMState(NamedTuple):
    """Models, psi of the step before (where the agents' own steps led to), and running means of gradients."""

    x: Tensor
    psi: Tensor
    m: Tensor


@dataclass(frozen=True)
class EDM:
    """Exact diffusion with momentum: the last step's correction cancels the bias from non-IID data.

    Rule:
        m <- beta m + (1 - beta) g
        psi <- x - lr m
        x <- W (psi + x - psi_previous), first W psi, with W = (1 - lazy) Pi + lazy I

    m is a mean of gradients and not a sum, so the step size lr / (1 - beta) here corresponds to lr with heavy-ball
    momentum.

    Reference:
        Hu, Chen, Liu, Mao: A Bias-Correction Decentralized Stochastic Gradient Algorithm with Momentum Acceleration.
        2025, arXiv:2501.19082. Without momentum it is exact diffusion.

    Args:
        momentum: the share of the last velocity that is kept, 0 to below 1.
        lazy: share of the identity in W = (1 - lazy) Pi + lazy I.

    On non-IID data, all agents reach the best model:

    >>> import torch
    >>> import crossgrad as cg
    >>> data = [(torch.ones(32, 1), torch.full((32, 1), float(k))) for k in range(5)]  # agent k's targets are all k
    >>> model = torch.nn.Linear(1, 1, bias=False)
    >>> result = cg.fit(model, data, graph=cg.ring(5), algorithm=cg.EDM(momentum=0.5), lr=0.2, steps=20)
    >>> [round(result.agent_model(k).weight.item(), 1) for k in range(5)]  # on all data, 2 is best
    [2.0, 2.0, 2.0, 2.0, 2.0]
    """

    momentum: float = 0.98
    lazy: float = 0.5  # share of the identity in W

    needs: ClassVar[Needs] = DIFFUSION_NEEDS
    step_size: ClassVar[float] = 0.5
    lowest: ClassVar[float] = MIN_EIGENVALUE

    def __post_init__(self) -> None:
        check_momentum(self.momentum)
        check_lazy(self.lazy)

    def init(self, x: Tensor, net: Network) -> EDMState:
        return EDMState(x, x.clone(), torch.zeros_like(x))

    def step(self, s: EDMState, lr: float, grad: Gradient, net: Network) -> EDMState:
        g = grad(s.x)
        m = s.m.mul_(self.momentum).add_(g.mul_(1 - self.momentum))
        psi = torch.sub(s.x, torch.mul(m, lr, out=g), out=g)
        return EDMState(net.mix_(s.x.add_(psi).sub_(s.psi), lazy=self.lazy), psi, m)
