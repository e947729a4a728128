"""Global update tracking: gradient tracking at the price of one message."""

from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import torch
from torch import Tensor

from crossgrad.algorithms.api import Gradient, Needs, Network
from crossgrad.algorithms.steps import check_lazy


class GUTState(NamedTuple):
    """Models; of the step before W x / lr - g and 1 / lr, which may differ from number to number (0 at the start)."""

    x: Tensor
    kept: Tensor
    per_lr: Tensor


@dataclass(frozen=True)
class GUT:
    """Global update tracking: every agent tracks the mean update of all agents; `mu` says how strongly.

    Rule:
        y <- g(W x) - (W x - x) / lr + mu (W y_previous - g_previous)
        x <- x - lr y

    The gradient is taken at the averaged model. W y_previous is the difference of two averages, so only models travel.
    A larger mu means a smaller bias from non-IID data. With mu = 1 there is none, but noise dies out most slowly. All
    eigenvalues of W = (1 - lazy) Pi + lazy I must be above -1 / (1 + 2 mu).

    Reference:
        Aketi, Hashemi, Roy: Global Update Tracking: A Decentralized Learning Algorithm for Heterogeneous Data.
        NeurIPS 2023, arXiv:2305.04792.

    Args:
        mu: weight of the tracking term, 0 to 1.
        lazy: share of the identity in W = (1 - lazy) Pi + lazy I.

    Without noise, mu = 1 brings all agents to the best model:

    >>> import torch
    >>> import crossgrad as cg
    >>> data = [(torch.ones(32, 1), torch.full((32, 1), float(k))) for k in range(5)]  # agent k's targets are all k
    >>> model = torch.nn.Linear(1, 1, bias=False)
    >>> result = cg.fit(model, data, graph=cg.ring(5), algorithm=cg.GUT(mu=1.0), lr=0.2, steps=40)
    >>> [round(result.agent_model(k).weight.item(), 1) for k in range(5)]  # on all data, 2 is best
    [2.0, 2.0, 2.0, 2.0, 2.0]
    """

    mu: float = 0.9  # share of the tracking term

    lazy: float = 0.0  # share of the identity in W

    needs: ClassVar[Needs] = Needs.UNDIRECTED | Needs.DOUBLY_STOCHASTIC | Needs.FIXED | Needs.EIGENVALUES
    step_size: ClassVar[float] = 0.3

    def __post_init__(self) -> None:
        if not 0.0 <= self.mu <= 1.0:
            raise ValueError(f"GUT's mu must be between 0 and 1; found {self.mu}. 0.9 is a safe start.")
        check_lazy(self.lazy)

    @property
    def lowest(self) -> float:
        """The bound above which all eigenvalues of W must lie; at it, tracking errors no longer die out."""
        return -1 / (1 + 2 * self.mu)

    def init(self, x: Tensor, net: Network) -> GUTState:
        return GUTState(x, torch.zeros_like(x), torch.zeros_like(x))

    def step(self, s: GUTState, lr: float, grad: Gradient, net: Network) -> GUTState:
        average = net.mix_(s.x, lazy=self.lazy)
        g = grad(average)
        tracked = s.kept.addcmul_(average, s.per_lr, value=-1)  # W y - g of the step before
        per_lr = s.per_lr.fill_(1).div_(lr)
        kept = average.mul_(per_lr).sub_(g)
        return GUTState(tracked.mul_(-self.mu).add_(kept).mul_(lr), kept, per_lr)  # W x - lr (g + mu tracked)
