"""A federation from the text of its file."""

import re
from dataclasses import fields
from pathlib import Path
from typing import Any, TypeVar

from crossgrad._training.validate import algorithm_name, check_faults
from crossgrad.experiments import files
from crossgrad.experiments.config import ConfigError, convert, fields_of, nearest
from crossgrad.experiments.experiment import Experiment
from crossgrad.experiments.toml import load_toml, read_text
from crossgrad.federation.file import MAX_SHOWN, Federation, SiteEntry, Timing
from crossgrad.graphs import Graph
from crossgrad.graphs.faults import Faults

KEYS = ("name", "version", "classes", "experiment", "sites", "timing")
EXPERIMENT_KEYS = ("model", "graph", "algorithm", "partition")  # that must be there
FEDERATION_NAME = re.compile(r"\w[\w .-]{0,63}", re.ASCII)  # it is part of the names of folders
SIMULATED = ("faults", "attack", "links", "compute")  # keys of an experiment that only a simulation has
NOT_OF_DATA = ("own_test",)  # sites are tested on the common test data, or on what they hold out of their own
NOT_OF_TRAINING = ("start", "validation", "patience", "settled_points")
MAX_SITES = 1000
MAX_CLASSES = 1_000_000
MAX_VERSION = 999_999_999
Part = TypeVar("Part", SiteEntry, Timing)


def read_federation(path: Path) -> Federation:
    """The federation of a file."""
    text = read_text(path, "a federation")
    try:
        return parse_federation(text)
    except ValueError as error:
        raise ConfigError(f"{path}: {error}") from None


def parse_federation(text: str) -> Federation:
    """The federation that a TOML text describes."""
    table = load_toml(text)
    if wrong := sorted(table.keys() - set(KEYS)):
        raise ConfigError(f"a federation has no key {wrong[0]!r}. {nearest(wrong[0], KEYS)}")
    sites = _sites(table.get("sites"))
    name = convert(str, table.get("name", "federation"), "name")
    if not FEDERATION_NAME.fullmatch(name):
        raise ConfigError(
            "name must be of at most 64 letters, digits, spaces, dots and hyphens, and begin with a letter or digit, "
            "as "
            f"folders are named after it; found {_short(name)}."
        )
    version = _whole(table.get("version", 1), "version", MAX_VERSION)
    classes = None if "classes" not in table else _whole(table["classes"], "classes", MAX_CLASSES)
    experiment = _experiment(table.get("experiment"), len(sites))
    timing = _entry(Timing, table.get("timing", {}), "timing")
    graph = experiment.build_graph()
    if not isinstance(graph, Graph) or not graph.undirected:
        raise ConfigError(
            "experiment.graph must be undirected and fixed, as sites talk both ways, with the same weights, in every "
            f"step; {graph.name!r} is not. Use one such as a ring."
        )
    try:
        check_faults(experiment.method, graph, Faults(drop=0.5))
    except ValueError:
        raise ConfigError(
            "experiment.algorithm must not keep what neighbours sent, as between sites any message may be lost; "
            f"{algorithm_name(experiment.algorithm)} does, by itself or by its gossip's codec or tree. Use one such "
            "as EDM "
            "or CGA."
        ) from None
    federation = Federation(name, version, experiment, sites, timing, graph, classes)
    _check_addresses(federation)
    return federation


def _whole(value: Any, key: str, most: int) -> int:
    number: int = convert(int, value, key)
    if not 1 <= number <= most:
        raise ConfigError(f"{key} must be a whole number from 1 to {most}; found {number}.")
    return number


def _experiment(table: Any, agents: int) -> Experiment:
    if not isinstance(table, dict):
        raise ConfigError(
            f"experiment must be a table as `crossgrad run` reads it; found {_short(table)}. Write it as [experiment]."
        )
    if table.setdefault("agents", agents) != agents:
        raise ConfigError(
            f"experiment.agents must be the number of sites, {agents}; found {_short(table['agents'])}. Leave it out."
        )
    if missing := [key for key in EXPERIMENT_KEYS if key not in table]:
        raise ConfigError(f"experiment.{missing[0]} must be given, as for `crossgrad run`; it is missing. Add it.")
    experiment = files.from_table(table)
    plain = {each.name: each.default for each in fields(Experiment)}
    unused = [key for key in SIMULATED if getattr(experiment, key) != plain[key]]
    unused += [f"data.{key}" for key in NOT_OF_DATA if getattr(experiment.data, key) is not None]
    unused += [f"training.{key}" for key in NOT_OF_TRAINING if getattr(experiment.training, key) is not None]
    if unused:
        raise ConfigError(
            f"experiment.{unused[0]} must be left out in a federation, where sites fail and take their time by "
            "themselves, begin with the same new model, and end together; it is given. Remove it."
        )
    return experiment


def _sites(tables: Any) -> tuple[SiteEntry, ...]:
    if not isinstance(tables, list) or not 1 <= len(tables) <= MAX_SITES:
        raise ConfigError(
            f"sites must be a list of 1 to {MAX_SITES} tables; found {_short(tables)}. Write [[sites]] for each."
        )
    sites = tuple(_entry(SiteEntry, table, f"sites[{number}]") for number, table in enumerate(tables))
    names = [site.name for site in sites]
    if twice := sorted({name for name in names if names.count(name) > 1}):
        raise ConfigError(f"every site must have a name of its own; {twice[0]!r} is there twice. Rename one.")
    return sites


def _entry(kind: type[Part], table: Any, key: str) -> Part:
    """One of the file's tables as the dataclass that it describes."""
    if not isinstance(table, dict):
        raise ConfigError(f"{key} must be a table; found {_short(table)}.")
    if kind is SiteEntry and "name" not in table:
        raise ConfigError(f"{key} must have a name, such as name = 'hospital-a'; it is missing. Add it.")
    values = fields_of(kind, table, key, {}, key)
    try:
        return kind(**values)
    except ValueError as error:
        raise ConfigError(f"{key}: {error}") from None


def _check_addresses(federation: Federation) -> None:
    sites = federation.sites
    for j in range(len(sites)):
        for l in federation.neighbours(j):
            if j < l and sites[j].listen is None and sites[l].listen is None:
                raise ConfigError(
                    f"of two neighbours one must listen, so that the other can dial it; {sites[j].name} and "
                    f"{sites[l].name} do not. Let one of them listen on its own machine, and name as its `address` a "
                    "plain TCP forwarder that both can reach (docs/organisations.md)."
                )


def _short(value: Any) -> str:
    """What was found, shortened; nothing, in words."""
    text = "nothing" if value is None else repr(value)
    return text if len(text) <= MAX_SHOWN else text[:MAX_SHOWN] + "..."
