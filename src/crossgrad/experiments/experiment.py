"""A whole experiment as a TOML file, and back."""

import dataclasses
import math
import os
import tomllib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, NamedTuple

import tomli_w
import torch
from torch import nn

from crossgrad import models
from crossgrad._forecast.activations import Activations
from crossgrad._forecast.dry_steps import StepCost
from crossgrad._forecast.memory import Forecast, Plan, forecast, machine_memory
from crossgrad._gradients.strategy import Gradients
from crossgrad._network.shard import Shard
from crossgrad._processes.group import Group, SingleProcess
from crossgrad._training.divergence import DivergenceRule
from crossgrad._training.kept_models import EarlyStopping
from crossgrad._training.schedule import SCHEDULES, Exponential, Schedule
from crossgrad._training.settings import TrainingSettings
from crossgrad._training.start import hold_out
from crossgrad._training.trainer import Training
from crossgrad._training.validate import check_graph
from crossgrad.algorithms import AGGREGATIONS, ALGORITHMS, RULES, Algorithm, Gossip
from crossgrad.codecs import CODECS
from crossgrad.data import AUGMENTATIONS, DATASETS, PARTITIONS, Augment, PartitionRule, Samples, Split, load, split
from crossgrad.experiments.config import ConfigError, Registry, choose, describe, fields_of, load_toml, read_text
from crossgrad.graphs import GRAPHS, AnyGraph, GraphSpec
from crossgrad.graphs.faults import Faults, Scenario
from crossgrad.models.zoo import MODELS, Model
from crossgrad.tasks import METRICS, as_metrics, infer_task

MAX_THREADS = 1024
MAX_EPOCHS = 1e9
STEPS_FORESEEN = 100  # in which those away are counted, before a run
LENGTHS = ("steps", "epochs")  # of a run, of which an experiment says one


@dataclass(frozen=True)
class DataChoice:
    """Which data set, in which folder if not in the usual places, and how much smaller."""

    name: str = "digits"
    root: str | None = None
    shrink: int | None = None  # every square of so many by so many pixels becomes one, their mean
    augment: Augment | None = None  # a random transform of the images of every mini-batch
    own_test: float | None = None  # share of each agent's samples that it is tested on, and does not train on

    def load(self) -> Split:
        """The training and the test part."""
        return load(self.name, self.root, self.shrink)


@dataclass(frozen=True)
class TrainingChoice:
    """How long and how exactly to train."""

    batch_size: int = 32
    steps: int | None = None
    epochs: float | None = None  # of the local data
    evaluate_every: int | None = None  # steps; else so that there are as many as:
    evaluations: int = 20  # in all
    dtype: Literal["float32", "float64"] = "float32"
    device: str = "cpu"
    deterministic: bool = False  # the same bits in any number of processes, at the price of speed for small models
    threads: int | None = None  # of PyTorch; None: its own choice
    stop_if_diverged: bool | None = None  # None: yes; see DivergenceRule
    gradients: Literal["auto", "loop", "batched", "compiled"] = "auto"  # see settings.Gradients
    # As in TrainingSettings. None, not their defaults, so that files of before them have the same text.
    weight_decay: float | None = None
    clip_norm: float | None = None
    micro_batch: int | None = None  # samples
    autocast: bool | None = None
    validation: float | None = None  # share of each agent's samples that is held out; the best models on it are kept
    patience: int | None = None  # evaluations without a lower validation loss after which the run ends

    def __post_init__(self) -> None:
        if self.threads is not None and not 1 <= self.threads <= MAX_THREADS:
            raise ValueError(f"threads must be 1 to {MAX_THREADS}; found {self.threads}.")
        if self.patience is not None and self.validation is None:
            raise ValueError("patience needs a validation share, such as validation = 0.1.")
        if self.epochs is not None and self.epochs > MAX_EPOCHS:
            raise ValueError(f"epochs must be at most {MAX_EPOCHS:g}; found {self.epochs:g}.")


class Expected(NamedTuple):
    """What is known of a run before it starts."""

    cost: StepCost
    memory: Forecast  # of one process
    module: nn.Module


