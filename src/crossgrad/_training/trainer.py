"""One run: the agents, their network and an algorithm, step by step."""

import math
import time
import warnings
from collections.abc import Iterator, Sequence
from typing import Any, ClassVar

import torch
from torch import nn

from crossgrad._gradients.batched import MIN_BATCHED_AGENTS
from crossgrad._gradients.compiled import Compiled
from crossgrad._gradients.finite import FiniteGradient
from crossgrad._gradients.oracle import Oracle
from crossgrad._gradients.private import PrivateOracle
from crossgrad._gradients.regularised import NonzeroGradients
from crossgrad._gradients.strategy import Gradients
from crossgrad._network.clock import Clock
from crossgrad._network.context import NetworkContext
from crossgrad._network.network import AgentNetwork
from crossgrad._network.traffic import Traffic, kinds_of
from crossgrad._processes.group import Group, SingleProcess
from crossgrad._storage.stateful import StateDict
from crossgrad._training.absent import masked_step
from crossgrad._training.callbacks import Callbacks
from crossgrad._training.divergence import DivergenceJudge
from crossgrad._training.evaluated import Evaluated
from crossgrad._training.evaluator import Evaluator
from crossgrad._training.kept_models import EarlyStopping, KeptModels, ValidationJudge
from crossgrad._training.modules import copied
from crossgrad._training.quantities import quantities_of
from crossgrad._training.settings import TrainingSettings, length_of
from crossgrad._training.settling import SettledJudge
from crossgrad._training.start import inferred_task
from crossgrad._training.timed import TimedGradient
from crossgrad._training.validate import (
    check_augment,
    check_data,
    check_faults,
    check_graph,
    check_metrics,
    check_model,
    check_robust,
    check_streams,
)
from crossgrad.algorithms.api import Algorithm, rounds_of
from crossgrad.algorithms.personal import with_personal
from crossgrad.data import Augment, Batches, Pool, Samples
from crossgrad.data.nested import Placement
from crossgrad.graphs import AnyGraph
from crossgrad.graphs.faults import Faults, Scenario
from crossgrad.graphs.links import Compute, Links
from crossgrad.guards import Attack
from crossgrad.models.buffers import Buffers
from crossgrad.models.channels_last import channels_last_pays
from crossgrad.models.flat import FlatModel
from crossgrad.models.frozen import freeze_
from crossgrad.records.record import Record
from crossgrad.tasks import Task

PROBE_SAMPLES = 2000  # of all agents' training data, on which the averaged model's loss is taken


