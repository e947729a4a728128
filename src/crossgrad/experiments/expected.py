"""What is known about a run before it starts: the gradients and messages of a step, and the memory of a process."""

from __future__ import annotations

import math
import os
from typing import TYPE_CHECKING, NamedTuple

import torch
from torch import nn

from crossgrad import models
from crossgrad._forecast.activations import Activations
from crossgrad._forecast.dry_steps import StepCost
from crossgrad._forecast.memory import Forecast, Plan, forecast, machine_memory
from crossgrad._network.shard import Shard
from crossgrad._training.validate import check_graph
from crossgrad.data import Samples, Split
from crossgrad.experiments.agents_data import AgentsData
from crossgrad.graphs import AnyGraph
from crossgrad.graphs.faults import Scenario
from crossgrad.models.frozen import freeze_

if TYPE_CHECKING:
    from crossgrad.experiments.experiment import Experiment

STEPS_FORESEEN = 100  # for which absent agents are counted, before a run


class Expected(NamedTuple):
    """What is known about a run before it starts."""

    cost: StepCost
    memory: Forecast  # of one process
    module: nn.Module


def expect(
    experiment: Experiment,
    agents: AgentsData,
    data: Split,
    graph: AnyGraph,
    shard: Shard,
    processes: int,
    module: nn.Module | None = None,
) -> Expected:
    """Find out what a step takes and how much memory a process will need. Build the model unless it is given.

    Raises:
        ValueError: the graph does not suit the algorithm, or the memory does not suffice.
    """
    check_graph(experiment.method, graph, experiment.agents)
    plan = _plan(experiment, agents, data, graph, shard)
    cost, on_this_machine = plan.step_cost(), int(os.environ.get("LOCAL_WORLD_SIZE", processes))
    available = machine_memory() if experiment.training.device == "cpu" else math.inf
    forecast(plan, cost, Activations()).check(available, on_this_machine)  # before even one model is made
    train = data.train
    module = module or models.build(experiment.model, train.shape, agents.task.outputs, experiment.seed)
    freeze_(module, plan.settings.frozen)
    memory = forecast(plan, cost, Activations.of(module, train, plan.settings.dtype))
    memory.check(available, on_this_machine)
    return Expected(cost, memory, module)


def _plan(experiment: Experiment, agents: AgentsData, data: Split, graph: AnyGraph, shard: Shard) -> Plan:
    settings, train = experiment.settings(), data.train
    module = without_numbers(experiment, train, agents.task.outputs).to(settings.dtype)
    freeze_(module, settings.frozen)
    present = Scenario(experiment.faults, graph, experiment.seed).present
    steps = STEPS_FORESEEN if experiment.faults.any else 1
    return Plan(
        experiment.method,
        graph,
        shard,
        module,
        settings,
        agents=agents.train[shard.rows],
        test=data.test,
        held=sum(samples.nbytes for samples in (train, data.test, *agents.all_parts())),
        away=max(int((~present(step)[shard.rows]).sum()) for step in range(steps)),
    )


def without_numbers(experiment: Experiment, train: Samples, outputs: int) -> nn.Module:
    """The model on the device "meta", where tensors have a size only.

    Raises:
        ValueError: the model is too large for any machine.
    """
    shape = train.shape  # before the block: a sample may be read for it
    try:
        with torch.device("meta"):
            return experiment.model.build(shape, outputs)
    except RuntimeError as error:
        if "overflow" not in str(error):
            raise  # an error in a model of the user's own
        raise ValueError(
            f"model: a model must fit into memory; no machine can hold {experiment.model}. Use a smaller one."
        ) from None
