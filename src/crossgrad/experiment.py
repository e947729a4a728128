"""A whole experiment as a TOML file, and back."""

import dataclasses
import tomllib
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import tomli_w
import torch

from crossgrad import models
from crossgrad.algorithms import AGGREGATIONS, ALGORITHMS, Algorithm
from crossgrad.codec import CODECS
from crossgrad.config import ConfigError, Registry, choose, describe, fields_of
from crossgrad.data import DATASETS, PARTITIONS, PartitionRule, Split, load, split
from crossgrad.graphs import GRAPHS, Graph, GraphSequence, GraphSpec
from crossgrad.models import MODELS, Model
from crossgrad.schedule import SCHEDULES, Exponential, Schedule
from crossgrad.train import Settings, Training

LARGEST = 1 << 20  # bytes of an experiment file


@dataclass(frozen=True)
class DataChoice:
    """Which data set, and in which folder if not in the usual places."""

    name: str = "digits"
    root: str | None = None


@dataclass(frozen=True)
class TrainingChoice:
    """How long and how exactly to train."""

    batch_size: int = 32
    steps: int | None = None
    epochs: float | None = None  # of the local data
    evaluate_every: int | None = None  # steps
    dtype: Literal["float32", "float64"] = "float32"
    device: str = "cpu"
    threads: int | None = None  # of PyTorch; None: its own choice


@dataclass(frozen=True)
class Experiment:
    """Everything that decides a run's numbers."""

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

    def build_graph(self) -> Graph | GraphSequence:
        """The graph on this experiment's agents."""
        return self.graph.build(self.agents, self.seed)

    def settings(self) -> Settings:
        """What the trainer needs to know."""
        t = self.training
        dtype = torch.float64 if t.dtype == "float64" else torch.float32
        return Settings(self.schedule, t.batch_size, t.steps, t.epochs, t.evaluate_every, self.seed, dtype, t.device)

    def start(self, data: Split | None = None) -> Training:
        """The run, ready for its first step; `data` where it has been read already."""
        settings, graph = self.settings(), self.build_graph()
        data = data or load(self.data.name, self.data.root)
        train = data.train
        agents = split(train, self.partition(train.class_labels(), self.agents, self.seed, train.classes))
        assert train.classes is not None
        module = models.build(self.model, train.inputs.shape[1:], train.classes, self.seed)
        return Training(module, agents, self.algorithm, graph, settings, data.test)


CHOICES: dict[str, Registry] = {
    "model": MODELS,
    "graph": GRAPHS,
    "algorithm": ALGORITHMS,
    "partition": PARTITIONS,
    "schedule": SCHEDULES,
}
WITHIN: dict[str, Registry] = {"aggregate": AGGREGATIONS, "codec": CODECS, "own_codec": CODECS, "then": SCHEDULES}


def read(path: str | Path, overrides: list[str] | None = None) -> Experiment:
    """The experiment of a file, with `key=value` changes on top."""
    path = Path(path)
    try:
        if path.stat().st_size > LARGEST:
            raise ConfigError(f"{path}: an experiment is a short TOML file; this one has {path.stat().st_size} bytes.")
        text = path.read_bytes().decode()
    except FileNotFoundError:
        raise ConfigError(f"{path}: there is no such file. Ready experiments lie in examples/.") from None
    except IsADirectoryError:
        raise ConfigError(f"{path}: expected a TOML file; found a folder.") from None
    except UnicodeDecodeError:
        raise ConfigError(f"{path}: expected a TOML text file; found bytes that are no text.") from None
    except OSError as error:
        raise ConfigError(f"{path}: cannot be read: {error.strerror}.") from None
    try:
        return parse(text, overrides)
    except ConfigError as error:
        raise ConfigError(f"{path}: {error}") from None


def parse(text: str, overrides: list[str] | None = None) -> Experiment:
    """The experiment that a TOML text describes."""
    try:
        table = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise ConfigError(f"this is not valid TOML: {error}.") from None
    if not table:
        raise ConfigError("the experiment is empty. `crossgrad run --help` shows one; more lie in examples/.")
    for change in overrides or []:
        apply_change(table, change)
    for key in ("model", "graph", "algorithm", "partition"):
        if key not in table:
            raise ConfigError(f"{key} is missing. Valid are: {', '.join(sorted(CHOICES[key]))}.")
    return from_table(table)


def from_table(table: dict[str, Any]) -> Experiment:
    """The experiment that nested tables describe."""
    table = dict(table)
    data = table.pop("data", {})
    training = table.pop("training", {})
    values = fields_of(Experiment, table, "", CHOICES | WITHIN, "an experiment")
    values["data"] = _plain(DataChoice, {"name": data} if isinstance(data, str) else data, "data")
    values["training"] = _plain(TrainingChoice, training, "training")
    experiment = Experiment(**values)
    if experiment.data.name not in DATASETS:
        choose(dict.fromkeys(DATASETS, DataChoice), experiment.data.name, "data", {})
    if experiment.agents < 1:
        raise ConfigError(f"agents must be at least 1; found {experiment.agents}.")
    try:
        experiment.settings()
    except ValueError as error:
        raise ConfigError(f"training: {error}") from None
    return experiment


def _plain(kind: type, table: Any, key: str) -> Any:
    if not isinstance(table, dict):
        raise ConfigError(f"{key} must be a table; found {table!r}.")
    return kind(**fields_of(kind, table, key, {}, key))


def to_toml(experiment: Experiment) -> str:
    """The experiment with every field spelled out; `parse` reads it back."""
    return tomli_w.dumps(to_table(experiment))


def to_table(experiment: Experiment) -> dict[str, Any]:
    """The experiment as nested tables of plain values."""
    table: dict[str, Any] = {}
    for field in dataclasses.fields(experiment):
        table[field.name] = _value(field.name, getattr(experiment, field.name))
    return dict(sorted(table.items(), key=lambda item: isinstance(item[1], dict)))


def _value(name: str, value: Any) -> Any:
    if registry := (CHOICES | WITHIN).get(name):
        inner = {} if value is None else describe(value, registry)
    elif dataclasses.is_dataclass(value) and not isinstance(value, type):
        inner = {f.name: getattr(value, f.name) for f in dataclasses.fields(value)}
    else:
        return list(value) if isinstance(value, tuple) else value
    return {key: _value(key, part) for key, part in inner.items() if part is not None}


def apply_change(table: dict[str, Any], change: str) -> None:
    """Apply one `key=value`, such as algorithm.momentum=0.9."""
    path, equals, text = change.partition("=")
    if not equals or not path.strip():
        raise ConfigError(f"a change is written key=value, such as algorithm.momentum=0.9; found {change!r}.")
    try:
        value = tomllib.loads(f"v = {text}")["v"]
    except tomllib.TOMLDecodeError:
        value = text.strip()
    *outer, last = path.strip().split(".")
    for key in outer:
        inner = table.setdefault(key, {})
        if isinstance(inner, str):
            inner = table[key] = {"name": inner}
        if not isinstance(inner, dict):
            raise ConfigError(f"{change}: {key} is no table, so it has no {last!r}.")
        table = inner
    table[last] = value
