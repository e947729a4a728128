"""Neighbourhood gradient clustering: the mean of the gradients that a neighbourhood takes at its models."""

from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import torch
from torch import Tensor

from crossgrad.algorithms.aggregation import Mean
from crossgrad.algorithms.api import CrossGradient, Needs, Network, check_momentum, move_
from crossgrad.codecs.codec import Codec, Exact, ScaledSign, send


class NGCState(NamedTuple):
    """Models and velocities, and what error feedback still owes."""

    x: Tensor
    v: Tensor
    own_memory: Tensor  # of the own gradient (empty without feedback)
    memory: Tensor  # of the gradients for each neighbour, kept by the sender (empty without feedback)


@dataclass(frozen=True)
class NGC:
    """Neighbourhood gradient clustering: step along the mean of cross-gradients.

    Rule:
        g~_j = sum_l pi_jl grad F_l(x_j) with alpha = 1, which neighbours send back: a second message
        g~_j = sum_l pi_jl grad F_j(x_l) with alpha = 0, which an agent takes itself at its neighbours' models
        v <- beta v - lr g~,  x <- W x + v

    With a codec (CompNGC) every gradient of alpha = 1, the own one too, travels compressed with error feedback.

    Reference:
        Aketi, Kodge, Roy: Neighborhood Gradient Clustering: An Efficient Decentralized Learning Method for Non-IID Data
        Distributions. 2022, arXiv:2209.14390.

    Args:
        alpha: 1 or 0: with or without the second message.
        momentum: the share of the last velocity that is kept, 0 to below 1.
        nesterov: whether to take Nesterov's form of the momentum.
        codec: how messages are encoded.
    """

    alpha: int = 1  # 1 or 0: with or without the second message
    momentum: float = 0.9
    nesterov: bool = False
    codec: Codec = Exact()

    needs: ClassVar[Needs] = Needs.UNDIRECTED | Needs.DOUBLY_STOCHASTIC

    def __post_init__(self) -> None:
        check_momentum(self.momentum)
        if self.alpha not in (0, 1):
            raise ValueError(f"NGC's alpha must be 0 or 1, as its authors use it; found {self.alpha}.")

    @property
    def kinds(self) -> tuple[str, ...]:
        """The kinds of message besides models."""
        return (self.codec.kind,) if self.alpha else ()

    def init(self, x: Tensor, net: Network) -> NGCState:
        agents, parameters = x.shape
        keep = bool(self.alpha) and self.codec.feedback
        own = x.new_zeros(agents, parameters if keep else 0)
        return NGCState(x, torch.zeros_like(x), own, x.new_zeros(agents, net.slots if keep else 0, parameters))

    def step(self, s: NGCState, lr: float, grad: CrossGradient, net: Network) -> NGCState:
        models = net.share(s.x)
        steps = torch.empty_like(s.v) if self.nesterov else s.v  # a heavy ball's velocity is its step
        each = models.cross_gradients(grad, self.codec, s.memory) if self.alpha else models.own_gradients(grad)
        for rows, g, G, pi in each:
            if self.alpha:
                g = send(self.codec, g, s.own_memory[rows], grad.sizes).arrives_MD
            g, _ = Mean()(g, G, pi, grad.sizes)
            step = move_(s.v[rows], g, lr, self.momentum, self.nesterov)
            if self.nesterov:
                steps[rows] = step
            del g, G, step  # before the next block is made
        return s._replace(x=models.average_(plus=steps))


def comp_ngc(momentum: float = 0.9) -> NGC:
    """CompNGC: every gradient, own and neighbours', as one bit per number with error feedback.

    Args:
        momentum: the share of the last velocity that is kept, 0 to below 1.

    Reference:
        Aketi, Kodge, Roy: Neighborhood Gradient Clustering: An Efficient Decentralized Learning Method for Non-IID Data
        Distributions. 2022, arXiv:2209.14390.
    """
    return NGC(momentum=momentum, codec=ScaledSign())
