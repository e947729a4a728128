"""A few steps of an experiment with models of next to no parameters: who sends what, and how many gradients it takes.

N: agents, M: gradients asked for, D: parameters of the true model, d: of the dry run's.
"""

import dataclasses
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor

from crossgrad._network.context import NetworkContext
from crossgrad._network.network import AgentNetwork
from crossgrad._network.shard import Shard
from crossgrad._network.traffic import Traffic, kinds_of
from crossgrad.algorithms import Mean
from crossgrad.graphs import AnyGraph
from crossgrad.models.buffers import Buffers

LONGEST = 8  # steps, where the graph changes from step to step


class CountingGradient:
    """Gradients of zeros, which cost nothing; what was asked for is counted."""

    def __init__(self, sizes: tuple[int, ...], dtype: torch.dtype) -> None:
        self.sizes, self.dtype = sizes, dtype
        self.count, self.for_all, self.for_others = 0, False, False

    def __call__(self, x_ND: Tensor, active_N: Tensor | None = None) -> Tensor:
        self.for_all = True
        self.count += len(x_ND) if active_N is None else int(active_N.sum())
        return torch.zeros_like(x_ND)

    def cross(self, models: Sequence[Tensor], hosts: Sequence[int]) -> Tensor:
        self.for_others = True
        self.count += len(models)
        return torch.zeros(len(models), sum(self.sizes), dtype=self.dtype)

    def on_demand(self, x_ND: Tensor, active_N: Tensor | None = None) -> Callable[[slice], Tensor]:
        self.count += len(x_ND) if active_N is None else int(active_N.sum())
        return lambda rows: torch.zeros_like(x_ND[rows])


class StepCost(NamedTuple):
    """What one step of all agents asks for, on average."""

    gradients: float
    bytes_by_kind: dict[str, float]
    holds_gradients: bool  # of all agents at once
    asks_neighbours: bool


def count_step_cost(
    algorithm: Any, graph: AnyGraph, sizes: Sequence[int], dtype: torch.dtype, buffers: int, seed: int
) -> StepCost:
    """What a step demands of a model with parameter tensors of these sizes and so many numbers in buffers.

    Two rehearsals show how messages grow with the model: one more number for each, or one more bit.
    """
    if hasattr(algorithm, "aggregate"):
        algorithm = dataclasses.replace(algorithm, aggregate=Mean())  # nothing to solve
    D, tensors = sum(sizes), len(sizes)
    small = tensors + (D - tensors) % 8
    (bytes_small, work), (bytes_large, _) = (
        _steps(algorithm, graph, (*[1] * (tensors - 1), d - tensors + 1), dtype, buffers, seed)
        for d in (small, small + 8)
    )
    eights = (D - small) // 8
    by_kind = {kind: sent + eights * (bytes_large[kind] - sent) for kind, sent in bytes_small.items()}
    for codec in _codecs(algorithm):  # some do not grow evenly: what is as long as their messages is taken from them
        at_small, at_large, at_all = (_message_bytes(codec, d, sizes, dtype) for d in (small, small + 8, D))
        for kind, sent in bytes_small.items():
            if sent * at_large == bytes_large[kind] * at_small:
                by_kind[kind] = sent * at_all // at_small
    steps = _length(graph)
    each = {kind: sent / steps for kind, sent in by_kind.items()}
    return StepCost(work.count / steps, each, work.for_all, work.for_others)


def _codecs(part: Any) -> list[Any]:
    """The codecs among the fields of an algorithm, and among theirs."""
    if hasattr(part, "encode"):
        return [part]
    fields = dataclasses.fields(part) if dataclasses.is_dataclass(part) else ()
    return [codec for field in fields for codec in _codecs(getattr(part, field.name))]


def _message_bytes(codec: Any, d: int, sizes: Sequence[int], dtype: torch.dtype) -> int:
    """Bytes of one encoded message of d numbers, in as many tensors as the model has."""
    parts = codec.encode(torch.zeros(1, d, dtype=dtype), (*[1] * (len(sizes) - 1), d - len(sizes) + 1))
    return sum(part.nbytes for part in parts)


def _steps(
    algorithm: Any, graph: AnyGraph, sizes: tuple[int, ...], dtype: torch.dtype, buffers: int, seed: int
) -> tuple[dict[str, int], CountingGradient]:
    agents, work = graph.agents, CountingGradient(sizes, dtype)
    traffic = Traffic(graph.union(), kinds=kinds_of(algorithm))
    floats = Buffers(torch.zeros(agents, buffers, dtype=dtype), torch.zeros(agents, 0, dtype=torch.int64), ())
    context = NetworkContext(Shard.of(agents), graph.union(), traffic, floats, seed)
    state = algorithm.init(torch.zeros(agents, sum(sizes), dtype=dtype), AgentNetwork(graph.at(0), context, 0))
    for step in range(_length(graph)):
        state = algorithm.step(state, 0.1, work, AgentNetwork(graph.at(step), context, step))
    return traffic.by_kind(), work


def _length(graph: AnyGraph) -> int:
    return min(LONGEST, graph.period or LONGEST)
