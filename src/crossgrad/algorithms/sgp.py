"""Stochastic gradient push: averaging by push-sum, which is unbiased on directed graphs."""

from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import torch
from torch import Tensor

from crossgrad.algorithms.api import Gradient, Needs, Network
from crossgrad.algorithms.steps import check_momentum, move_


class SGPState(NamedTuple):
    """De-biased models, push-sum weights (they sum to the number of agents) and velocities."""

    x: Tensor
    w: Tensor
    v: Tensor


@dataclass(frozen=True)
class SGP:
    """Stochastic gradient push: push-sum averaging, for directed graphs too.

    Rule:
        u <- Pi (w x - lr g),  w <- Pi w, from w = 1
        x <- u / w

    On a doubly stochastic graph w stays 1, and the rule is the one that the CGA paper compares with.

    Reference:
        Assran, Loizou, Ballas, Rabbat: Stochastic Gradient Push for Distributed Deep Learning. ICML 2019,
        arXiv:1811.10792.

    Args:
        momentum: the share of the last velocity that is kept, 0 to below 1.
        nesterov: whether to take Nesterov's form of the momentum.

    On a directed graph in which agent 0 sends to two agents and agent 2 receives from two:

    >>> import torch
    >>> import crossgrad as cg
    >>> import networkx as nx
    >>> graph = cg.from_networkx(nx.DiGraph([(0, 1), (1, 2), (2, 3), (3, 4), (4, 0), (0, 2)]))
    >>> data = [(torch.ones(32, 1), torch.full((32, 1), float(k))) for k in range(5)]  # agent k's targets are all k
    >>> model = torch.nn.Linear(1, 1, bias=False)
    >>> result = cg.fit(model, data, graph=graph, algorithm=cg.SGP(), lr=0.1, steps=40)
    >>> [round(result.agent_model(k).weight.item(), 1) for k in range(5)]  # on all data, 2 is best
    [2.4, 1.6, 1.7, 1.9, 2.4]
    """

    momentum: float = 0.0
    nesterov: bool = False

    needs: ClassVar[Needs] = Needs.COLUMN_STOCHASTIC
    step_size: ClassVar[float] = 0.3

    def __post_init__(self) -> None:
        check_momentum(self.momentum)

    def init(self, x: Tensor, net: Network) -> SGPState:
        return SGPState(x, torch.ones_like(x[:, :1]), torch.zeros_like(x))

    def step(self, s: SGPState, lr: float, grad: Gradient, net: Network) -> SGPState:
        step = move_(s.v, grad(s.x), lr, self.momentum, self.nesterov)
        u, w = net.push_(s.x.mul_(s.w).add_(step), s.w)
        return SGPState(u.div_(w), w, s.v)