@dataclass(frozen=True)
class Experiment:
    """Everything that decides a run's numbers.

    Args:
        model: the network.
        graph: who exchanges with whom.
        algorithm: the update rule.
        partition: how the data is divided.
        name: of the run's folder.
        seed: of everything random.
        agents: N.
        data: which data set.
        schedule: of the step size.
        training: how long and how exactly to train.
        faults: what goes wrong.
        gossip: how the models of a step are averaged.
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
    metrics: tuple[str, ...] | None = None  # names of what is measured besides accuracy

    @property
    def method(self) -> Any:
        """The algorithm, with its averages made as `gossip` says."""
        return self.gossip.around(self.algorithm)

    def build_graph(self) -> AnyGraph:
        """The graph on this experiment's agents."""
        return self.graph.build(self.agents, self.seed)

    def settings(self) -> TrainingSettings:
        """What the trainer needs to know."""
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
        )

    def start(
        self,
        data: Split | None = None,
        group: Group | None = None,
        admit: Callable[[Forecast], None] = lambda _: None,
    ) -> Training:
        """The run, ready for its first step; `data` if it has been read already, `group` if processes share the run.

        `admit` is told what memory it will need before that is taken, and may wait or raise.
        """
        data = data or self.data.load()
        train, group = data.train, group or SingleProcess()
        task = infer_task([train.labels])
        agents = split(train, self.partition(task.kinds(train.labels), self.agents, self.seed, task.classes))
        graph = self.build_graph()  # after the partition, whose sentence about too many agents says more
        shard = group.shard(self.agents)
        kept, own_tests = hold_out(agents, self.data.own_test, self.seed, "own_test")
        kept, held_out = hold_out(kept, self.training.validation, self.seed)
        validation = None if held_out is None else held_out[shard.rows]
        task = task.with_metrics(as_metrics(self.metrics or (), METRICS))
        expected = self.expect(kept, data, graph, shard, group.processes)
        admit(expected.memory)
        module, own, settings = expected.module, kept[shard.rows], self.settings()
        return Training(
            module,
            own,
            self.method,
            graph,
            settings,
            data.test,
            task,
            group,
            self.faults,
            validation=validation,
            augment=self.data.augment,
            own_test=None if own_tests is None else own_tests[shard.rows],
        )

    def expect(self, parts: Sequence[Samples], data: Split, graph: AnyGraph, shard: Shard, processes: int) -> Expected:
        """Find out what a step takes and how much memory a process will need, and build the model.

        Raises:
            ValueError: the graph does not suit the algorithm, or the memory is not there.
        """
        check_graph(self.method, graph, self.agents)
        plan = self._plan(parts, data, graph, shard)
        cost, on_this_machine = plan.step_cost(), int(os.environ.get("LOCAL_WORLD_SIZE", processes))
        available = machine_memory() if self.training.device == "cpu" else math.inf
        forecast(plan, cost, Activations()).check(available, on_this_machine)  # before even one model is made
        train = data.train
        module = models.build(self.model, train.shape, infer_task([train.labels]).outputs, self.seed)
        memory = forecast(plan, cost, Activations.of(module, train.shape, plan.settings.dtype))
        memory.check(available, on_this_machine)
        return Expected(cost, memory, module)

    def _plan(self, parts: Sequence[Samples], data: Split, graph: AnyGraph, shard: Shard) -> Plan:
        settings, train = self.settings(), data.train
        task = infer_task([train.labels])
        try:
            with torch.device("meta"):  # sizes only
                module = self.model.build(train.shape, task.outputs).to(settings.dtype)
        except RuntimeError:
            raise ValueError(f"model: no machine can hold {self.model}. Use a smaller one.") from None
        present, steps = Scenario(self.faults, graph, self.seed).present, STEPS_FORESEEN if self.faults.any else 1
        return Plan(
            self.method,
            graph,
            shard,
            module,
            settings,
            agents=parts[shard.rows],
            test=data.test,
            held=sum(samples.nbytes for samples in (train, data.test, *parts)),
            away=max(int((~present(step)[shard.rows]).sum()) for step in range(steps)),
        )


CHOICES: dict[str, Registry] = {
    "model": MODELS,
    "graph": GRAPHS,
    "algorithm": ALGORITHMS,
    "partition": PARTITIONS,
    "schedule": SCHEDULES,
}
WITHIN: dict[str, Registry] = {
    "aggregate": AGGREGATIONS,
    "codec": CODECS,
    "own_codec": CODECS,
    "rule": RULES,
    "base": GRAPHS,
    "then": SCHEDULES,
    "augment": AUGMENTATIONS,
}


def read(path: str | Path, overrides: list[str] | None = None) -> Experiment:
    """The experiment of a file, with `key=value` changes on top.

    Args:
        path: the file.
        overrides: `key=value` changes, such as `algorithm.momentum=0.9`.
    """
    path = Path(path)
    text = read_text(path, "an experiment")
    try:
        return parse(text, overrides)
    except ConfigError as error:
        raise ConfigError(f"{path}: {error}") from None


def parse(text: str, overrides: list[str] | None = None) -> Experiment:
    """The experiment that a TOML text describes.

    Args:
        text: TOML.
        overrides: `key=value` changes, such as `algorithm.momentum=0.9`.
    """
    try:
        return from_table(_tables(text, overrides or []))
    except RecursionError:
        raise ConfigError("its tables or lists are nested too deeply.") from None
    except ConfigError:
        raise
    except ValueError as error:  # Python's, where a number has too many digits to be shared
        raise ConfigError(f"a value cannot be used: {error}.") from None


