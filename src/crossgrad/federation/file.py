"""federation.toml: one file, the same at every site.

name = "wards"
version = 1

[experiment]            # as for `crossgrad run`; its agents are the sites, in their order
model = "mlp"
graph = "ring"
algorithm = "cga"
partition = "class"
training = { steps = 300 }

[[sites]]
name = "hospital-a"
listen = "a.example.org:7443"

[[sites]]
name = "hospital-b"     # no `listen`: this site only dials out
"""

import hashlib
import json
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from crossgrad._training.validate import check_faults
from crossgrad.experiments import files
from crossgrad.experiments.config import ConfigError, fields_of, load_toml, read_text
from crossgrad.experiments.experiment import Experiment
from crossgrad.federation.certificates import check_name
from crossgrad.graphs import Graph
from crossgrad.graphs.faults import Faults

KEYS = ("name", "version", "classes", "experiment", "sites", "timing")
LOOP = "the model or algorithm, as the site's data or own loop makes it"
CHANGING = ("version", "sites", "timing", "experiment.agents", LOOP)  # keys that may differ between versions of a file
MAX_SITES = 1000
MAX_CLASSES = 1_000_000
SHORT_DIGEST = 16  # letters


@dataclass(frozen=True)
class SiteEntry:
    """A site and its addresses."""

    name: str
    listen: str | None = None  # host:port; None: it only dials out
    address: str | None = None  # host:port at which others dial it, if it differs: a forwarder, or behind NAT
    samples: int | None = None  # how many it holds; if all sites state it, epochs are counted as in a simulation

    def __post_init__(self) -> None:
        check_name(self.name)
        for key, value in (("listen", self.listen), ("address", self.address)):
            host, _, port = (value or "localhost:1").rpartition(":")
            if not host or not port.isdigit() or not 0 < int(port) < 65536:
                raise ValueError(f"{key} must be host:port, such as a.example.org:7443; found {value!r}.")
        if self.address is not None and self.listen is None:
            raise ValueError("a site that has an address must listen: say where, such as listen = '0.0.0.0:7443'.")
        if self.samples is not None and self.samples < 1:
            raise ValueError(f"samples must be at least 1; found {self.samples}.")


@dataclass(frozen=True)
class Timing:
    """How long a site waits, in seconds."""

    lost_after: float = 30.0  # silence after which a neighbour counts as lost
    deadline: float | None = None  # within a step; None: as long as a neighbour is alive
    gather: float = 600.0  # at the start, for all neighbours

    def __post_init__(self) -> None:
        for name in ("lost_after", "deadline", "gather"):
            value = getattr(self, name)
            if value is not None and not 0.1 <= value <= 1e6:
                raise ValueError(f"{name} must be 0.1 to 1,000,000 seconds; found {value}.")


@dataclass(frozen=True)
class Federation:
    """The content of federation.toml: everything that all sites have agreed on."""

    name: str
    version: int
    experiment: Experiment
    sites: tuple[SiteEntry, ...]
    timing: Timing
    graph: Graph
    classes: int | None = None  # of the sites' own data
    loop: str = ""  # digest of the model, and of the algorithm where a site trains in a loop of its own

    def number(self, site: str) -> int:
        """The agent that this site is."""
        names = [entry.name for entry in self.sites]
        if site not in names:
            raise ConfigError(f"there is no site {site!r} in the federation. Its sites are: {', '.join(names)}.")
        return names.index(site)

    def neighbours(self, agent: int) -> list[int]:
        return [int(other) for other in self.graph.neighbours(agent)]

    def dials(self, agent: int, other: int) -> bool:
        """Whether `agent` is the one of the two that opens the connection."""
        if self.sites[other].listen is None:
            return False
        return self.sites[agent].listen is None or agent > other

    def address(self, agent: int) -> str:
        """The address at which others dial a site that listens."""
        entry = self.sites[agent]
        if entry.listen is None:
            raise ValueError(f"{entry.name} does not listen.")
        return entry.address or entry.listen

    @property
    def digest(self) -> str:
        """A digest of everything that must be the same at all sites."""
        return _digest(self._content)

    @property
    def file_digest(self) -> str:
        """Changes with anything in the file that sites must have alike."""
        return replace(self, loop="").digest

    @property
    def digests(self) -> dict[str, str]:
        """A short digest of every part, so that two sites can tell in which parts their files differ."""
        return {part: _digest(value)[:SHORT_DIGEST] for part, value in self._content.items()}

    @property
    def run_digest(self) -> str:
        """A digest of everything that later versions of the file must not change during a run."""
        return _digest(self.lasting)

    @property
    def lasting(self) -> dict[str, Any]:
        """The part of the file that is the same in all its versions."""
        return {key: value for key, value in self._content.items() if key not in CHANGING}

    @property
    def _content(self) -> dict[str, Any]:
        experiment = {f"experiment.{key}": value for key, value in files.to_table(self.experiment).items()}
        return experiment | {
            "name": self.name,
            "version": self.version,
            "sites": [asdict(entry) for entry in self.sites],
            "timing": asdict(self.timing),
            "classes": self.classes,
            LOOP: self.loop,
        }


