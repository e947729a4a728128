"""RelaySGD: sums of models are relayed along a tree, so that every agent averages all agents' earlier models."""

from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import torch
from torch import Tensor

from crossgrad.algorithms.api import Gradient, Needs, Network
from crossgrad.algorithms.steps import check_momentum, move_


class RelayState(NamedTuple):
    """Models, velocities, and what each neighbour sent last: a sum of models, and how many models are in it."""

    x: Tensor
    v: Tensor  # empty without momentum
    sums: Tensor  # N x K x D
    counts: Tensor  # N x K, or of two trees N x 2 K


@dataclass(frozen=True)
class RelaySGD:
    """RelaySGD: an agent sends each neighbour the sum of its own model and of what its other neighbours sent it.

    Rule, on a tree of n agents:
        y = x - lr g, or y = x + v with v <- beta v - lr g
        m_{j->l} = y_j + sum over other neighbours k of m_{k->j};  c_{j->l} = 1 + sum of their c_{k->j}
        x_j <- (y_j (n - sum_l c_{l->j}) + sum_l m_{l->j}) / n

    As long as another agent's model has not arrived, the agent's own model takes its place in the mean; in the released
    program the initial model does. On a double binary tree, the first half of the model's numbers goes through one
    tree and the second through the other.

    Reference:
        Vogels, He, Koloskova, Lin, Karimireddy, Stich, Jaggi: RelaySum for Decentralized Deep Learning on Heterogeneous
        Data. NeurIPS 2021, arXiv:2110.04175.

    Args:
        momentum: the share of the last velocity that is kept, 0 to below 1.
        nesterov: whether to take Nesterov's form of the momentum.

    On a tree, all agents reach the best model:

    >>> import torch
    >>> import crossgrad as cg
    >>> data = [(torch.ones(32, 1), torch.full((32, 1), float(k))) for k in range(5)]  # agent k's targets are all k
    >>> model = torch.nn.Linear(1, 1, bias=False)
    >>> result = cg.fit(model, data, graph=cg.chain(5), algorithm=cg.RelaySGD(), lr=0.2, steps=40)
    >>> [round(result.agent_model(k).weight.item(), 1) for k in range(5)]  # on all data, 2 is best
    [2.0, 2.0, 2.0, 2.0, 2.0]
    """

    momentum: float = 0.0
    nesterov: bool = False

    needs: ClassVar[Needs] = Needs.UNDIRECTED | Needs.DOUBLY_STOCHASTIC | Needs.FIXED | Needs.RELIABLE | Needs.TREE
    step_size: ClassVar[float] = 1.0

    def __post_init__(self) -> None:
        check_momentum(self.momentum)

    def init(self, x: Tensor, net: Network) -> RelayState:
        v = torch.zeros_like(x) if self.momentum else x[:, :0].clone()
        sums = x.new_zeros(len(x), net.slots, x.shape[1])
        return RelayState(x, v, sums, x.new_zeros(len(x), net.trees * net.slots))

    def step(self, s: RelayState, lr: float, grad: Gradient, net: Network) -> RelayState:
        g = grad(s.x)
        step = move_(s.v, g, lr, self.momentum, self.nesterov) if self.momentum else g.mul_(-lr)
        y = s.x.add_(step)
        total, count = net.relay_(y, s.sums, s.counts)
        return s._replace(x=y.mul_(net.agents - count).add_(total).div_(net.agents))
