"""Advice on a method, graph, codec, rounds and step size to begin with, based on similar rows of the benchmark."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from crossgrad._benchmark.combinations import BASE, BENCHMARK_GRAPHS, BENCHMARK_SPLITS, methods
from crossgrad._tuning.standings import Standing
from crossgrad.experiments.experiment import Experiment
from crossgrad.experiments.files import from_table, set_key
from crossgrad.graphs.units import bytes_per_second, seconds

BENCHMARK_PARAMETERS = 64 * 32 + 32 + 32 * 10 + 10  # of the model that the benchmark trains
NEAR_AGENTS = 2.0  # a row is near if its number of agents is at most so many times more or fewer
AS_GOOD = 1.0  # points of the mean agent's accuracy; of methods within them the cheapest is advised
SHOWN_ROWS = 5


@dataclass(frozen=True)
class Question:
    """The training that advice is wanted for.

    Args:
        agents: how many there are.
        split: class, dirichlet or iid: the benchmark's split that is most like the user's data.
        graph: one of the benchmark's; None: any of them.
        bandwidth: of an agent's connection; None: without limit.
        latency: of a link, one way; None: 0.
        parameters: of the model.
    """

    agents: int
    split: str
    graph: str | None = None
    bandwidth: str | None = None
    latency: str | None = None
    parameters: int = BENCHMARK_PARAMETERS

    def __post_init__(self) -> None:
        if self.split not in BENCHMARK_SPLITS:
            raise ValueError(f"--split must be one of {', '.join(BENCHMARK_SPLITS)}; found {self.split!r}.")
        if self.graph is not None and self.graph not in BENCHMARK_GRAPHS:
            raise ValueError(f"--graph must be one of {', '.join(BENCHMARK_GRAPHS)}; found {self.graph!r}.")
        if self.bandwidth is not None:
            bytes_per_second(self.bandwidth, "--bandwidth")
        if self.latency is not None:
            seconds(self.latency, "--latency")

    @property
    def has_links(self) -> bool:
        """Whether links are given, so that methods are compared by time and not by bytes."""
        return self.bandwidth is not None or self.latency is not None

    def megabytes(self, row: Standing) -> float:
        """Megabytes that an agent sends with a model of the question's size."""
        return row.megabytes * self.parameters / BENCHMARK_PARAMETERS

    def communication_seconds(self, row: Standing) -> float:
        """How long messages take: two latencies a round (a receiver first says that it is ready), and the transfer."""
        waits = 2 * row.rounds * (seconds(self.latency, "--latency") if self.latency else 0.0)
        rate = bytes_per_second(self.bandwidth, "--bandwidth") if self.bandwidth else float("inf")
        return waits + 1e6 * self.megabytes(row) / rate

    def cost(self, row: Standing) -> float:
        """Seconds of communication where the links are known, else megabytes."""
        return self.communication_seconds(row) if self.has_links else self.megabytes(row)


@dataclass(frozen=True)
class Advice:
    """The row to follow, and the best of those that it was chosen from with itself, the best mean agent first."""

    row: Standing
    rests_on: tuple[Standing, ...]


def near(question: Question, rows: Sequence[Standing]) -> list[Standing]:
    """The rows of the same split and graph, whose number of agents is the nearest and not far from the question's."""
    same_split = [
        row
        for row in rows
        if row.labels["split"] == question.split
        and (question.graph is None or row.labels["graph"] == question.graph)
        and 1 / NEAR_AGENTS <= question.agents / int(row.labels["agents"]) <= NEAR_AGENTS
        and not row.diverged
    ]
    distances = {int(row.labels["agents"]): _ratio(question.agents, int(row.labels["agents"])) for row in same_split}
    nearest = min(distances, key=lambda agents: distances[agents], default=None)
    return [row for row in same_split if int(row.labels["agents"]) == nearest]


def advise(question: Question, rows: Sequence[Standing]) -> Advice:
    """Of the near rows whose mean agent is as good as the best one's, the one that costs least.

    Raises:
        ValueError: no row is near.
    """
    candidates = sorted(near(question, rows), key=lambda row: -row.mean_agent.mean)
    if not candidates:
        there = sorted({(row.labels["graph"], int(row.labels["agents"]), row.labels["split"]) for row in rows})
        listed = "; ".join(f"{graph}, {agents} agents, {split}" for graph, agents, split in there) or "nothing yet"
        where = f" on {question.graph}" if question.graph else ""
        raise ValueError(
            f"advice rests on rows of the benchmark, and none is near {question.agents} agents with the split "
            f"{question.split}{where}; it has: {listed}. `crossgrad benchmark` runs more."
        )
    good = [row for row in candidates if row.mean_agent.mean >= candidates[0].mean_agent.mean - AS_GOOD]
    chosen = min(good, key=question.cost)
    return Advice(chosen, tuple(row for row in candidates if row in (*candidates[:SHOWN_ROWS], chosen)))


def advised_experiment(question: Question, row: Standing) -> Experiment:
    """The row's method and settings for the agents and links of the question, on the benchmark's data and model."""
    labels = row.labels
    table: dict[str, Any] = {**BASE, **methods()[labels["algorithm"]], "graph": BENCHMARK_GRAPHS[labels["graph"]]}
    table |= {"agents": question.agents, "partition": BENCHMARK_SPLITS[labels["split"]], "name": "advised"}
    table["schedule"] = {"name": "constant", "lr": row.lr}
    table["algorithm"] = dict(table["algorithm"])
    if row.momentum is not None:
        set_key(table, "algorithm.momentum", row.momentum)
    given = {"bandwidth": question.bandwidth, "latency": question.latency}
    if question.has_links:
        table["links"] = {name: value for name, value in given.items() if value is not None}
    return from_table(table)


def _ratio(one: int, other: int) -> float:
    return max(one / other, other / one)
