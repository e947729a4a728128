"""The peak of a run's memory, predicted before it starts, item by item.

n: agents of this process, D: parameters.
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
from crossgrad._forecast.dry_steps import StepCost, count_step_cost
from crossgrad._gradients import batched
from crossgrad._gradients.strategy import Gradients
from crossgrad._network.shard import Shard
from crossgrad._training.evaluator import EVALUATED_PER_PASS
from crossgrad._training.settings import TrainingSettings
from crossgrad.data import Samples
from crossgrad.data.pool import input_numbers
from crossgrad.graphs import AnyGraph, Graph, trees_of
from crossgrad.models.personal import personal_names

FIRST_PASS_BYTES = 20 << 20  # libraries that are loaded by the first step, and their threads' own memory


@dataclass(frozen=True)
class Forecast:
    """The bytes that one process will need, by purpose."""

    items: dict[str, float]
    agents: int  # of this process
    parameters: int

    @property
    def total(self) -> float:
        """The peak."""
        return sum(self.items.values())

    def __str__(self) -> str:
        largest = max(self.items, key=lambda name: self.items[name])
        most = f"most of it ({bytes_in_words(self.items[largest])}) for {largest}"
        return f"memory: {bytes_in_words(self.total)} at most are expected, {most}."

    def check(self, available: float, processes: int = 1) -> None:
        """Raise ValueError if `processes` processes like this one do not fit into the available memory."""
        if self.total * processes <= available:
            return
        largest = max(self.items, key=lambda name: self.items[name])
        among = f" in each of {processes} processes" if processes > 1 else ""
        needed, most = bytes_in_words(self.total), bytes_in_words(self.items[largest])
        raise ValueError(
            f"{self.agents} agents, each with a model of {self.parameters:,} parameters, need {needed} of "
            f"memory{among}, most of it ({most}) for {largest}; this machine has {bytes_in_words(available)}. Use a "
            "smaller model, fewer agents or a sparser graph."
        )


class _Sizes:
    """A network that only knows numbers of neighbours and trees, which is all that an initial state needs."""

    def __init__(self, union: Graph) -> None:
        self.slots, self.trees = int(union.degrees.max(initial=0)), len(trees_of(union))


@dataclass(frozen=True, eq=False)
class Plan:
    """A run before its start: everything that decides how much memory one of its processes will need."""

    algorithm: Any
    graph: AnyGraph
    shard: Shard  # the agents of the process
    module: nn.Module  # on the device "meta" is enough
    settings: TrainingSettings
    agents: Sequence[Samples]  # of the process
    test: Samples | None = None
    held: int = 0  # bytes of data in memory now, of which the run will make its own
    away: int = 0  # the most agents of the process that are absent in a step; their rows are copied for that step

    @property
    def sizes(self) -> list[int]:
        """Numbers in each tensor of trainable parameters."""
        return [p.numel() for p in self.module.parameters() if p.requires_grad]

    def step_cost(self) -> StepCost:
        """Measure what a step of all agents takes."""
        settings = self.settings
        own = personal_names(self.module, settings.personal) if settings.personal else set()
        trainable = [(name, p) for name, p in self.module.named_parameters() if p.requires_grad]
        sizes = [p.numel() for name, p in trainable if name not in own]
        floating = [(name, part) for name, part in self.module.named_buffers() if part.is_floating_point()]
        buffers = sum(part.numel() for name, part in floating if name not in own)
        return count_step_cost(self.algorithm, self.graph, sizes, settings.dtype, buffers, settings.seed)


def forecast(plan: Plan, cost: StepCost, passes: Activations) -> Forecast:
    """Predict the peak of one process: its data, the state of its agents, and the busiest moment.

    Args:
        plan: the run.
        cost: of a step of all agents.
        passes: bytes of a pass through the model; zeros before the model is built.
    """
    settings, n, D = plan.settings, len(plan.shard), sum(plan.sizes)
    number = torch.empty(0, dtype=settings.dtype).element_size()
    batch = min(settings.batch_size, max(len(own) for own in plan.agents))
    inputs = batch * input_numbers(plan.agents[0]) * number
    share = n / plan.graph.agents
    work, at_once = cost.work_bytes * share, 1.0
    if share < 1 and cost.cross_at_once:  # a block of cross-gradients is not smaller where there are fewer agents
        work += cost.cross_at_once * D * number
    if _in_one_pass(plan.module, plan.agents[0], settings):
        at_once = max(cost.own_at_once * share, cost.cross_at_once)
        inputs_and_views = inputs + 3 * D * number
    else:
        inputs_and_views = 0
    step = {
        "the work space of a step": work,
        "activations of a pass": at_once * (passes.of_a_pass(batch) + inputs_and_views),
    }
    evaluation = passes.of_an_evaluation(min(EVALUATED_PER_PASS, len(plan.test or plan.agents[0]))) + 2 * D * number
    busiest = max(sum(step.values()), evaluation)
    state = _state(plan, D)
    items: dict[str, float] = {
        "Python, PyTorch and their libraries": max(0, _resident() - plan.held) + FIRST_PASS_BYTES,
        "data": _bytes_of_samples(*plan.agents, *([plan.test] if plan.test else [])),
        "the batches drawn last": n * inputs,
        "the module and where it starts": 2 * D * number,
        **state,
        "the last good models": n * D * number,
        "the state of absent agents": sum(state.values()) * plan.away / n,
    }
    items |= step if sum(step.values()) == busiest else {"activations of an evaluation": evaluation}
    if share < 1:
        items["messages"] = _bytes_of_messages(plan.graph.union(), plan.shard, D * number)
    if (more := plan.held - busiest) > 0:  # it is freed once the agents have their own copies
        items["the whole data set, while the run starts"] = more
    return Forecast({name: size for name, size in items.items() if size}, n, D)


def _bytes_of_samples(*parts: Samples) -> int:
    return sum(part.nbytes for part in parts)


def _in_one_pass(module: nn.Module, like: Samples, settings: TrainingSettings) -> bool:
    """Whether all gradients will be taken in one pass, unless the trial at the start fails."""
    if settings.deterministic or settings.gradients is Gradients.LOOP or next(module.buffers(), None) is not None:
        return False
    return settings.gradients is not Gradients.AUTO or batched.is_small(module, like.shape)


def _state(plan: Plan, D: int) -> dict[str, float]:
    """Bytes of each tensor of the algorithm's state, by its name: `init` is called on the device "meta"."""
    with torch.device("meta"):
        x = torch.empty(len(plan.shard), D, dtype=plan.settings.dtype)
        state = plan.algorithm.init(x, _Sizes(plan.graph.union()))
    return {f"the agents' {type(state).__name__}.{name}": float(part.nbytes) for name, part in state._asdict().items()}