def _digest(content: Any) -> str:
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()


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
        raise ConfigError(f"a federation has no key {wrong[0]!r}. Valid are: {', '.join(KEYS)}.")
    sites = _sites(table.get("sites"))
    name, version = table.get("name", "federation"), table.get("version", 1)
    if not isinstance(name, str) or not isinstance(version, int) or version < 1:
        raise ConfigError(f"name must be a text and version a whole number from 1 on; found {name!r}, {version!r}.")
    experiment = _experiment(table.get("experiment"), len(sites))
    timing = _made(Timing, table.get("timing", {}), "timing")
    graph = experiment.build_graph()
    if not isinstance(graph, Graph) or not graph.undirected:
        raise ConfigError(
            f"experiment.graph: sites talk both ways, with the same weights, in every step; {graph.name!r} is directed "
            "or changes. Use a graph such as a ring."
        )
    classes = table.get("classes")
    if classes is not None and (not isinstance(classes, int) or not 1 <= classes <= MAX_CLASSES):
        raise ConfigError(f"classes must be a whole number from 1 to {MAX_CLASSES}; found {classes!r}.")
    try:
        check_faults(experiment.algorithm, graph, Faults(drop=0.5))
    except ValueError:
        raise ConfigError(
            "experiment.algorithm: between sites any message may be lost, so an algorithm must not keep copies of what "
            f"neighbours sent; {type(experiment.algorithm).__name__} does. Use one such as EDM or CGA."
        ) from None
    federation = Federation(name, version, experiment, sites, timing, graph, classes)
    _check_addresses(federation)
    return federation


def _experiment(table: Any, agents: int) -> Experiment:
    if not isinstance(table, dict):
        raise ConfigError("experiment is missing: a table as `crossgrad run` reads it.")
    if table.setdefault("agents", agents) != agents:
        raise ConfigError(f"experiment.agents is {table['agents']}, but there are {agents} sites. Leave it out.")
    text_keys = [key for key in ("model", "graph", "algorithm", "partition") if key not in table]
    if text_keys:
        raise ConfigError(f"experiment.{text_keys[0]} is missing.")
    experiment = files.from_table(table)
    if experiment.faults.any:
        raise ConfigError("experiment.faults is for simulations; in a federation sites fail by themselves. Remove it.")
    return experiment


def _sites(tables: Any) -> tuple[SiteEntry, ...]:
    if not isinstance(tables, list) or not 1 <= len(tables) <= MAX_SITES:
        raise ConfigError(f"sites must be a list of 1 to {MAX_SITES} tables: one [[sites]] for each.")
    sites = tuple(_made(SiteEntry, table, f"sites[{number}]") for number, table in enumerate(tables))
    names = [site.name for site in sites]
    if twice := sorted({name for name in names if names.count(name) > 1}):
        raise ConfigError(f"every site needs a name of its own; {twice[0]!r} is there twice.")
    return sites


def _made(kind: type, table: Any, key: str) -> Any:
    if not isinstance(table, dict):
        raise ConfigError(f"{key} must be a table; found {table!r}.")
    try:
        return kind(**fields_of(kind, table, key, {}, key))
    except TypeError:
        raise ConfigError(f"{key}: name is missing.") from None
    except ConfigError:
        raise
    except ValueError as error:
        raise ConfigError(f"{key}: {error}") from None


def _check_addresses(federation: Federation) -> None:
    sites = federation.sites
    for j in range(len(sites)):
        for l in federation.neighbours(j):
            if j < l and sites[j].listen is None and sites[l].listen is None:
                raise ConfigError(
                    f"{sites[j].name} and {sites[l].name} are neighbours, and neither listens, so neither can dial the "
                    "other. Let one of them listen behind a plain TCP forwarder that both can reach: its `address`."
                )
