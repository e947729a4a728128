"""Any rule of `torch.optim` as every agent's own step, before it averages with its neighbours.

N: agents, D: parameters, k: tensors of D numbers in the optimiser's state, c: single numbers in it.
"""

from dataclasses import dataclass
from functools import cache
from typing import ClassVar, NamedTuple

import torch
from torch import Tensor

from crossgrad.algorithms.api import Gradient, Needs, Network
from crossgrad.algorithms.rules import AdamW, OptimRule


class TorchOptimState(NamedTuple):
    """Models, and the state of each agent's optimiser."""

    x: Tensor
    tensors: Tensor  # N x k x D
    numbers: Tensor  # N x (1 + c): whether the rule has begun, then its numbers


@dataclass(frozen=True)
class TorchOptim:
    """Every agent takes a step of any `torch.optim` rule, then all average; with AdamW it is decentralised Adam.

    Rule:
        x <- x + the step of the agent's own optimiser on its gradient
        x <- W x

    Every agent has its own moments, which are not sent. On non-IID data each agent scales its gradients differently,
    and the resulting bias remains at any step size: with one class per agent, AdamW learnt nothing on digits at step
    sizes of 0.001 to 0.01 (8 to 19 %). QGAdam reduces this bias, and GTAdam removes it.

    Reference:
        Nazari, Tarzanagh, Michailidis: DAdam: A Consensus-Based Distributed Adaptive Gradient Method for Online
        Optimization. 2019, arXiv:1901.09109. The bias: Chen, Karimi, Zhao, Li: On the Convergence of Decentralized
        Adaptive Gradient Methods. 2021, arXiv:2109.03194.

    Args:
        rule: the rule of every agent's own step: an entry of `RULES`, with options.

    SGD with momentum as PyTorch has it:

    >>> import torch
    >>> import crossgrad as cg
    >>> from crossgrad.algorithms import RULES
    >>> sgd = RULES["sgd"](momentum=0.5)
    >>> data = [(torch.ones(32, 1), torch.full((32, 1), float(k))) for k in range(5)]  # agent k's targets are all k
    >>> model = torch.nn.Linear(1, 1, bias=False)
    >>> result = cg.fit(model, data, graph=cg.ring(5), algorithm=cg.TorchOptim(sgd), lr=0.1, steps=20)
    >>> [round(result.agent_model(k).weight.item(), 1) for k in range(5)]  # on all data, 2 is best
    [1.8, 1.4, 2.0, 2.6, 2.2]
    """

    rule: OptimRule = AdamW()

    needs: ClassVar[Needs] = Needs.DOUBLY_STOCHASTIC
    step_size: ClassVar[float] = 0.003

    def __post_init__(self) -> None:
        self.rule.over({0.1: [torch.zeros(1)]})  # raises what torch has to say about the options

    def init(self, x: Tensor, net: Network) -> TorchOptimState:
        tensors, numbers = _names_of_state(self.rule)
        memory = x.new_zeros(len(x), len(tensors), x.shape[1])
        return TorchOptimState(x, memory, torch.zeros(len(x), 1 + len(numbers), dtype=torch.float64))

    def step(self, s: TorchOptimState, lr: float, grad: Gradient, net: Network) -> TorchOptimState:
        self._step_(s, grad(s.x), lr)
        return s._replace(x=net.mix_(s.x))

    def _step_(self, s: TorchOptimState, g: Tensor, lr: float | Tensor) -> None:
        """One step of every agent's optimiser, in place; the optimisers' states are rows of `s`."""
        tensors, numbers = _names_of_state(self.rule)
        pieces = _pieces(lr, s.x.shape[1])
        agents = range(len(s.x))
        parts = {(j, piece): s.x[j, begin:end] for j in agents for piece, (_, begin, end) in enumerate(pieces)}
        by_lr: dict[float, list[Tensor]] = {}
        for (_, piece), part in parts.items():
            by_lr.setdefault(pieces[piece][0], []).append(part)
        optimiser = self.rule.over(by_lr)
        for (j, piece), part in parts.items():
            _, begin, end = pieces[piece]
            part.grad = g[j, begin:end]
            if s.numbers[j, 0]:
                memory = dict(zip(tensors, s.tensors[j, :, begin:end], strict=True))
                optimiser.state[part] = memory | dict(zip(numbers, s.numbers[j, 1:].float(), strict=True))
        optimiser.step()
        for (j, piece), part in parts.items():
            _, begin, end = pieces[piece]
            memory = optimiser.state[part]
            for place, name in zip(s.tensors[j, :, begin:end], tensors, strict=True):
                if memory[name].data_ptr() != place.data_ptr():
                    place.copy_(memory[name])
            now = torch.tensor([1.0, *(float(memory[name]) for name in numbers)])
            if piece and not torch.equal(s.numbers[j].float(), now):
                raise ValueError(
                    f"{type(self.rule).__name__} needs one step size for all parameters; found parameter groups with "
                    f"{len(by_lr)} different ones. Give them the same lr, or take AdamW, Adam or SGD."
                )
            s.numbers[j] = now


def _pieces(lr: float | Tensor, D: int) -> list[tuple[float, int, int]]:
    """The stretches of a model's vector that have one step size each: the step size, start and end.

    >>> _pieces(torch.tensor([0.5, 0.5, 0.25]), 3)
    [(0.5, 0, 2), (0.25, 2, 3)]
    """
    if not isinstance(lr, Tensor):
        return [(lr, 0, D)]
    values, counts = torch.unique_consecutive(lr, return_counts=True)
    ends = [0, *counts.cumsum(0).tolist()]
    return list(zip(values.tolist(), ends[:-1], ends[1:], strict=True))


@cache
def _names_of_state(rule: OptimRule) -> tuple[list[str], list[str]]:
    """Names in the optimiser's state: of tensors like the model, and of single numbers. Found by a step on zeros."""
    row = torch.zeros(2)
    row.grad = torch.zeros(2)
    optimiser = rule.over({0.1: [row]})
    optimiser.step()
    sizes = {name: torch.as_tensor(value).numel() for name, value in optimiser.state[row].items() if value is not None}
    return [name for name, size in sizes.items() if size == 2], [name for name, size in sizes.items() if size == 1]
