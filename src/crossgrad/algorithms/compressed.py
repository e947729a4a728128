"""Compressed gossip: neighbours keep copies x-hat of each other's models, and only differences to them travel.

All neighbours get the same message q, so an agent keeps its own x-hat and one weighted sum W x-hat of all.
"""

from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import torch
from torch import Tensor

from crossgrad.algorithms.api import Gradient, Needs, Network
from crossgrad.algorithms.steps import MIN_NORM, check_momentum
from crossgrad.codecs.codec import Codec
from crossgrad.codecs.quantised import Quantised

COPIES_NEED = Needs.UNDIRECTED | Needs.DOUBLY_STOCHASTIC | Needs.FIXED | Needs.RELIABLE


class Copies(NamedTuple):
    """What neighbours know of each agent, and the average that they make of it."""

    hat: Tensor
    average: Tensor

    def update_(self, x: Tensor, net: Network, codec: Codec, sizes: tuple[int, ...], kind: str, lazy: float) -> Tensor:
        """q = Q(x - hat) travels; hat += q. The pull towards the neighbours, (W - I) hat, is returned."""
        q, average = net.broadcast_(x - self.hat, codec, sizes, kind=kind, lazy=lazy)
        self.average.add_(average)
        return torch.sub(self.average, self.hat.add_(q), out=average)


class CHOCOState(NamedTuple):
    """Models, the copies that neighbours have, and velocities."""

    x: Tensor
    hat: Tensor
    average: Tensor
    v: Tensor  # empty without momentum


@dataclass(frozen=True)
class CHOCO:
    """CHOCO-SGD: gossip on copies of the neighbours' models, which are updated by compressed differences.

    Rule:
        y = x - lr g, or y = x + v with v <- beta v - lr g
        x^ <- x^ + Q(y - x^), from x^ = 0
        x <- y + gamma (W - I) x^

    Reference:
        Koloskova, Stich, Jaggi: Decentralized Stochastic Optimization and Gossip Algorithms with Compressed
        Communication. ICML 2019, arXiv:1902.00340. With momentum: Koloskova, Lin, Stich, Jaggi: Decentralized Deep
        Learning with Arbitrary Communication Compression. ICLR 2020, arXiv:1907.09356.

    Args:
        codec: how messages are encoded.
        gamma: consensus step size; the coarser the codec, the smaller.
        momentum: the share of the last velocity that is kept, 0 to below 1.

    Models of 16 numbers, sent as 4 bits each and two ends of a range, which is a quarter of DPSGD's bytes:

    >>> import torch
    >>> import crossgrad as cg
    >>> data = [(4 * torch.eye(16), torch.full((16, 1), 4.0 * k)) for k in range(5)]  # agent k's best weights are all k
    >>> model = torch.nn.Linear(16, 1, bias=False)
    >>> result = cg.fit(model, data, graph=cg.ring(5), algorithm=cg.CHOCO(gamma=1.0), lr=0.2, steps=20)
    >>> [round(result.agent_model(k).weight.mean().item(), 1) for k in range(5)]  # on all data, 2 is best
    [1.8, 1.4, 2.0, 2.6, 2.2]
    >>> result.records[-1].bytes_sent  # 20 steps of 10 messages of 16 bytes
    3200
    """

    codec: Codec = Quantised()
    gamma: float = 0.8  # consensus step size; the coarser the codec, the smaller
    momentum: float = 0.0

    needs: ClassVar[Needs] = COPIES_NEED
    step_size: ClassVar[float] = 0.3

    def __post_init__(self) -> None:
        check_momentum(self.momentum)
        check_gamma(self.gamma)

    def init(self, x: Tensor, net: Network) -> CHOCOState:
        return CHOCOState(x, torch.zeros_like(x), torch.zeros_like(x), velocity(x, self.momentum))

    def step(self, s: CHOCOState, lr: float, grad: Gradient, net: Network) -> CHOCOState:
        y = own_step_(s.x, s.v, grad(s.x), lr, self.momentum)
        pull = Copies(s.hat, s.average).update_(y, net, self.codec, grad.sizes, "model", 1 - self.gamma)
        return s._replace(x=y.add_(pull.mul_(self.gamma)))


