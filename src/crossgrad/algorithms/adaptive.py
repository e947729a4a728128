"""Adam for non-IID data: its moments are those of the tracked gradient (GTAdam) or of the averaged step (QG-Adam)."""

from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import torch
from torch import Tensor

from crossgrad.algorithms.api import Gradient, Needs, Network
from crossgrad.algorithms.steps import MIN_NORM

MAX_SECOND_MOMENT = 1e6  # second moment of GTAdam, which its analysis needs to be bounded


class GTAdamState(NamedTuple):
    """Models, estimates of the mean gradient with the gradients they hold, and their moments."""

    x: Tensor
    y: Tensor
    g: Tensor
    m: Tensor
    v: Tensor


@dataclass(frozen=True)
class GTAdam:
    """GTAdam: Adam's moments of the tracked mean gradient, so no bias remains.

    Rule:
        y <- W y + g - g_previous
        m <- beta_1 m + (1 - beta_1) y,  v <- min(beta_2 v + (1 - beta_2) y^2, 10^6)
        x <- W x - lr m / sqrt(v + eps)

    As in the paper, moments start at 0 and are not corrected for it, so the first steps are large. A usual step size is
    0.001.

    Reference:
        Carnevale, Farina, Notarnicola, Notarstefano: GTAdam: Gradient Tracking with Adaptive Momentum for Distributed
        Online Optimization. IEEE Transactions on Control of Network Systems 2022, arXiv:2009.01745.

    Args:
        betas: decay rates of the running means of gradients and of their squares.
        eps: added to the denominator, above 0.

    Five agents with one class each, and the worst agent's accuracy on all classes:

    >>> import torch
    >>> import crossgrad as cg
    >>> _ = torch.manual_seed(0)  # of the first weights
    >>> labels = torch.arange(200) % 5
    >>> data = (torch.eye(5)[labels], labels)
    >>> model, method = torch.nn.Linear(5, 5), cg.GTAdam()
    >>> options = {"partition": "class", "test": data, "lr": 0.1, "steps": 20}
    >>> result = cg.fit(model, data, graph=cg.ring(5), algorithm=method, **options)
    >>> min(result.records[-1].agent_accuracy), result.records[-1].bytes_by_kind
    (1.0, {'model': 24000, 'tracker': 24000})
    """

    betas: tuple[float, float] = (0.9, 0.999)
    eps: float = 1e-8

    needs: ClassVar[Needs] = Needs.DOUBLY_STOCHASTIC
    step_size: ClassVar[float] = 0.01
    kinds: ClassVar[tuple[str, ...]] = ("tracker",)

    def __post_init__(self) -> None:
        check_moments(self.betas, self.eps)

    def init(self, x: Tensor, net: Network) -> GTAdamState:
        return GTAdamState(x, *(torch.zeros_like(x) for _ in range(4)))

    def step(self, s: GTAdamState, lr: float, grad: Gradient, net: Network) -> GTAdamState:
        g = grad(s.x)
        y = net.mix_(s.y, kind="tracker").add_(g).sub_(s.g)
        m, v = moments_(s.m, s.v, y, self.betas)
        v.clamp_(max=MAX_SECOND_MOMENT)
        step = torch.add(v, self.eps, out=s.g).rsqrt_().mul_(m).mul_(-lr)
        return GTAdamState(net.mix_(s.x, step), y, g, m, v)


class QGAdamState(NamedTuple):
    """Models, moments of the quasi-global direction, and steps taken."""

    x: Tensor
    m: Tensor
    v: Tensor
    t: Tensor