class Training(Evaluated):
    """A run in progress. Iterating over it trains, and yields a Record at every evaluation.

    Nothing but models, buffers, gradients and push-sum weights ever passes between agents.

    Args:
        model: the module; it is copied.
        agents: each agent's own training samples; of several processes, those of this process's agents.
        algorithm: the update rule.
        graph: who receives from whom.
        settings: length, step size, batches and numerical options.
        test: common test data, on which all models are measured; None: no test metrics.
        task: what is learnt; None: inferred from the labels.
        group: the processes of the run; None: this one alone.
        faults: agents that leave and messages that are lost; None: none.
        validation: each agent's validation samples; the models that do best on them are kept.
        pooled_validation: all agents' validation samples together, on which records have accuracies of their own.
        augment: a random transform of every training batch.
        own_test: each agent's own test samples.
        attack: agents that send something else than their models.
        links: latency and bandwidth of the links, for simulated time.
        compute: how long gradients take, for simulated time.

    Raises:
        ValueError: graph, data, model and algorithm do not fit together.
    """

    constants: ClassVar[tuple[str, ...]] = (
        *("group", "scenario", "algorithm", "graph", "settings", "sizes", "agents", "test", "validation", "probes"),
        *("pooled_validation", "callbacks"),
        *("own_test", "task", "quantities", "model", "evaluator", "epochs_per_step", "total_steps", "evaluate_every"),
    )

    def __init__(
        self,
        model: nn.Module,
        agents: Sequence[Samples],
        algorithm: Algorithm[Any],
        graph: AnyGraph,
        settings: TrainingSettings,
        test: Samples | None = None,
        task: Task | None = None,
        group: Group | None = None,
        faults: Faults | None = None,
        validation: Sequence[Samples] | None = None,
        augment: Augment | None = None,
        own_test: Sequence[Samples] | None = None,
        attack: Attack | None = None,
        links: Links | None = None,
        compute: Compute | None = None,
        pooled_validation: Samples | None = None,
    ) -> None:
        self.group = group or SingleProcess()
        shard = self.group.shard(graph.agents)
        check_graph(algorithm, graph, graph.agents - len(shard) + len(agents))
        self.scenario = Scenario(faults or Faults(), graph, settings.seed)
        check_faults(algorithm, graph, self.scenario.faults)
        device = settings.place()
        self.graph, self.settings = graph, settings
        module = copied(model).to(device=device, dtype=settings.dtype)
        freeze_(module, settings.frozen)
        example, _ = agents[0].piece(0, min(2, len(agents[0])))
        nhwc = channels_last_pays(module, Placement(device, settings.dtype)(example), settings.batch_size)
        known = self.group.survey(torch.tensor([[len(own), nhwc] for own in agents]).double())
        self.sizes, nhwc = [int(n) for n in known[:, 0]], bool(known[:, 1].all())  # all processes or none
        self.task = task or inferred_task(agents, self.group)
        check_streams(agents, settings.batch_size)
        check_data(self.task, agents, shard.first, test, own_test)
        check_metrics(self.task, settings.settled is not None)
        self.quantities = quantities_of(self.task.metrics, algorithm, own_data=own_test is not None)
        pool = Pool.of(agents, device, settings.dtype, nhwc, augment)
        self.agents = pool.agents
        place = Placement(device, settings.dtype, nhwc)
        self.test = None if test is None else test.placed(place)
        self.own_test = None if own_test is None else [own.placed(place) for own in own_test]
        self.model = FlatModel(module, nhwc, settings.personal)
        if augment is not None:
            check_augment(augment, self.agents[0])
        check_model(self.model, self.task, self.agents)
        self.buffers = Buffers.of(self.model.module, len(agents), settings.personal)
        traffic = Traffic(graph.union(), shard, kinds_of(algorithm))
        attack = attack or Attack()
        attack.check(graph.agents)
        check_robust(algorithm, settings.robust)
        self.algorithm = algorithm = with_personal(algorithm, self.model.shared, sum(self.model.sizes))
        self.context = NetworkContext(
            shard, graph.union(), traffic, self.buffers, settings.seed, settings.robust, attack
        )
        if links is not None or compute is not None:
            self.clock = Clock(links or Links(), compute or Compute(), graph.union(), shard, settings.seed)
            self.context.clock = self.clock
        batches = Batches(self.sizes, settings.batch_size, settings.seed)
        few = settings.gradients is Gradients.AUTO and graph.agents < MIN_BATCHED_AGENTS
        gradients = Gradients.LOOP if settings.one_by_one or few else settings.gradients
        parts = (self.model, self.task, pool, batches, self.buffers, shard.first, gradients)
        if settings.privacy is None:
            self.oracle = Oracle(*parts)
            self.oracle.micro_batch, self.oracle.autocast = settings.micro_batch, settings.autocast
        else:
            self.oracle = PrivateOracle(settings.privacy, settings.seed, *parts)
        self.evaluator = Evaluator(self.model, self.task, self.buffers, settings.autocast)
        share = max(1, PROBE_SAMPLES // graph.agents)
        self.probes = [own.take(range(min(share, own.at_once(graph.agents)))).loaded() for own in self.agents]
        self.epochs_per_step, self.total_steps, self.evaluate_every = length_of(settings, self.sizes, algorithm)
        self.callbacks = Callbacks()
        self.step_number = 0
        self.seconds = 0.0
        self.state = algorithm.init(self.model.start.repeat(len(agents), 1), self._network())
        self.first_bad = torch.full((len(agents),), math.inf, dtype=torch.float64)  # as in Evaluated
        self.judge = DivergenceJudge(settings.divergence)
        if settings.settled is not None:
            if test is None:
                raise ValueError("settled_points needs test data; found none. Pass test=, or leave it out.")
            self.settled_judge = SettledJudge(settings.settled)
        self.good = KeptModels(self.state.x, self.buffers)
        if (settings.early_stopping is not None) and validation is None:
            raise ValueError("early stopping needs validation data; found none. Pass validation=, or leave it out.")
        self.validation = None
        if validation is not None:
            placed = {id(own): own.placed(Placement(device, settings.dtype, nhwc)) for own in validation}
            self.validation = [placed[id(own)] for own in validation]
            self.validation_judge = ValidationJudge(settings.early_stopping or EarlyStopping(patience=1 << 62))
        measured = pooled_validation is not None and any(one.name == "accuracy" for one in self.task.metrics)
        self.pooled_validation = pooled_validation.placed(place) if measured and pooled_validation else None

    def __iter__(self) -> Iterator[Record]:
        """Train to the end, or until the run diverges."""
        yield self.evaluate()
        while not self.finished:
            self.step()
            if self.due:
                yield self.evaluate()

    @property
    def traffic(self) -> Traffic:
        """The bytes sent so far by the agents of this process."""
        return self.context.traffic

    @property
    def passes(self) -> str:
        """How gradients are computed, in a sentence."""
        how = {type(None): "one by one", Compiled: "all in one pass, compiled"}
        layout = ", with channels last in memory" if self.model.channels_last else ""
        return f"gradients: {how.get(type(self.oracle.batched), 'all in one pass')}{layout}."

    def step(self) -> None:
        """All agents take one step."""
        began = time.perf_counter()
        clock, present = self.context.clock, self.scenario.present(self.step_number)[self.context.shard.rows]
        finite = FiniteGradient(self.oracle if clock is None else TimedGradient(self.oracle, clock))
        first = NonzeroGradients(finite) if self.step_number == 0 else None
        gradient = self.settings.wrap(first or finite)
        present_n = torch.from_numpy(present)
        if clock is not None:
            clock.begin(self.step_number, present_n)
        net = self._network()
        with self.group.watched(self.step_number):
            self.state = masked_step(self.algorithm, self.state, self.lr, gradient, net, self.buffers, present_n)
        self.step_number += 1
        self.seconds += time.perf_counter() - began
        bad = ~self.oracle.losses.isfinite() & (self.oracle.drawn > 0)
        bad[list(finite.bad)] = True
        self.first_bad[bad & self.first_bad.isinf()] = self.step_number
        drew = bool((self.oracle.drawn > 0).any())  # in a first step, agents may all be absent
        if first is not None and first.requested and drew and not first.nonzero and not bool(bad.any()):
            warnings.warn(
                "all gradients of the first step are exactly zero, so nothing was learnt. The loss must depend on the "
                "model's parameters: look for .detach(), torch.no_grad() or a constant loss.",
                stacklevel=2,
            )

    @property
    def rounds_per_step(self) -> int:
        """The communication rounds of a step."""
        return rounds_of(self.algorithm, self._network())

    def _network(self) -> AgentNetwork:
        return self.group.network(self.scenario.at(self.step_number), self.context, self.step_number)

    def state_dict(self) -> StateDict:
        """Return the whole state of the run: with it and the arguments of `__init__`, it goes on with the same bits.

        Batches, random pairs and random layers are functions of seed and step, so they have no state. Models that
        are both the present and the last good ones occur as the same tensors, so that a file can hold them once.
        """
        state = super().state_dict()
        if self.good.step == self.step_number:
            floats, integers = self.buffers.floats_NF, self.buffers.integers_NI
            state["good"] |= {"x": self.state.x, "floats": floats, "integers": integers}
        return state
