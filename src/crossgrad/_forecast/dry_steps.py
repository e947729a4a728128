"""A few steps of a run with small models and gradients of zeros: what it sends, computes and holds.

N: agents, K: neighbours of an agent at most, D: parameters of the true model, d: of the small one.
"""

import dataclasses
from collections.abc import Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor

from crossgrad._forecast.live_bytes import LiveBytes
from crossgrad._gradients.wrapper import GradientWrapper, Request
from crossgrad._network.context import NetworkContext
from crossgrad._network.network import AgentNetwork
from crossgrad._network.shard import Shard
from crossgrad._network.traffic import Traffic, kinds_of
from crossgrad._numerics.blocks import scaled_bounds
from crossgrad.algorithms.zero_gradient import ZeroGradient
from crossgrad.codecs.codec import Codec
from crossgrad.graphs import AnyGraph
from crossgrad.models.buffers import Buffers

MAX_STEPS = 8  # where the graph changes from step to step
MAX_PARAMETERS = 1024  # of the larger of the two small models
MAX_STATE_BYTES = 4 << 20  # of one number per parameter, agent and neighbour: what an algorithm may keep at most


class CountingGradient(GradientWrapper):
    """Counts requested gradients: all of them, and the most in one request, for own and for cross-gradients."""

    def __init__(self, gradient: ZeroGradient) -> None:
        super().__init__(gradient)
        self.count = self.own_at_once = self.cross_at_once = 0

    def select(self, x_ND: Tensor, active_N: Tensor | None) -> Tensor | None:
        self.count += len(x_ND) if active_N is None else int(active_N.sum())
        return active_N

    def change(self, g_MD: Tensor, request: Request) -> Tensor:
        if request.own:
            self.own_at_once = max(self.own_at_once, len(g_MD))
        else:
            self.count += len(g_MD)
            self.cross_at_once = max(self.cross_at_once, len(g_MD))
        return g_MD


class StepCost(NamedTuple):
    """What one step of all agents takes, on average over the steps of a graph that changes."""

    gradients: float
    bytes_by_kind: dict[str, float]  # sent
    work_bytes: float  # held at most by one step besides the state, gradients included and passes not
    own_at_once: int  # gradients of agents at their own models, in one request
    cross_at_once: int  # at other models


def count_step_cost(
    algorithm: Any,
    graph: AnyGraph,
    sizes: Sequence[int],
    dtype: torch.dtype,
    buffers: int = 0,
    seed: int = 0,
) -> StepCost:
    """Measure what a step takes by steps with two small models, and extrapolate to the true model's size.

    Args:
        algorithm: the update rule.
        graph: the agents' graph.
        sizes: numbers in each parameter tensor of the true model.
        dtype: of the parameters.
        buffers: numbers in the floating buffers of one model.
        seed: of the run.
    """
    D, tensors, agents = sum(sizes), len(sizes), graph.agents
    slots = int(graph.union().degrees.max(initial=0)) + 1
    least = tensors + (D - tensors) % 8  # messages of one bit per number grow by a byte for every eight numbers
    number = torch.empty(0, dtype=dtype).element_size()
    large = min(D, MAX_PARAMETERS, MAX_STATE_BYTES // (agents * slots * number))
    large = least + max(8, (large - least) // 8 * 8)
    small = least + (large - least) // 16 * 8  # half: in a smaller one, another tensor could be largest
    _, low, high = (
        _measure_step(algorithm, graph, (*[1] * (tensors - 1), d - tensors + 1), dtype, buffers, seed, scale)
        for d, scale in (
            (least + 8, 1.0),  # the first run makes what later ones keep, such as the graph's weights in this dtype
            (small, small / D),
            (large, large / D),
        )
    )
    share = (D - small) / (large - small)
    steps = _length(graph)
    by_kind = {kind: sent + share * (high.sent[kind] - sent) for kind, sent in low.sent.items()}
    for codec in _codecs(algorithm):  # messages of some do not grow in proportion
        at_small, at_large, at_all = (_message_bytes(codec, d, sizes, dtype) for d in (small, large, D))
        for kind, sent in low.sent.items():
            if sent * at_large == high.sent[kind] * at_small:
                by_kind[kind] = sent * at_all // at_small
    each = {kind: sent / steps for kind, sent in by_kind.items()}
    work = max(0.0, low.work_bytes + share * (high.work_bytes - low.work_bytes))
    counting = high.counting
    return StepCost(counting.count / steps, each, work, counting.own_at_once, counting.cross_at_once)


def _codecs(part: Any) -> list[Codec]:
    """The codecs among the fields of an algorithm, and among the fields of these."""
    if isinstance(part, Codec):
        return [part]
    fields = dataclasses.fields(part) if dataclasses.is_dataclass(part) else ()
    return [codec for field in fields for codec in _codecs(getattr(part, field.name))]


def _message_bytes(codec: Codec, d: int, sizes: Sequence[int], dtype: torch.dtype) -> int:
    """Bytes of one encoded message of d numbers, in as many tensors as the model has."""
    parts = codec.encode(torch.zeros(1, d, dtype=dtype), (*[1] * (len(sizes) - 1), d - len(sizes) + 1))
    return sum(part.nbytes for part in parts)


class _Measured(NamedTuple):
    sent: dict[str, int]  # bytes of each kind of message
    work_bytes: int
    counting: CountingGradient


def _measure_step(
    algorithm: Any,
    graph: AnyGraph,
    sizes: tuple[int, ...],
    dtype: torch.dtype,
    buffers: int,
    seed: int,
    scale: float,
) -> _Measured:
    agents, traffic = graph.agents, Traffic(graph.union(), kinds=kinds_of(algorithm))
    floats = Buffers(torch.zeros(agents, buffers, dtype=dtype), torch.zeros(agents, 0, dtype=torch.int64), ())
    context = NetworkContext(Shard.of(agents), graph.union(), traffic, floats, seed)
    state = algorithm.init(torch.zeros(agents, sum(sizes), dtype=dtype), AgentNetwork(graph.at(0), context, 0))
    counting, peak = CountingGradient(ZeroGradient(sizes, dtype, at_once=buffers > 0)), 0
    with scaled_bounds(scale):
        for step in range(_length(graph)):
            with LiveBytes() as live:
                state = algorithm.step(state, 0.1, counting, AgentNetwork(graph.at(step), context, step))
            peak = max(peak, live.peak)
    return _Measured(traffic.by_kind(), peak, counting)


def _length(graph: AnyGraph) -> int:
    return min(MAX_STEPS, graph.period or MAX_STEPS)
