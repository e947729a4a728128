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
import re
from dataclasses import asdict, dataclass, replace
from typing import Any

from crossgrad.experiments import files
from crossgrad.experiments.config import ConfigError
from crossgrad.experiments.experiment import Experiment
from crossgrad.federation.certificates import check_name
from crossgrad.graphs import Graph

ADDRESS = re.compile(r"(?:[A-Za-z0-9._-]{1,253}|\[[0-9A-Fa-f:.%a-z]{2,60}\]):([0-9]{1,5})")  # a name or number, [IPv6]
MAX_SHOWN = 60  # letters of what was found
LOOP = "the model or algorithm, as the site's data or own loop makes it"
CHANGING = ("version", "sites", "timing", "experiment.agents", LOOP)  # keys that may differ between versions of a file
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
            match = None if value is None else ADDRESS.fullmatch(value)
            if value is not None and not (match and 0 < int(match.group(1)) < 65536):
                raise ValueError(f"{key} must be host:port, such as a.example.org:7443; found {value[:MAX_SHOWN]!r}.")
        if self.address is not None and self.listen is None:
            raise ValueError(
                "a site that has an address must listen; it does not. Say where, such as listen = '0.0.0.0:7443'."
            )
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
            raise ConfigError(f"expected a site of the federation; found {site!r}. Its sites are: {', '.join(names)}.")
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
            raise ValueError(f"an address needs a site that listens; {entry.name} does not.")
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