def _bytes_of_messages(union: Graph, shard: Shard, row: int) -> float:
    """Bytes of models from and to other processes: each is received once, and sent from a copy."""
    receiver, sender, _ = union.edges
    received_here, sent_here = shard.holds(receiver), shard.holds(sender)
    remote = len(set(sender[received_here & ~sent_here].tolist()))
    senders = len(set(sender[sent_here & ~received_here].tolist()))
    return float((remote + senders) * row)


def machine_memory() -> float:
    """Bytes that this machine, or the container we are in, has; infinity where neither is known."""
    try:
        machine = float(os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE"))
    except (AttributeError, ValueError, OSError):  # Windows has no sysconf
        machine = float("inf")
    limit = Path("/sys/fs/cgroup/memory.max")
    text = limit.read_text().strip() if limit.is_file() else ""
    return min(machine, float(text)) if text.isdigit() else machine


def give_back() -> None:
    """Return unused memory to the system, which a process that keeps freed memory does not do by itself."""
    gc.collect()
    with suppress(AttributeError, OSError, TypeError):  # another C library than glibc, or Windows
        ctypes.CDLL(None).malloc_trim(0)


def _resident() -> int:
    """Bytes of memory that this process holds now, or what PyTorch alone takes where the system does not report it."""
    status = Path("/proc/self/statm")
    return int(status.read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE") if status.is_file() else 250 << 20


def bytes_in_words(size: float) -> str:
    """Return bytes as megabytes or gigabytes.

    >>> bytes_in_words(123_400_000), bytes_in_words(4_560_000_000), bytes_in_words(55_000_000_000)
    ('123.4 MB', '4.6 GB', '55 GB')
    """
    if size < 1e9:
        return f"{size / 1e6:.1f} MB"
    return f"{size / 1e9:,.0f} GB" if size >= 10e9 else f"{size / 1e9:.1f} GB"
