"""`crossgrad run --dry-run`: gradients, bytes and memory of a run, with nothing started and nothing written."""

import os
from pathlib import Path

from crossgrad._forecast.dry_steps import StepCost
from crossgrad._forecast.memory import Forecast, bytes_in_words, machine_memory
from crossgrad._network.shard import Shard
from crossgrad._training.settings import length_of
from crossgrad.experiments import files
from crossgrad.experiments.config import ConfigError
from crossgrad.experiments.expected import expect
from crossgrad.experiments.experiment import Experiment


def print_dry_run(path: Path, changes: list[str]) -> None:
    """Print what the experiment of a file needs; under torchrun, rank 0 prints."""
    rank, processes = (int(os.environ.get(name, default)) for name, default in (("RANK", "0"), ("WORLD_SIZE", "1")))
    if rank:
        return
    experiment = files.read(path, changes)
    try:
        lines = _forecast_lines(experiment, processes)
    except ValueError as error:
        raise ConfigError(f"{path}: {error}") from None
    for line in lines:
        print(line)


def _forecast_lines(experiment: Experiment, processes: int) -> list[str]:
    data, graph, agents = experiment.data.load(), experiment.build_graph(), experiment.agents
    dealt, module, expected = experiment.deal(data), None, []
    for rank in range(min(processes, agents)):
        shard = Shard.of(agents, rank, processes)
        expected.append(expect(experiment, dealt, data, graph, shard, processes, module))
        module = expected[0].module
    cost, needed, _ = max(expected, key=lambda one: one.memory.total)
    length = length_of(experiment.settings(), [len(own) for own in dealt.train], experiment.method)
    evaluations = 1 + -(-length.steps // length.evaluate_every)
    return [
        f"agents                  {agents:,}, with {graph.union().degrees.mean():.3g} neighbours each on average",
        f"parameters              {needed.parameters:,} per model",
        f"steps                   {length.steps:,}, or {length.steps * length.epochs_per_step:.3g} local epochs",
        f"gradients per step      {cost.gradients:,.0f}",
        *_messages_in_words(cost, agents),
        f"evaluations             {evaluations:,}, each of {agents + 1:,} models on {len(data.test):,} samples",
        *_memory(needed, processes),
        "Nothing was started and nothing was written.",
    ]


def _messages_in_words(cost: StepCost, agents: int) -> list[str]:
    kinds = {kind: sent / agents for kind, sent in sorted(cost.bytes_by_kind.items())}
    total = f"sent per agent and step {sum(kinds.values()):,.0f} bytes on average"
    return [total, *[f"  {kind:21} {sent:,.0f}" for kind, sent in kinds.items()]]


def _memory(needed: Forecast, processes: int) -> list[str]:
    of = "peak of memory" if processes == 1 else f"peak of memory of each of {processes} processes, at most"
    items = sorted(needed.items.items(), key=lambda item: -item[1])
    width = max(len(name) for name in needed.items)
    return [
        f"{of}: {bytes_in_words(needed.total)}; this machine has {bytes_in_words(machine_memory())}",
        *[f"  {name:{width}}  {bytes_in_words(size)}" for name, size in items],
    ]
