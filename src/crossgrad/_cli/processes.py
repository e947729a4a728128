"""`--processes`: start the processes of a run from one command."""

import os
import sys
from collections.abc import Sequence

import torch

from crossgrad._cli.options import RunOptions
from crossgrad._cli.workers import cores
from crossgrad._gradients.batched import is_small
from crossgrad._network.shard import Shard
from crossgrad._processes.launcher import launch
from crossgrad.experiments.config import ConfigError
from crossgrad.experiments.expected import expect, without_numbers
from crossgrad.experiments.experiment import Experiment


def run_in_processes(experiment: Experiment, options: RunOptions, name: str) -> None:
    """Run this same command in as many processes as `--processes` says; end with their status.

    Args:
        experiment: what is to be run.
        options: of the command.
        name: of the experiment's file or folder, for error messages.

    Raises:
        ValueError: the number is not one, or there are too many processes for the agents.
    """
    if "RANK" in os.environ:
        raise ValueError("--processes starts processes of its own; torchrun has done so already. Leave out one.")
    wanted = options.processes or ""
    if wanted == "auto":
        try:
            count, why = choose_processes(experiment, cores())
        except ValueError as error:
            raise ConfigError(f"{name}: {error}") from None
        if not (options.quiet or options.json):
            print(f"{count} {'process' if count == 1 else 'processes'}: {why}.", flush=True)
    else:
        count = _number_of_processes(wanted, experiment.agents)
    ended = launch(count, ["-m", "crossgrad", *without_processes(sys.argv[1:])])
    if ended.killed:
        ranks = ", ".join(f"rank {rank} by signal {number}" for rank, number in ended.killed.items())
        again = f" `crossgrad resume {ended.folder} --processes {count}` goes on." if ended.folder else ""
        print(f"crossgrad: processes were ended from outside: {ranks}; is there enough memory?{again}", file=sys.stderr)
    if ended.status:
        sys.exit(ended.status)


def _number_of_processes(wanted: str, agents: int) -> int:
    if not wanted.isdecimal() or not 1 <= int(wanted) <= agents:
        raise ValueError(
            f"--processes must be auto, or a number from 1 to that of the agents, {agents}, as each process holds at "
            f"least one; found {wanted}."
        )
    return int(wanted)


def choose_processes(experiment: Experiment, cores: int) -> tuple[int, str]:
    """How many processes suit an experiment, and why, in half a sentence.

    One where all agents' gradients of a small model are taken in one pass; otherwise one for each core, as far as
    there are agents and memory. On GPUs, one for each GPU.

    Args:
        experiment: what is to be run.
        cores: that this machine has for it.
    """
    agents, device = experiment.agents, experiment.training.device
    if device != "cpu":
        gpus = max(1, torch.cuda.device_count()) if device == "cuda" else 1
        return min(gpus, agents), f"{agents} agents, {gpus} GPUs"
    data = experiment.data.load()
    train = data.train
    dealt = experiment.deal(data)
    module = without_numbers(experiment, train, dealt.task.outputs)
    size = f"the model has {sum(p.numel() for p in module.parameters() if p.requires_grad):,} parameters"
    if is_small(module, (1, *train.shape) if isinstance(train.shape, tuple) else train.shape):
        return 1, f"{size}, so that messages between processes would cost more than they save"
    graph, most = experiment.build_graph(), min(cores, agents)
    for count in range(most, 1, -1):
        try:
            expect(experiment, dealt, data, graph, Shard.of(agents, 0, count), count)
        except ValueError:  # the memory is not there; one process says so if that is the reason
            continue
        short = "" if count == most else ", and there is no memory for more"
        return count, f"{size}, and there are {agents} agents and {cores} cores{short}"
    return 1, f"{size}, and there are {agents} agents and {cores} cores"


def without_processes(arguments: Sequence[str]) -> list[str]:
    """The arguments of a command without `--processes`.

    >>> without_processes(["run", "--processes", "2", "a.toml", "--processes=3", "-p", "4", "-q"])
    ['run', 'a.toml', '-q']
    """
    kept: list[str] = []
    waiting = iter(arguments)
    for argument in waiting:
        if argument in ("--processes", "-p"):
            next(waiting, None)  # its value
        elif not argument.startswith("--processes=") and not (argument.startswith("-p") and argument[2:].isalnum()):
            kept.append(argument)
    return kept