@dataclass(frozen=True)
class QGAdam:
    """Adam with quasi-global moments: running means of the averaged model's direction in place of the gradient's.

    Rule:
        a = (beta_1 m + (1 - beta_1) g) / (1 - beta_1^t),  b = (beta_2 v + (1 - beta_2) g^2) / (1 - beta_2^t)
        x' = W (x - lr a / (sqrt(b) + eps))
        d = (x - x') / |x - x'|
        m <- beta_1 m + (1 - beta_1) d,  v <- beta_2 v + (1 - beta_2) d^2

    The released code adds g to the first moment with weight 1 instead of 1 - beta_1: `gradient_weight=1` does the same.
    With one class per agent on digits this reached only 47 to 49 % in 300 steps, at step sizes of 0.003 and 0.01.

    Reference:
        Lin, Karimireddy, Stich, Jaggi: Quasi-Global Momentum: Accelerating Decentralized Deep Learning on
        Heterogeneous Data. ICML 2021, arXiv:2102.04761.

    Args:
        betas: decay rates of the running means of gradients and of their squares.
        eps: added to the denominator, above 0.
        gradient_weight: weight of g in the first moment; None: 1 - beta_1.

    Five agents with one class each, and the worst agent's accuracy on all classes:

    >>> import torch
    >>> import crossgrad as cg
    >>> _ = torch.manual_seed(0)  # of the first weights
    >>> labels = torch.arange(200) % 5
    >>> data = (torch.eye(5)[labels], labels)
    >>> model, method = torch.nn.Linear(5, 5), cg.QGAdam()
    >>> options = {"partition": "class", "test": data, "lr": 0.2, "steps": 20}
    >>> result = cg.fit(model, data, graph=cg.ring(5), algorithm=method, **options)
    >>> min(result.records[-1].agent_accuracy), result.records[-1].bytes_by_kind
    (1.0, {'model': 24000})
    """

    betas: tuple[float, float] = (0.9, 0.999)
    eps: float = 1e-8
    gradient_weight: float | None = None  # of g in the first moment; None: 1 - beta_1

    needs: ClassVar[Needs] = Needs.DOUBLY_STOCHASTIC
    step_size: ClassVar[float] = 0.01

    def __post_init__(self) -> None:
        check_moments(self.betas, self.eps)

    def init(self, x: Tensor, net: Network) -> QGAdamState:
        return QGAdamState(x, torch.zeros_like(x), torch.zeros_like(x), torch.zeros_like(x[:, :1]))

    def step(self, s: QGAdamState, lr: float, grad: Gradient, net: Network) -> QGAdamState:
        beta_1, beta_2 = self.betas
        weight = 1 - beta_1 if self.gradient_weight is None else self.gradient_weight
        g, t = grad(s.x), s.t.add_(1)
        b = torch.mul(s.v, beta_2).addcmul_(g, g, value=1 - beta_2).div_(1 - beta_2**t).sqrt_().add_(self.eps)
        a = g.mul_(weight).add_(s.m, alpha=beta_1).div_(1 - beta_1**t)
        x = net.mix_(torch.sub(s.x, a.div_(b).mul_(lr), out=b))
        d = s.x.sub_(x)
        d.div_(torch.linalg.vector_norm(d, dim=1, keepdim=True).add_(MIN_NORM))
        return QGAdamState(x, *moments_(s.m, s.v, d, self.betas), t)


def moments_(m: Tensor, v: Tensor, y: Tensor, betas: tuple[float, float]) -> tuple[Tensor, Tensor]:
    """Adam's moments with y added, in place."""
    m.mul_(betas[0]).add_(y, alpha=1 - betas[0])
    return m, v.mul_(betas[1]).addcmul_(y, y, value=1 - betas[1])


def check_moments(betas: tuple[float, float], eps: float) -> None:
    """Raise unless these can be Adam's."""
    if not all(0.0 <= beta < 1.0 for beta in betas):
        raise ValueError(f"betas must each be at least 0 and below 1; found {list(betas)}. 0.9 and 0.999 are usual.")
    if not 0.0 < eps < float("inf"):
        raise ValueError(f"eps must be above 0 and finite; found {eps}. 1e-8 is usual.")
