"""A whole experiment: everything that decides a run's numbers, and how a run is made of it."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn

from crossgrad._forecast.memory import Forecast
from crossgrad._gradients.strategy import Gradients
from crossgrad._processes.group import Group, SingleProcess
from crossgrad._training.arguments import as_state
from crossgrad._training.callbacks import Callbacks
from crossgrad._training.divergence import DivergenceRule
from crossgrad._training.kept_models import EarlyStopping
from crossgrad._training.schedule import Exponential, Schedule
from crossgrad._training.settings import TrainingSettings
from crossgrad._training.start import hold_out, started_from
from crossgrad._training.trainer import Training
from crossgrad.algorithms import Algorithm, Gossip
from crossgrad.data import PartitionRule, Split, split
from crossgrad.data.join import joined
from crossgrad.experiments.agents_data import AgentsData
from crossgrad.experiments.choices import DataChoice, TrainingChoice
from crossgrad.experiments.expected import expect
from crossgrad.graphs import AnyGraph, GraphSpec
from crossgrad.graphs.faults import Faults
from crossgrad.graphs.links import Compute, Links
from crossgrad.guards import Attack, PrivacyGuard, RobustRule
from crossgrad.models.zoo import Model
from crossgrad.tasks import METRICS, Task, TaskSpec, as_metrics, infer_task


@dataclass(frozen=True)
class Experiment:
    """Everything that decides a run's numbers.

    Args:
        model: the neural network, by its recipe.
        graph: the communication graph, by its recipe.
        algorithm: the update rule.
        partition: how the training data is divided among the agents.
        name: becomes part of the name of the run's folder.
        seed: seed of all randomness: data partition, initial model, batches, graph, faults.
        agents: N, the number of agents.
        data: the data set, and how it is changed.
        schedule: the step size as a function of the epoch.
        training: length of the run, batch size, precision and other options of training.
        faults: absent agents, stragglers and lost messages to simulate.
        gossip: how models are averaged within a step: rounds, acceleration, compression.
        metrics: names of metrics to measure besides accuracy.
        robust: robust aggregation of the neighbours' models in place of the average.
        privacy: clips and adds noise to every gradient, with an account of what that promises.
        attack: simulated hostile agents, which send something else than their models.
        links: bandwidths and latencies to simulate; with them or `compute`, records have a simulated time.
        compute: how long gradients take on the simulated machines.
        callbacks: names of callbacks of plug-ins, called after every step and with every record.
        task: what is learnt; None: classification for whole-number labels, regression for floating-point ones.
    """

    model: Model
    graph: GraphSpec
    algorithm: Algorithm[Any]
    partition: PartitionRule
    name: str = "experiment"
    seed: int = 0
    agents: int = 10
    data: DataChoice = DataChoice()
    schedule: Schedule = Exponential()
    training: TrainingChoice = TrainingChoice()
    faults: Faults = Faults()
    gossip: Gossip = Gossip()
    metrics: tuple[str, ...] | None = None
    robust: RobustRule | None = None
    privacy: PrivacyGuard | None = None
    attack: Attack = Attack()
    links: Links | None = None
    compute: Compute | None = None
    callbacks: tuple[str, ...] | None = None
    task: TaskSpec | None = None  # None: as the labels say, classes or numbers

    @property
    def method(self) -> Any:
        """The algorithm, with its averages made as `gossip` says."""
        return self.gossip.around(self.algorithm)

    def task_for(self, labels: Any) -> Task:
        """What is learnt, from the labels of all training samples."""
        if self.task is None:
            return infer_task([labels])
        task = self.task.build(labels)
        task.check_labels(labels)
        return task

    def build_graph(self) -> AnyGraph:
        """The graph on this experiment's agents."""
        return self.graph.build(self.agents, self.seed)

    def settings(self) -> TrainingSettings:
        """The settings of the trainer."""
        t = self.training
        dtype = torch.float64 if t.dtype == "float64" else torch.float32
        return TrainingSettings(
            self.schedule,
            t.batch_size,
            t.steps,
            t.epochs,
            t.evaluate_every,
            t.evaluations,
            self.seed,
            dtype,
            t.device,
            t.deterministic,
            divergence=None if t.stop_if_diverged is False else DivergenceRule(),
            gradients=Gradients(t.gradients),
            weight_decay=t.weight_decay or 0.0,
            clip_norm=t.clip_norm,
            micro_batch=t.micro_batch,
            autocast=bool(t.autocast),
            early_stopping=None if t.patience is None else EarlyStopping(t.patience),
            robust=self.robust,
            personal=t.personal or (),
            frozen=t.frozen or (),
            privacy=self.privacy,
            settled=t.settled,
        )

    def start(
        self,
        data: Split | None = None,
        group: Group | None = None,
        admit: Callable[[Forecast], None] = lambda _: None,
    ) -> Training:
        """Make the run, ready for its first step.

        Args:
            data: training and test data; None: read it.
            group: the processes that share the run; None: this one alone.
            admit: called with the memory forecast before memory is allocated; it may wait or raise.
        """
        data, group = data or self.data.load(), group or SingleProcess()
        agents = self.deal(data)
        graph = self.build_graph()  # after the partition, whose sentence about too many agents says more
        shard = group.shard(self.agents)
        expected = expect(self, agents, data, graph, shard, group.processes)
        admit(expected.memory)
        training = Training(
            self._started(expected.module),
            agents.train[shard.rows],
            self.method,
            graph,
            self.settings(),
            data.test,
            agents.task,
            group,
            self.faults,
            validation=None if agents.validation is None else agents.validation[shard.rows],
            augment=self.data.augment,
            attack=self.attack,
            own_test=None if agents.own_test is None else agents.own_test[shard.rows],
            links=self.links,
            compute=self.compute,
            pooled_validation=agents.pooled_validation,
        )
        training.callbacks = Callbacks.named(self.callbacks or ())
        return training

    def deal(self, data: Split) -> AgentsData:
        """What each agent trains on, is validated by and is tested on.

        Raises:
            ValueError: the labels do not suit the task, or there are too few samples for the agents.
        """
        train, task = data.train, self.task_for(data.train.labels)
        agents = split(train, self.partition(task.kinds(train.labels), self.agents, self.seed, task.classes))
        kept, own_test = hold_out(agents, self.data.own_test, self.seed, "own_test")
        kept, validation = hold_out(kept, self.training.validation, self.seed)
        task = task.with_metrics(as_metrics(self.metrics or (), METRICS, task.metrics))
        return AgentsData(task, kept, validation, own_test, None if validation is None else joined(validation))

    def _started(self, module: nn.Module) -> nn.Module:
        """The model with the parameters of the file `training.start`, if there is one."""
        path = self.training.start
        if path is None:
            return module
        return started_from(module, as_state(path))
