"""The combinations of methods, graphs, numbers of agents and splits that the benchmark runs, and those refused."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from crossgrad._training.validate import check_graph
from crossgrad._tuning.plan import TuneChoice, TunedEntry, Tuning
from crossgrad.algorithms import ALGORITHMS, Needs
from crossgrad.experiments.config import nearest
from crossgrad.experiments.files import from_table

BENCHMARK_NAME = "benchmark"
STEPS = 300
BASE: dict[str, Any] = {
    "data": {"name": "digits"},
    "model": {"name": "mlp", "hidden": [32]},
    "schedule": {"name": "constant"},
    "training": {"batch_size": 16, "steps": STEPS, "evaluate_every": STEPS // 3, "threads": 1, "validation": 0.2},
    "links": {"bandwidth": "100 Mbit/s", "latency": "20 ms"},
    "compute": {"gradient": "10 ms", "spread": 0.3},
}
BENCHMARK_GRAPHS: dict[str, dict[str, Any]] = {
    "ring": {"name": "ring"},
    "base-3": {"name": "base-graph", "neighbours": 2},
    "bipartite": {"name": "bipartite"},  # K_{2,N-2}
    "exponential": {"name": "exponential"},
    "tree": {"name": "binary-tree"},  # for methods that need one
}
BENCHMARK_AGENTS = (10, 40)
BENCHMARK_SPLITS: dict[str, dict[str, Any]] = {
    "class": {"name": "class"},
    "dirichlet": {"name": "dirichlet", "alpha": 0.1, "min_samples": 2},  # one to train on, one to validate by
    "iid": {"name": "iid"},
}
_FOUR_BITS: dict[str, Any] = {"codec": {"name": "quantised", "bits": 4}}
VARIANTS: dict[str, dict[str, Any]] = {  # methods besides those that have a name of their own
    f"edm, 4 bits, {rounds} round{'s' if rounds > 1 else ''}": {
        "algorithm": {"name": "edm", "lazy": 0.5},
        "gossip": _FOUR_BITS | ({"rounds": rounds, "chebyshev": True} if rounds > 1 else {}),
    }
    for rounds in (1, 2, 4)
}
VARIANTS["edm, 4 bits, 2 rounds, lazy 0.35"] = {
    "algorithm": {"name": "edm", "lazy": 0.35},
    "gossip": VARIANTS["edm, 4 bits, 2 rounds"]["gossip"],
}
VARIANTS["qg-dsgdm, 8 bits, along a tree"] = {
    "algorithm": {"name": "qg-dsgdm"},
    "gossip": {"codec": {"name": "quantised", "bits": 8}, "tree": True},
}


@dataclass(frozen=True)
class Refused:
    """A combination that does not run, as the method needs another graph."""

    labels: dict[str, str]
    reason: str


@dataclass(frozen=True)
class BenchmarkPart:
    """A part of the benchmark; an empty field selects everything."""

    algorithms: Sequence[str] = ()
    graphs: Sequence[str] = ()
    agents: Sequence[int] = ()
    splits: Sequence[str] = ()

    def __post_init__(self) -> None:
        for what, wanted, known in (
            ("algorithm", self.algorithms, methods()),
            ("graph", self.graphs, BENCHMARK_GRAPHS),
            ("split", self.splits, BENCHMARK_SPLITS),
        ):
            for name in wanted:
                if name not in known:
                    raise ValueError(f"--{what} must be one of the benchmark; found {name!r}. {nearest(name, known)}")
        for number in self.agents:
            if number not in BENCHMARK_AGENTS:
                raise ValueError(f"--agents must be {' or '.join(map(str, BENCHMARK_AGENTS))}; found {number}.")


def methods() -> dict[str, dict[str, Any]]:
    """The settings of every method, by its name: all algorithms, registered ones too, and compressed rounds."""
    return {name: {"algorithm": {"name": name}} for name in ALGORITHMS} | VARIANTS


def combinations(part: BenchmarkPart) -> tuple[list[TunedEntry], list[Refused]]:
    """The combinations of a part that are run, the smallest networks first, and those refused, with the reason."""
    entries, refused = [], []
    for labels, table in _benchmark_tables(part):
        experiment = from_table({**table, "schedule": {"name": "constant"}, "name": "x"})
        try:
            if labels["graph"] == "tree" and Needs.TREE not in experiment.method.needs:
                raise ValueError("the tree is for methods that need one; this one does not. Take another graph.")
            check_graph(experiment.method, experiment.build_graph(), experiment.agents)
        except ValueError as error:
            refused.append(Refused(labels, str(error)))
        else:
            entries.append(TunedEntry(labels, table))
    return entries, refused


def _benchmark_tables(part: BenchmarkPart) -> Iterator[tuple[dict[str, str], dict[str, Any]]]:
    every = methods()
    for agents in [n for n in BENCHMARK_AGENTS if n in part.agents or not part.agents]:
        for split in [name for name in BENCHMARK_SPLITS if name in part.splits or not part.splits]:
            for graph in [name for name in BENCHMARK_GRAPHS if name in part.graphs or not part.graphs]:
                for method in [name for name in every if name in part.algorithms or not part.algorithms]:
                    labels = {"algorithm": method, "graph": graph, "agents": str(agents), "split": split}
                    places = {"graph": BENCHMARK_GRAPHS[graph], "agents": agents, "partition": BENCHMARK_SPLITS[split]}
                    yield labels, {**BASE, **places, **every[method]}


def benchmark(part: BenchmarkPart, trials: int) -> tuple[Tuning, list[Refused]]:
    """The tuning of a part with this number of trials for each combination, and the combinations refused."""
    entries, refused = combinations(part)
    return Tuning(BENCHMARK_NAME, tuple(entries), TuneChoice(trials=trials)), refused
