"""Runs that differ only in their seed, grouped: the groups are what figures draw.

The key of a group (method, variant, graph, agents, split) comes from a cell's labels, or from the experiment where a
run has no labels. Labels without a field of their own, such as a step size, become part of the variant, so that only
seeds are ever averaged.
"""

from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from crossgrad._runs.results import RunResult

METHOD_ORDER = ("DPSGD", "DPMSGD", "SGP", "SwarmSGD", "CGA", "CompCGA")
GRAPH_ORDER = ("fully-connected", "ring", "bipartite")
SPLIT_ORDER = ("IID", "non-IID")
METHOD_NAMES = {"swarm": "SwarmSGD", "compcga": "CompCGA"}  # by algorithm
METHOD_NAMES |= {name.lower(): name for name in METHOD_ORDER}
KNOWN = {"method", "variant", "graph", "agents", "split", "seed", "table"}

AnyKey = TypeVar("AnyKey", bound=Hashable)


@dataclass(frozen=True)
class GroupKey:
    """What the runs of a group have in common."""

    method: str
    variant: str
    graph: str
    agents: int
    split: str

    @property
    def name(self) -> str:
        """The method, with its variant where there is more than the paper's."""
        plain = not self.variant or (self.variant == "paper" and not self.method.endswith("CGA"))
        return self.method if plain else f"{self.method} ({self.variant})"


@dataclass(frozen=True)
class SeedGroup:
    """The runs of one key, one for each seed."""

    key: GroupKey
    runs: tuple[RunResult, ...]


def group_by_seed(results: Iterable[RunResult]) -> list[SeedGroup]:
    """The runs that have records, seeds together, in the paper's order of methods and graphs."""
    groups: dict[GroupKey, list[RunResult]] = {}
    for result in results:
        if result.records:
            groups.setdefault(key_of(result), []).append(result)
    return [SeedGroup(key, tuple(groups[key])) for key in sorted(groups, key=_order_of_groups)]


def key_of(result: RunResult) -> GroupKey:
    """The key of the group that a run belongs to."""
    labels, experiment = result.labels, result.experiment
    algorithm, graph, partition = (_name_of_choice(experiment, part) for part in ("algorithm", "graph", "partition"))
    more = [f"{axis} {value}" for axis, value in sorted(labels.items()) if axis not in KNOWN]
    return GroupKey(
        method=labels.get("method") or METHOD_NAMES.get(algorithm, algorithm),
        variant=", ".join([part for part in (labels.get("variant", ""),) if part] + more),
        graph=labels.get("graph") or graph,
        agents=len(result.records[-1].bytes_by_agent) if result.records else int(experiment.get("agents", 0)),
        split=labels.get("split") or ("IID" if partition == "iid" else "non-IID"),
    )


def ordered(names: Iterable[AnyKey], known: Sequence[Any]) -> list[AnyKey]:
    """Each name once: the known ones in their order, then the others as they come."""
    each = list(dict.fromkeys(names))
    return sorted(each, key=lambda name: known.index(name) if name in known else len(known))


def _name_of_choice(experiment: dict[str, Any], part: str) -> str:
    choice = experiment.get(part, "")
    return str(choice.get("name", "") if isinstance(choice, dict) else choice)


def _order_of_groups(key: GroupKey) -> tuple[Any, ...]:
    ranks = [
        known.index(name) if name in known else len(known)
        for name, known in ((key.method, METHOD_ORDER), (key.graph, GRAPH_ORDER), (key.split, SPLIT_ORDER))
    ]
    return (
        ranks[0],
        key.method,
        key.variant != "paper",
        key.variant,
        ranks[1],
        key.graph,
        key.agents,
        ranks[2],
    )
