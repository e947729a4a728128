"""The peak of a run's memory, predicted before it starts, item by item.

n: agents of this process, K: neighbours of an agent at most, D: parameters, R: agents of a block.
"""

import ctypes
import gc
import os
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import nn

from crossgrad._forecast.activations import Activations
from crossgrad._forecast.dry_steps import StepCost
from crossgrad._gradients import batched
from crossgrad._gradients.strategy import Gradients
from crossgrad._network import cross_gradients
from crossgrad._network.shard import Shard
from crossgrad._training.evaluator import SAMPLES_PER_PASS
from crossgrad._training.settings import TrainingSettings
from crossgrad.algorithms.aggregation import CHUNK
from crossgrad.data import Samples
from crossgrad.graphs import AnyGraph, Graph

ERROR_MEMORIES = "the error memories of compressed gradients, which cannot be streamed"
FIRST_PASS = 20 << 20  # libraries that are loaded by the first step, and their threads' own memory


@dataclass(frozen=True)
class Forecast:
    """Bytes that one process will need, by what they are for."""

    items: dict[str, float]
    agents: int  # of this process
    parameters: int

    @property
    def total(self) -> float:
        """The peak."""
        return sum(self.items.values())

    def __str__(self) -> str:
        memories = self.items.get(ERROR_MEMORIES)
        more = f", {in_words(memories)} of it for {ERROR_MEMORIES}" if memories else ""
        return f"memory: {in_words(self.total)} at most are expected{more}."

    def check(self, available: float, processes: int = 1) -> None:
        """Raise where so many processes like this one cannot fit into the memory available."""
        if self.total * processes <= available:
            return
        largest = max(self.items, key=lambda name: self.items[name])
        among = f" in each of {processes} processes" if processes > 1 else ""
        raise ValueError(
            f"{self.agents} agents, each with a model of {self.parameters:,} parameters, need {in_words(self.total)} "
            f"of memory{among}, most of it ({in_words(self.items[largest])}) for {largest}; this machine has "
            f"{in_words(available)}. Use a smaller model, fewer agents or a sparser graph."
        )


class _Sizes:
    """A network of which only the largest number of neighbours is known: all that an initial state needs."""

    def __init__(self, slots: int) -> None:
        self.slots = slots