class AdaGossipState(NamedTuple):
    """Models, the copies that neighbours have, velocities, the pull's second moments and the number of steps."""

    x: Tensor
    hat: Tensor
    average: Tensor
    v: Tensor  # empty without momentum
    square: Tensor
    t: Tensor


@dataclass(frozen=True)
class AdaGossip:
    """AdaGossip: CHOCO with a consensus step size per parameter, which is smaller where neighbours differ much.

    Rule:
        as CHOCO up to the pull r = (W - I) x^
        u <- beta u + (1 - beta) r^2
        x <- y + min(1, gamma / (sqrt(u / (1 - beta^t)) + 1e-8)) r

    Reference:
        Aketi, Hashemi, Roy: AdaGossip: Adaptive Consensus Step-size for Decentralized Deep Learning with Communication
        Compression. 2024, arXiv:2404.05919.

    Args:
        codec: how messages are encoded.
        gamma: consensus step size, above 0 and at most 1.
        beta: the decay rate of the running mean of squared differences.
        momentum: the share of the last velocity that is kept, 0 to below 1.

    Models of 16 numbers, sent as 4 bits each and two ends of a range, which is a quarter of DPSGD's bytes:

    >>> import torch
    >>> import crossgrad as cg
    >>> data = [(4 * torch.eye(16), torch.full((16, 1), 4.0 * k)) for k in range(5)]  # agent k's best weights are all k
    >>> model = torch.nn.Linear(16, 1, bias=False)
    >>> result = cg.fit(model, data, graph=cg.ring(5), algorithm=cg.AdaGossip(gamma=0.5), lr=0.2, steps=20)
    >>> [round(result.agent_model(k).weight.mean().item(), 1) for k in range(5)]  # on all data, 2 is best
    [1.3, 1.3, 2.0, 2.7, 2.7]
    >>> result.records[-1].bytes_sent  # 20 steps of 10 messages of 16 bytes
    3200
    """

    codec: Codec = Quantised()
    gamma: float = 0.2
    beta: float = 0.999
    momentum: float = 0.0

    needs: ClassVar[Needs] = COPIES_NEED
    step_size: ClassVar[float] = 0.3

    def __post_init__(self) -> None:
        check_momentum(self.momentum)
        check_gamma(self.gamma)
        if not 0.0 <= self.beta < 1.0:
            raise ValueError(f"beta must be at least 0 and below 1; found {self.beta}. 0.999 is usual.")

    def init(self, x: Tensor, net: Network) -> AdaGossipState:
        hat, average, square = (torch.zeros_like(x) for _ in range(3))
        return AdaGossipState(x, hat, average, velocity(x, self.momentum), square, torch.zeros_like(x[:, :1]))

    def step(self, s: AdaGossipState, lr: float, grad: Gradient, net: Network) -> AdaGossipState:
        y = own_step_(s.x, s.v, grad(s.x), lr, self.momentum)
        pull = Copies(s.hat, s.average).update_(y, net, self.codec, grad.sizes, "model", 0.0)
        t = s.t.add_(1)
        square = s.square.mul_(self.beta).addcmul_(pull, pull, value=1 - self.beta)
        share = (square / (1 - self.beta**t)).sqrt_().add_(MIN_NORM).reciprocal_().mul_(self.gamma).clamp_(max=1.0)
        return s._replace(x=y.add_(pull.mul_(share)))


def own_step_(x: Tensor, v: Tensor, g: Tensor, lr: float, momentum: float) -> Tensor:
    """x <- x - lr g or, with momentum, x <- x + v with v <- momentum v - lr g; in place."""
    return x.add_(v.mul_(momentum).sub_(g.mul_(lr))) if momentum else x.sub_(g.mul_(lr))


def velocity(x: Tensor, momentum: float) -> Tensor:
    """Zeros for the velocities; no columns without momentum."""
    return torch.zeros_like(x) if momentum else x[:, :0].clone()


def check_gamma(gamma: float) -> None:
    """Raise unless 0 < gamma <= 1."""
    if not 0.0 < gamma <= 1.0:
        raise ValueError(f"gamma must be above 0 and at most 1; found {gamma}. A coarser codec needs a smaller one.")
