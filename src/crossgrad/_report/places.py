"""Where a run belongs in a picture: its method, graph, number of agents and split.

A cell's labels say so; where they do not, as in a run of its own, the experiment does. Labels that a picture has no
place for, such as a step size, become part of the variant, so that unlike runs are never averaged.
"""

from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from crossgrad._runs.results import Result

METHODS = ("DPSGD", "DPMSGD", "SGP", "SwarmSGD", "CGA", "CompCGA")
GRAPHS = ("fully-connected", "ring", "bipartite")
SPLITS = ("IID", "non-IID")
NAMES = {"swarm": "SwarmSGD", "compcga": "CompCGA"} | {name.lower(): name for name in METHODS}  # by algorithm
KNOWN = {"method", "variant", "graph", "agents", "split", "seed", "table"}

Key = TypeVar("Key", bound=Hashable)


@dataclass(frozen=True)
class Place:
    """What tells a run from others that are not just another seed of it."""

    method: str
    variant: str
    graph: str
    agents: int
    split: str

    @property
    def name(self) -> str:
        """The method and which variant of it; only of CGA are there a paper's and a released one to tell apart."""
        plain = not self.variant or (self.variant == "paper" and not self.method.endswith("CGA"))
        return self.method if plain else f"{self.method} ({self.variant})"


@dataclass(frozen=True)
class Placed:
    """The runs of all seeds in one place."""

    place: Place
    runs: tuple[Result, ...]


def placed(results: Iterable[Result]) -> list[Placed]:
    """The runs that have records, seeds together, in the paper's order of methods and graphs."""
    groups: dict[Place, list[Result]] = {}
    for result in results:
        if result.records:
            groups.setdefault(place_of(result), []).append(result)
    return [Placed(place, tuple(groups[place])) for place in sorted(groups, key=_order)]


def place_of(result: Result) -> Place:
    """The place of one run."""
    labels, experiment = result.labels, result.experiment
    algorithm, graph, partition = (_name(experiment, part) for part in ("algorithm", "graph", "partition"))
    more = [f"{axis} {value}" for axis, value in sorted(labels.items()) if axis not in KNOWN]
    return Place(
        method=labels.get("method") or NAMES.get(algorithm, algorithm),
        variant=", ".join([part for part in (labels.get("variant", ""),) if part] + more),
        graph=labels.get("graph") or graph,
        agents=len(result.records[-1].bytes_by_agent) if result.records else int(experiment.get("agents", 0)),
        split=labels.get("split") or ("IID" if partition == "iid" else "non-IID"),
    )


def ordered(names: Iterable[Key], known: Sequence[Any]) -> list[Key]:
    """Each name once: the known ones in their order, then the others as they come."""
    each = list(dict.fromkeys(names))
    return sorted(each, key=lambda name: known.index(name) if name in known else len(known))


def _name(experiment: dict[str, Any], part: str) -> str:
    choice = experiment.get(part, "")
    return str(choice.get("name", "") if isinstance(choice, dict) else choice)


def _order(place: Place) -> tuple[Any, ...]:
    ranks = [
        known.index(name) if name in known else len(known)
        for name, known in ((place.method, METHODS), (place.graph, GRAPHS), (place.split, SPLITS))
    ]
    return (
        ranks[0],
        place.method,
        place.variant != "paper",
        place.variant,
        ranks[1],
        place.graph,
        place.agents,
        ranks[2],
    )