def forecast(
    algorithm: Any,
    graph: AnyGraph,
    shard: Shard,
    module: nn.Module,
    settings: TrainingSettings,
    demand: StepCost,
    needs: Activations,
    agents: Sequence[Samples],
    test: Samples | None,
    held: int = 0,
    away: int = 0,
) -> Forecast:
    """The peak of one process; `module` on the device "meta" is enough.

    `held` is the data in memory now, of which the run will make its own; `away` are the agents at most that are away in
    a step, whose rows are kept meanwhile.
    """
    number = torch.empty(0, dtype=settings.dtype).element_size()
    n, D = len(shard), sum(p.numel() for p in module.parameters() if p.requires_grad)
    degrees = graph.union().degrees[shard.rows]
    K = int(degrees.max(initial=0))
    state = _state(algorithm, n, D, int(graph.union().degrees.max(initial=0)), settings.dtype)
    kept = sum(state.values()) * away / n
    memories = sum(state.pop(name, 0) for name in ("own_memory", "memory"))
    data = sum(own.inputs.nbytes + own.labels.nbytes for own in [*agents, *([test] if test else [])])
    buffered = next(module.buffers(), None) is not None
    step = dict.fromkeys(("gradients of all agents", "gradients of a block of agents", "activations of a pass"), 0.0)
    if demand.holds_gradients or (demand.asks_neighbours and (buffered or getattr(algorithm, "nesterov", False))):
        step["gradients of all agents"] = n * D * number
    together = _in_one_pass(module, agents[0], settings)
    batch = min(settings.batch_size, max(len(own) for own in agents))
    at_once = n if together else 1
    if demand.asks_neighbours:
        R = min(n, max(1, cross_gradients.BLOCK_BYTES // max(1, K * D * number)))
        copies = 2 if getattr(getattr(algorithm, "aggregate", None), "weighted", False) else 1
        exact = R * (K + 1) * min(D, CHUNK) * 8
        step["gradients of a block of agents"] = R * (copies * K + 2) * D * number + exact
        at_once = max(R, R * K) if together else 1
    inputs = batch * agents[0].inputs[0].numel() * number
    step["activations of a pass"] = at_once * (needs.of_a_pass(batch) + (inputs + 3 * D * number if together else 0))
    evaluation = needs.of_an_evaluation(min(SAMPLES_PER_PASS, len(test or agents[0]))) + 2 * D * number
    busiest = max(sum(step.values()), evaluation)
    items: dict[str, float] = {
        "Python, PyTorch and their libraries": max(0, _resident() - held) + FIRST_PASS,
        "data": data,
        "the batches drawn last": n * inputs,
        "the module and where it starts": 2 * D * number,
        "models, velocities and the like": sum(state.values()),
        ERROR_MEMORIES: memories,
        "the last good models": n * D * number,
        "the state of agents that are away": kept,
    }
    items |= step if sum(step.values()) == busiest else {"activations of an evaluation": evaluation}
    if len(shard) < graph.agents:
        items["messages"] = _messages(graph.union(), shard, D * number)
    if (more := held - busiest) > 0:  # it can go once the agents have their own
        items["the whole data set, while the run starts"] = more
    return Forecast({name: size for name, size in items.items() if size}, n, D)


def _in_one_pass(module: nn.Module, like: Samples, settings: TrainingSettings) -> bool:
    """Whether gradients will be taken all at once, unless a trial at the start speaks against it."""
    if settings.deterministic or settings.gradients is Gradients.LOOP or next(module.buffers(), None) is not None:
        return False
    return settings.gradients is not Gradients.AUTO or batched.is_small(module, like.shape)


def _state(algorithm: Any, n: int, D: int, slots: int, dtype: torch.dtype) -> dict[str, int]:
    """Bytes of each tensor of the state: those of models with one number, and what another number adds."""
    one, two = (algorithm.init(torch.zeros(n, size, dtype=dtype), _Sizes(slots)) for size in (1, 2))
    return {
        name: first.nbytes + (D - 1) * (second.nbytes - first.nbytes)
        for name, first, second in zip(one._fields, one, two, strict=True)
    }


def _messages(union: Graph, shard: Shard, row: int) -> float:
    """Models from and to other processes: each is received once, and sent from a copy."""
    receiver, sender, _ = union.edges
    received_here, sent_here = shard.holds(receiver), shard.holds(sender)
    remote = len(set(sender[received_here & ~sent_here].tolist()))
    senders = len(set(sender[sent_here & ~received_here].tolist()))
    return float((remote + senders) * row)


def machine_memory() -> float:
    """Bytes that this machine, or the container we are in, has; infinity where neither tells."""
    try:
        machine = float(os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE"))
    except (AttributeError, ValueError, OSError):  # Windows has no sysconf
        machine = float("inf")
    limit = Path("/sys/fs/cgroup/memory.max")
    text = limit.read_text().strip() if limit.is_file() else ""
    return min(machine, float(text)) if text.isdigit() else machine


def give_back() -> None:
    """Hand memory that nobody uses back to the system, which a tuned process does not do by itself."""
    gc.collect()
    with suppress(AttributeError, OSError, TypeError):  # another C library than glibc, or Windows
        ctypes.CDLL(None).malloc_trim(0)


def _resident() -> int:
    """Bytes of memory that this process holds now, or what PyTorch alone takes where the system does not tell."""
    status = Path("/proc/self/statm")
    return int(status.read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE") if status.is_file() else 250 << 20


def in_words(size: float) -> str:
    """In words.

    >>> in_words(123_400_000), in_words(4_560_000_000), in_words(55_000_000_000)
    ('123.4 MB', '4.6 GB', '55 GB')
    """
    if size < 1e9:
        return f"{size / 1e6:.1f} MB"
    return f"{size / 1e9:,.0f} GB" if size >= 10e9 else f"{size / 1e9:.1f} GB"
