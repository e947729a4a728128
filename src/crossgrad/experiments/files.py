"""An experiment as TOML: read, changed by `key=value`, and written with every field spelled out."""

import dataclasses
import tomllib
from pathlib import Path
from typing import Any, get_args, get_type_hints

import tomli_w

from crossgrad._training.callbacks import Callbacks
from crossgrad._training.schedule import SCHEDULES, Schedule
from crossgrad.algorithms import AGGREGATIONS, ALGORITHMS, RULES, Aggregation, Algorithm, Gossip, OptimRule
from crossgrad.codecs import CODECS, Codec
from crossgrad.data import AUGMENTATIONS, DATASETS, PARTITIONS, Augment, DatasetInfo, PartitionRule
from crossgrad.experiments.choices import DataChoice, TrainingChoice
from crossgrad.experiments.config import Choices, ConfigError, choices_of, choose, fields_of, registered_name
from crossgrad.experiments.experiment import Experiment
from crossgrad.experiments.toml import TOO_DEEP, load_toml, read_file
from crossgrad.graphs import GRAPHS, GraphSpec
from crossgrad.graphs.faults import Faults
from crossgrad.graphs.links import Compute, Links
from crossgrad.guards import PRIVACY_GUARDS, ROBUST_RULES, Attack, PrivacyGuard, RobustRule
from crossgrad.models.zoo import MODELS, Model
from crossgrad.tasks import METRICS, TASKS, TaskSpec, as_metrics

# What the field of a dataclass, however it is called, is chosen from by name: its type decides.
CHOICES: dict[Any, Any] = {
    Model: MODELS,
    GraphSpec: GRAPHS,
    Algorithm: ALGORITHMS,
    PartitionRule: PARTITIONS,
    Schedule: SCHEDULES,
    TaskSpec: TASKS,
    Aggregation: AGGREGATIONS,
    Codec: CODECS,
    OptimRule: RULES,
    Augment: AUGMENTATIONS,
    RobustRule: ROBUST_RULES,
    PrivacyGuard: PRIVACY_GUARDS,
}
REQUIRED: dict[str, Choices] = {
    "model": MODELS,
    "graph": GRAPHS,
    "algorithm": ALGORITHMS,
    "partition": PARTITIONS,
}  # in every file


def read(path: str | Path, overrides: list[str] | None = None) -> Experiment:
    """The experiment of a file, with `key=value` changes on top.

    Args:
        path: a TOML file.
        overrides: `key=value` changes, such as `algorithm.momentum=0.9`.
    """
    return read_file(path, "an experiment", lambda text: parse(text, overrides))


def parse(text: str, overrides: list[str] | None = None) -> Experiment:
    """The experiment that a TOML text describes.

    Args:
        text: an experiment in TOML.
        overrides: `key=value` changes, such as `algorithm.momentum=0.9`.
    """
    try:
        return from_table(_changed_table(text, overrides or []))
    except RecursionError:
        raise ConfigError(TOO_DEEP) from None
    except ConfigError:
        raise
    except ValueError as error:
        if "integer string conversion" in str(error):  # Python's, where a number has too many digits to be shown
            raise ConfigError(f"a number must have digits that can be shown; {error}. Write a smaller one.") from None
        raise ConfigError(str(error)) from None


def _changed_table(text: str, changes: list[str]) -> dict[str, Any]:
    table = load_toml(text)
    if "axes" in table and "experiment" in table:
        raise ConfigError("expected one experiment; this is a grid of them. Run it with `crossgrad sweep`.")
    if not table:
        raise ConfigError("expected an experiment; the file is empty. `crossgrad run --help` shows a short one.")
    for change in changes:
        apply_change(table, change)
    for key, registry in REQUIRED.items():
        if key not in table:
            raise ConfigError(f"{key} must be given; it is missing. Valid are: {', '.join(sorted(registry))}.")
    return table


def from_table(table: dict[str, Any]) -> Experiment:
    """The experiment that nested tables describe."""
    table = dict(table)
    data = table.pop("data", {})
    training = table.pop("training", {})
    faults = table.pop("faults", {})
    gossip = table.pop("gossip", {})
    attack = table.pop("attack", {})
    table_of = {name: table.pop(name) for name in ("links", "compute") if name in table}
    values = fields_of(Experiment, table, "", CHOICES, "an experiment")
    values["data"] = _data_choice({"name": data} if isinstance(data, str) else data)
    values["training"] = _options_of(TrainingChoice, training, "training")
    values["faults"] = _options_of(Faults, faults, "faults")
    values["gossip"] = _options_of(Gossip, gossip, "gossip")
    for name, kind in (("links", Links), ("compute", Compute)):
        values |= {name: _options_of(kind, table_of[name], name)} if name in table_of else {}
    values["attack"] = _options_of(Attack, attack, "attack")
    experiment = Experiment(**values)
    try:
        as_metrics(experiment.metrics or (), METRICS)
        Callbacks.named(experiment.callbacks or ())
    except ValueError as error:
        raise ConfigError(str(error)) from None
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
    for name in ("faults", "attack", "links", "compute"):
        try:
            if (part := getattr(experiment, name)) is not None:
                part.check(experiment.agents)
        except ValueError as error:
            raise ConfigError(f"{name}: {error}") from None
    return experiment


