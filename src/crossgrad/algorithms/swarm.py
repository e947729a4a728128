"""SwarmSGD: random pairs of neighbours take local steps and average."""

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from crossgrad.algorithms.api import Gradient, Needs, Network
from crossgrad.algorithms.steps import MomentumState, check_momentum, column


@dataclass(frozen=True)
class SwarmSGD:
    """Random pairs of neighbours take local steps and average.

    Rule:
        both of a pair: H times x <- x - lr g(x); then both take the average of their models

    By default one pair takes part in a step and the other agents are idle, as in the CGA paper's comparison. With
    `matching`, every agent takes its local steps, and the pairs of a random maximal matching average.

    Reference:
        Nadiradze, Sabour, Davies, Li, Alistarh: Asynchronous Decentralized SGD with Quantized and Local Updates.
        NeurIPS 2021, arXiv:1910.12308.

    Args:
        matching: whether as many pairs as possible average in every step; otherwise one pair does.
        local_steps: H, gradient steps between two meetings; their mean if `geometric`.
        geometric: whether every agent draws its H from a geometric distribution at each meeting.
        momentum: heavy-ball momentum of the local steps, 0 to below 1.

    In 20 steps 20 pairs meet, and each agent of a pair computes one gradient:

    >>> import torch
    >>> import crossgrad as cg
    >>> data = [(torch.ones(32, 1), torch.full((32, 1), float(k))) for k in range(5)]
    >>> model = torch.nn.Linear(1, 1, bias=False)
    >>> result = cg.fit(model, data, graph=cg.ring(5), algorithm=cg.SwarmSGD(), lr=0.2, steps=20)
    >>> result.records[-1].gradients
    40
    """

    matching: bool = False
    local_steps: int = 1  # H; its mean where it is geometric
    geometric: bool = False  # every agent draws its H anew at each meeting
    momentum: float = 0.0  # heavy ball, each agent's own

    needs: ClassVar[Needs] = Needs.UNDIRECTED
    step_size: ClassVar[float] = 0.3

    def __post_init__(self) -> None:
        check_momentum(self.momentum)
        if self.local_steps < 1:
            raise ValueError(f"SwarmSGD takes at least 1 local step between meetings; found {self.local_steps}.")

    def pace(self, agents: int) -> float:
        """Mini-batches per agent and step, on average."""
        return self.local_steps * (1.0 if self.matching or agents == 1 else 2.0 / agents)

    def init(self, x: Tensor, net: Network) -> MomentumState:
        return MomentumState(x, torch.zeros_like(x))

    def step(self, s: MomentumState, lr: float, grad: Gradient, net: Network) -> MomentumState:
        active, pairs = net.meet(single=not self.matching)
        steps_left = self._local_steps(net) * active
        x, v = s
        while bool((active := steps_left > 0).any()):
            on = column(active, x)
            g = grad(x, active)  # zeros for those who idle
            beta = torch.full_like(on, self.momentum).masked_fill_(on == 0, 1.0)
            v.mul_(beta).sub_(g.mul_(lr))
            x.add_(torch.mul(on, v, out=g))
            steps_left = steps_left - 1
        return MomentumState(pairs.mix_(x), v)

    def _local_steps(self, net: Network) -> Tensor:
        """H for each agent: fixed, or drawn from the geometric distribution on 1, 2, ... by inverting it."""
        u = net.draw("local steps")
        if not self.geometric or self.local_steps == 1:
            return torch.full_like(u, self.local_steps)
        return (torch.log1p(-u) / torch.log1p(torch.tensor(-1.0 / self.local_steps))).ceil().clamp(min=1)
