"""Any rule of `torch.optim` as every agent's own step, before it averages with its neighbours.

N: agents, D: parameters, k: tensors of D numbers that the rule remembers, c: single numbers that it remembers.
"""

from dataclasses import dataclass
from functools import cache
from typing import ClassVar, NamedTuple

import torch
from torch import Tensor

from crossgrad.algorithms.api import Gradient, Needs, Network
from crossgrad.algorithms.rules import AdamW, OptimRule


class TorchOptimState(NamedTuple):
    """Models, and what each agent's rule remembers."""

    x: Tensor
    tensors: Tensor  # N x k x D
    numbers: Tensor  # N x (1 + c): whether the rule has begun, then its numbers


@dataclass(frozen=True)
class TorchOptim:
    """Every agent takes a step of any `torch.optim` rule, then all average; with AdamW it is decentralised Adam.

    Rule:
        x <- x + the step of the agent's own optimiser on its gradient
        x <- W x

    Every agent has its own moments, which are not sent. On non-IID data each agent scales its gradients differently, so
    that a bias remains which no step size removes; QGAdam and GTAdam reduce or remove it.

    Reference:
        Nazari, Tarzanagh, Michailidis: DAdam: A Consensus-Based Distributed Adaptive Gradient Method for Online
        Optimization. 2019, arXiv:1901.09109. The bias: Chen, Karimi, Zhao, Li: On the Convergence of Decentralized
        Adaptive Gradient Methods. 2021, arXiv:2109.03194.

    Args:
        rule: the optimiser that makes every agent's local steps.
    """

    rule: OptimRule = AdamW()

    needs: ClassVar[Needs] = Needs.DOUBLY_STOCHASTIC

    def __post_init__(self) -> None:
        self.rule.over([torch.zeros(1)], 0.1)  # raises what torch has to say about the options

    def init(self, x: Tensor, net: Network) -> TorchOptimState:
        tensors, numbers = _names(self.rule)
        memory = x.new_zeros(len(x), len(tensors), x.shape[1])
        return TorchOptimState(x, memory, torch.zeros(len(x), 1 + len(numbers), dtype=torch.float64))

    def step(self, s: TorchOptimState, lr: float, grad: Gradient, net: Network) -> TorchOptimState:
        self._step_(s, grad(s.x), lr)
        return s._replace(x=net.mix_(s.x))

    def _step_(self, s: TorchOptimState, g: Tensor, lr: float) -> None:
        """One step of every agent's optimiser, in place; what it remembers lies in the rows of the state."""
        tensors, numbers = _names(self.rule)
        rows = list(s.x.unbind())
        optimiser = self.rule.over(rows, lr)
        for agent, row in enumerate(rows):
            row.grad = g[agent]
            if s.numbers[agent, 0]:
                memory = dict(zip(tensors, s.tensors[agent], strict=True))
                optimiser.state[row] = memory | dict(zip(numbers, s.numbers[agent, 1:].float(), strict=True))
        optimiser.step()
        for agent, row in enumerate(rows):
            memory = optimiser.state[row]
            for place, name in zip(s.tensors[agent], tensors, strict=True):
                if memory[name].data_ptr() != place.data_ptr():
                    place.copy_(memory[name])
            s.numbers[agent] = torch.tensor([1.0, *(float(memory[name]) for name in numbers)])


@cache
def _names(rule: OptimRule) -> tuple[list[str], list[str]]:
    """What the rule remembers by name: tensors like the model, and single numbers. Found by a step on zeros."""
    row = torch.zeros(2)
    row.grad = torch.zeros(2)
    optimiser = rule.over([row], 0.1)
    optimiser.step()
    sizes = {name: torch.as_tensor(value).numel() for name, value in optimiser.state[row].items() if value is not None}
    return [name for name, size in sizes.items() if size == 2], [name for name, size in sizes.items() if size == 1]