def _options_of(kind: type, table: Any, key: str) -> Any:
    if not isinstance(table, dict):
        raise ConfigError(f"{key} must be a table; found {table!r}.")
    values = fields_of(kind, table, key, CHOICES, key)
    try:
        return kind(**values)
    except ValueError as error:
        raise ConfigError(f"{key}: {error}") from None


def _data_choice(table: Any) -> DataChoice:
    """The choice of a data set. Keys besides those of all data sets are options of a registered one."""
    if not isinstance(table, dict):
        raise ConfigError(f"data must be a table; found {table!r}.")
    name, shared = table.get("name", DataChoice.name), [f.name for f in dataclasses.fields(DataChoice)]
    if not isinstance(name, str) or name not in DATASETS or not isinstance(DATASETS[name], DatasetInfo):
        options = {key: value for key, value in table.items() if key not in shared}
        source = choose(DATASETS, {"name": name} | options, "data", {})
        choice: DataChoice = _options_of(
            DataChoice, {key: value for key, value in table.items() if key in shared}, "data"
        )
        return dataclasses.replace(choice, source=source)
    plain: DataChoice = _options_of(DataChoice, table, "data")
    return plain


def to_toml(experiment: Experiment) -> str:
    """The experiment with every field spelled out; `parse` reads it back.

    Args:
        experiment: the experiment to write.
    """
    return tomli_w.dumps(to_table(experiment))


def to_table(experiment: Experiment) -> dict[str, Any]:
    """The experiment as nested tables of plain values."""
    shown = {
        name: value
        for name, value in _fields(experiment).items()
        if getattr(experiment, name) not in (Gossip(), Attack())  # as in files from before there was a choice
    }
    return dict(sorted(shown.items(), key=lambda item: isinstance(item[1], dict)))


def _fields(thing: Any) -> dict[str, Any]:
    """The fields of a dataclass as plain values, without those that are None."""
    hints = get_type_hints(type(thing))
    values = {f.name: (getattr(thing, f.name), hints[f.name]) for f in dataclasses.fields(thing)}
    return {name: _plain_value(value, hint, name) for name, (value, hint) in values.items() if value is not None}


def _plain_value(value: Any, hint: Any, name: str) -> Any:
    if isinstance(value, tuple):
        return [_plain_value(part, type(part), name) for part in value]
    if isinstance(value, DataChoice):  # whose name is that of its source
        return _fields(dataclasses.replace(value, source=None)) | (
            {} if value.source is None else _fields(value.source)
        )
    if not dataclasses.is_dataclass(value) or isinstance(value, type):
        return value
    if (registry := choices_of(hint, CHOICES)) is not None:
        return {"name": registered_name(value, registry)} | _fields(value)
    if type(value) not in (hint, *get_args(hint)):
        raise ConfigError(
            f"the type of a field must say what it is chosen from; {name} is {value!r}. Annotate it by a type of "
            f"these: {', '.join(sorted(kind.__name__ for kind in CHOICES))}."
        )
    return _fields(value)


def apply_change(table: dict[str, Any], change: str) -> None:
    """Apply one `key=value`, such as algorithm.momentum=0.9."""
    path, equals, text = change.partition("=")
    if not equals or not path.strip():
        raise ConfigError(f"a change must be key=value, such as algorithm.momentum=0.9; found {change!r}.")
    try:
        value = tomllib.loads(f"v = {text}")["v"]
    except (ValueError, RecursionError):
        value = text.strip()
    set_key(table, path.strip(), value)


def set_key(table: dict[str, Any], path: str, value: Any) -> None:
    """Set a dotted key such as algorithm.momentum; where a choice is given by its name alone, it becomes a table."""
    *outer, last = path.split(".")
    for key in outer:
        inner = table.setdefault(key, {})
        if isinstance(inner, str):
            inner = table[key] = {"name": inner}
        if not isinstance(inner, dict):
            raise ConfigError(f"{path}: {key} must be a table to have {last!r}; it is none. Change {key} itself.")
        table = inner
    table[last] = value
    if outer == ["training"] and last in LENGTHS:  # one of them decides how long a run is
        for other in set(LENGTHS) - {last}:
            table.pop(other, None)


LENGTHS = ("steps", "epochs")  # of a run, of which an experiment says one
