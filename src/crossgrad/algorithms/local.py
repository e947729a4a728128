"""Several gradient steps between two messages, without the bias that local steps on non-IID data have."""

from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import torch
from torch import Tensor

from crossgrad.algorithms.api import Gradient, Needs, Network
from crossgrad.algorithms.diffusion import MIN_EIGENVALUE
from crossgrad.algorithms.steps import check_lazy, check_local_steps


class CorrectedState(NamedTuple):
    """Models, and the correction of every agent's local steps towards the average step of all agents."""

    x: Tensor
    c: Tensor


@dataclass(frozen=True)
class KGT:
    """K-GT: gradient tracking with K local steps between two messages.

    Rule:
        K times: y <- y - lr (g(y) + c), from y = x
        z = (x - y) / (K lr)
        c <- c - z + W z
        x <- W (x - K lr share z)

    Reference:
        Liu, Lin, Koloskova, Stich: Decentralized Gradient Tracking with Local Steps. 2023, arXiv:2301.01313.

    Args:
        local_steps: K, gradient steps from one averaging to the next.
        share: factor on the sum of the local steps, above 0 and at most 1; the paper's eta_s.

    Twenty steps of two gradients each, and all agents reach the best model:

    >>> import torch
    >>> import crossgrad as cg
    >>> data = [(torch.ones(32, 1), torch.full((32, 1), float(k))) for k in range(5)]  # agent k's targets are all k
    >>> model = torch.nn.Linear(1, 1, bias=False)
    >>> result = cg.fit(model, data, graph=cg.ring(5), algorithm=cg.KGT(local_steps=2), lr=0.1, steps=20)
    >>> [round(result.agent_model(k).weight.item(), 1) for k in range(5)]  # on all data, 2 is best
    [2.0, 2.0, 2.0, 2.0, 2.0]
    """

    local_steps: int = 4  # K
    share: float = 1.0  # of the local steps that x takes over; the paper's eta_s

    needs: ClassVar[Needs] = Needs.DOUBLY_STOCHASTIC
    step_size: ClassVar[float] = 0.1
    kinds: ClassVar[tuple[str, ...]] = ("tracker",)

    def __post_init__(self) -> None:
        check_local_steps(self.local_steps)
        if not 0.0 < self.share <= 1.0:
            raise ValueError(f"K-GT's share must be above 0 and at most 1; found {self.share}. 1 takes whole steps.")

    def pace(self, agents: int) -> float:
        return float(self.local_steps)

    def init(self, x: Tensor, net: Network) -> CorrectedState:
        return CorrectedState(x, torch.zeros_like(x))

    def step(self, s: CorrectedState, lr: float, grad: Gradient, net: Network) -> CorrectedState:
        y = s.x.clone()
        for _ in range(self.local_steps):
            y.sub_(grad(y).add_(s.c).mul_(lr))
        gone = torch.sub(s.x, y, out=y)
        x = net.mix_(s.x.sub_(gone, alpha=self.share))
        z = gone.div_(self.local_steps * lr)
        c = s.c.sub_(z)
        return CorrectedState(x, c.add_(net.mix_(z, kind="tracker")))


@dataclass(frozen=True)
class LED:
    """Local exact diffusion: exact diffusion with several local steps between two messages.

    Rule:
        tau times: p <- p - lr g(p) - c / tau, from p = x
        x <- W p with W = (1 - lazy) Pi + lazy I
        c <- c + p - x

    With one local step it is D2, or exact diffusion with `lazy=0.5`.

    Reference:
        Alghunaim: Local Exact-Diffusion for Decentralized Optimization and Learning. IEEE Transactions on Automatic
        Control 2024, arXiv:2302.00620.

    Args:
        local_steps: tau, gradient steps from one averaging to the next.
        lazy: share of the identity in W = (1 - lazy) Pi + lazy I.

    Twenty steps of two gradients each, and all agents reach the best model:

    >>> import torch
    >>> import crossgrad as cg
    >>> data = [(torch.ones(32, 1), torch.full((32, 1), float(k))) for k in range(5)]  # agent k's targets are all k
    >>> model = torch.nn.Linear(1, 1, bias=False)
    >>> result = cg.fit(model, data, graph=cg.ring(5), algorithm=cg.LED(local_steps=2), lr=0.1, steps=20)
    >>> [round(result.agent_model(k).weight.item(), 1) for k in range(5)]  # on all data, 2 is best
    [2.0, 2.0, 2.0, 2.0, 2.0]
    """

    local_steps: int = 4  # tau
    lazy: float = 0.5  # share of the identity in W

    needs: ClassVar[Needs] = Needs.UNDIRECTED | Needs.DOUBLY_STOCHASTIC | Needs.FIXED | Needs.EIGENVALUES
    step_size: ClassVar[float] = 0.1
    lowest: ClassVar[float] = MIN_EIGENVALUE

    def __post_init__(self) -> None:
        check_local_steps(self.local_steps)
        check_lazy(self.lazy)

    def pace(self, agents: int) -> float:
        return float(self.local_steps)

    def init(self, x: Tensor, net: Network) -> CorrectedState:
        return CorrectedState(x, torch.zeros_like(x))

    def step(self, s: CorrectedState, lr: float, grad: Gradient, net: Network) -> CorrectedState:
        p = s.x
        for _ in range(self.local_steps):
            p.sub_(grad(p).mul_(lr)).sub_(s.c, alpha=1 / self.local_steps)
        c = s.c.add_(p)
        x = net.mix_(p, lazy=self.lazy)
        return CorrectedState(x, c.sub_(x))