def _tables(text: str, changes: list[str]) -> dict[str, Any]:
    table = load_toml(text)
    if "axes" in table and "experiment" in table:
        raise ConfigError("an experiment is needed here; this is a grid of them. Run it with `crossgrad sweep`.")
    if not table:
        raise ConfigError("the experiment is empty. `crossgrad run --help` shows a short one.")
    for change in changes:
        apply_change(table, change)
    for key in ("model", "graph", "algorithm", "partition"):
        if key not in table:
            raise ConfigError(f"{key} is missing. Valid are: {', '.join(sorted(CHOICES[key]))}.")
    return table


def from_table(table: dict[str, Any]) -> Experiment:
    """The experiment that nested tables describe."""
    table = dict(table)
    data = table.pop("data", {})
    training = table.pop("training", {})
    faults = table.pop("faults", {})
    gossip = table.pop("gossip", {})
    values = fields_of(Experiment, table, "", CHOICES | WITHIN, "an experiment")
    values["data"] = _plain(DataChoice, {"name": data} if isinstance(data, str) else data, "data")
    values["training"] = _plain(TrainingChoice, training, "training")
    values["faults"] = _plain(Faults, faults, "faults")
    values["gossip"] = _plain(Gossip, gossip, "gossip")
    experiment = Experiment(**values)
    try:
        as_metrics(experiment.metrics or (), METRICS)
    except ValueError as error:
        raise ConfigError(str(error)) from None
    if experiment.data.name not in DATASETS:
        choose(dict.fromkeys(DATASETS, DataChoice), experiment.data.name, "data", {})
    for key, least in (("agents", 1), ("seed", 0)):
        if getattr(experiment, key) < least:
            raise ConfigError(f"{key} must be at least {least}; found {getattr(experiment, key)}.")
    try:
        experiment.settings()
    except ValueError as error:
        raise ConfigError(f"training: {error}") from None
    try:
        _ = experiment.method
    except ValueError as error:
        raise ConfigError(f"gossip: {error}") from None
    try:
        experiment.faults.check(experiment.agents)
    except ValueError as error:
        raise ConfigError(f"faults: {error}") from None
    return experiment


def _plain(kind: type, table: Any, key: str) -> Any:
    if not isinstance(table, dict):
        raise ConfigError(f"{key} must be a table; found {table!r}.")
    values = fields_of(kind, table, key, WITHIN, key)
    try:
        return kind(**values)
    except ValueError as error:
        raise ConfigError(f"{key}: {error}") from None


def to_toml(experiment: Experiment) -> str:
    """The experiment with every field spelled out; `parse` reads it back.

    Args:
        experiment: what to write.
    """
    return tomli_w.dumps(to_table(experiment))


def to_table(experiment: Experiment) -> dict[str, Any]:
    """The experiment as nested tables of plain values."""
    table: dict[str, Any] = {}
    for field in dataclasses.fields(experiment):
        if field.name == "gossip" and experiment.gossip == Gossip():
            continue  # as in files from before there was a choice
        if (value := getattr(experiment, field.name)) is not None:
            table[field.name] = _value(field.name, value)
    return dict(sorted(table.items(), key=lambda item: isinstance(item[1], dict)))


def _value(name: str, value: Any) -> Any:
    if registry := (CHOICES | WITHIN).get(name):
        inner = {} if value is None else describe(value, registry)
    elif dataclasses.is_dataclass(value) and not isinstance(value, type):
        inner = {f.name: getattr(value, f.name) for f in dataclasses.fields(value)}
    else:
        return [_value("", part) for part in value] if isinstance(value, tuple) else value
    return {key: _value(key, part) for key, part in inner.items() if part is not None}


def apply_change(table: dict[str, Any], change: str) -> None:
    """Apply one `key=value`, such as algorithm.momentum=0.9."""
    path, equals, text = change.partition("=")
    if not equals or not path.strip():
        raise ConfigError(f"a change is written key=value, such as algorithm.momentum=0.9; found {change!r}.")
    try:
        value = tomllib.loads(f"v = {text}")["v"]
    except (ValueError, RecursionError):
        value = text.strip()
    set_key(table, path.strip(), value)


def set_key(table: dict[str, Any], path: str, value: Any) -> None:
    """Set what a dotted key such as algorithm.momentum names; a choice by name alone becomes a table."""
    *outer, last = path.split(".")
    for key in outer:
        inner = table.setdefault(key, {})
        if isinstance(inner, str):
            inner = table[key] = {"name": inner}
        if not isinstance(inner, dict):
            raise ConfigError(f"{path}: {key} is no table, so it has no {last!r}.")
        table = inner
    table[last] = value
    if outer == ["training"] and last in LENGTHS:  # one of them decides how long a run is
        for other in set(LENGTHS) - {last}:
            table.pop(other, None)
