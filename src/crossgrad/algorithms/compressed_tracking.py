"""Compressed gradient tracking: models and trackers travel as compressed differences, and no bias remains."""

from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import torch
from torch import Tensor

from crossgrad.algorithms.api import Gradient, Needs, Network
from crossgrad.algorithms.compressed import COPIES_NEED, Copies, check_gamma
from crossgrad.codecs.codec import Codec
from crossgrad.codecs.quantised import Quantised


class BEERState(NamedTuple):
    """Models and trackers with the copies that neighbours have of each, and the gradients that the trackers hold."""

    x: Tensor
    hat: Tensor
    average: Tensor
    y: Tensor
    y_hat: Tensor
    y_average: Tensor
    m: Tensor
    begun: Tensor  # 0 before the first step, then 1


@dataclass(frozen=True)
class BEER:
    """BEER: gradient tracking in which models and trackers travel as compressed differences.

    Rule:
        y <- y + gamma (W - I) y^ + g - g_previous, first y = g
        y^ <- y^ + Q(y - y^), from y^ = 0, not in the first step
        x <- x + gamma (W - I) x^ - lr y
        x^ <- x^ + Q(x - x^), from x^ = 0

    Reference:
        Zhao, Li, Li, Richtarik, Chi: BEER: Fast O(1/T) Rate for Decentralized Nonconvex Optimization with Communication
        Compression. NeurIPS 2022, arXiv:2201.13320.

    Args:
        codec: how messages are encoded.
        gamma: consensus step size; the coarser the codec, the smaller.

    On non-IID data, all agents reach the best model, with 4 bits per number:

    >>> import torch
    >>> import crossgrad as cg
    >>> data = [(4 * torch.eye(16), torch.full((16, 1), 4.0 * k)) for k in range(5)]  # agent k's best weights are all k
    >>> model = torch.nn.Linear(16, 1, bias=False)
    >>> result = cg.fit(model, data, graph=cg.ring(5), algorithm=cg.BEER(gamma=0.8), lr=0.2, steps=40)
    >>> [round(result.agent_model(k).weight.mean().item(), 1) for k in range(5)]  # on all data, 2 is best
    [2.0, 2.0, 2.0, 2.0, 2.0]
    >>> result.records[-1].bytes_sent  # 40 steps of 10 models and 10 trackers of 16 bytes
    12800
    """

    codec: Codec = Quantised()
    gamma: float = 0.4  # consensus step size; the coarser the codec, the smaller

    needs: ClassVar[Needs] = COPIES_NEED
    step_size: ClassVar[float] = 0.3
    kinds: ClassVar[tuple[str, ...]] = ("tracker",)

    def __post_init__(self) -> None:
        check_gamma(self.gamma)

    def init(self, x: Tensor, net: Network) -> BEERState:
        hat, average, y, y_hat, y_average, m = (torch.zeros_like(x) for _ in range(6))
        return BEERState(x, hat, average, y, y_hat, y_average, m, torch.zeros_like(x[:, :1]))

    def step(self, s: BEERState, lr: float, grad: Gradient, net: Network) -> BEERState:
        return self._step(s, grad(s.x), lr, grad.sizes, net)

    def _step(self, s: BEERState, m: Tensor, lr: float, sizes: tuple[int, ...], net: Network) -> BEERState:
        """The step on gradients or, for MoTEF, on their means."""
        y = s.y.add_(m).sub_(s.m).add_(s.y_average, alpha=self.gamma).sub_(s.y_hat, alpha=self.gamma)
        sent = torch.where(s.begun > 0, y, s.y_hat)
        Copies(s.y_hat, s.y_average).update_(sent, net, self.codec, sizes, "tracker", 0.0)
        x = s.x.add_(s.average, alpha=self.gamma).sub_(s.hat, alpha=self.gamma).sub_(torch.mul(y, lr, out=sent))
        Copies(s.hat, s.average).update_(x, net, self.codec, sizes, "model", 1 - self.gamma)
        return s._replace(m=m, begun=s.begun.fill_(1))


@dataclass(frozen=True)
class MoTEF(BEER):
    """MoTEF: BEER on running means of gradients, which have less noise than single ones.

    Rule:
        m <- (1 - share) m + share g, first m = g
        then as BEER with m in place of g

    Reference:
        Islamov, Gao, Stich: Towards Faster Decentralized Stochastic Optimization with Communication Compression. ICLR
        2025, arXiv:2405.20114.

    Args:
        codec: how messages are encoded.
        gamma: consensus step size, above 0 and at most 1; the coarser the codec, the smaller.
        share: weight of the newest gradient in the running mean.

    On non-IID data, all agents reach the best model, with 4 bits per number:

    >>> import torch
    >>> import crossgrad as cg
    >>> data = [(4 * torch.eye(16), torch.full((16, 1), 4.0 * k)) for k in range(5)]  # agent k's best weights are all k
    >>> model = torch.nn.Linear(16, 1, bias=False)
    >>> result = cg.fit(model, data, graph=cg.ring(5), algorithm=cg.MoTEF(gamma=0.8, share=0.5), lr=0.2, steps=40)
    >>> [round(result.agent_model(k).weight.mean().item(), 1) for k in range(5)]  # on all data, 2 is best
    [2.0, 2.0, 2.0, 2.0, 2.0]
    >>> result.records[-1].bytes_sent  # 40 steps of 10 models and 10 trackers of 16 bytes
    12800
    """

    share: float = 0.1  # of the newest gradient in the mean

    def __post_init__(self) -> None:
        super().__post_init__()
        if not 0.0 < self.share <= 1.0:
            raise ValueError(f"MoTEF's share must be above 0 and at most 1; found {self.share}. 1 is BEER.")

    def step(self, s: BEERState, lr: float, grad: Gradient, net: Network) -> BEERState:
        g = grad(s.x)
        share = torch.full_like(s.begun, self.share).masked_fill_(s.begun == 0, 1.0)
        return self._step(s, torch.addcmul(s.m, share, g.sub_(s.m), out=g), lr, grad.sizes, net)
