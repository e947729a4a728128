"""The demo's comparison: which methods, on what, and what came out of it."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from statistics import mean, pstdev
from typing import Any, NamedTuple

from crossgrad._training.schedule import Exponential
from crossgrad._training.validate import check_graph
from crossgrad.algorithms import (
    CGA,
    DPMSGD,
    EDM,
    SGP,
    Algorithm,
    SwarmSGD,
    comp_cga,
    mean_cga,
    released_cga,
)
from crossgrad.data import IID, ByClass, PartitionRule, Split, load
from crossgrad.experiments.experiment import Experiment, TrainingChoice
from crossgrad.graphs import GraphSpec
from crossgrad.models.zoo import MLP

LR, MOMENTUM, DECAY = 0.01, 0.98, 0.981

METHODS: dict[str, Algorithm[Any]] = {
    "DPMSGD": DPMSGD(MOMENTUM),
    "SGP": SGP(),
    "SGP, momentum": SGP(MOMENTUM),
    "SwarmSGD, one pair": SwarmSGD(),
    "SwarmSGD, matching": SwarmSGD(matching=True),
    "CGA (paper)": CGA(MOMENTUM),
    "CGA (released)": released_cga(MOMENTUM),
    "CompCGA": comp_cga(MOMENTUM),
    "mean cross-gradient": mean_cga(MOMENTUM),
    "EDM": EDM(MOMENTUM),
}
# EDM's momentum is a mean of gradients, a heavy ball's a sum: this step size goes as far as LR does there.
STEP_SIZES = {"EDM": LR / (1 - MOMENTUM)}
SPLITS: dict[str, PartitionRule] = {"data alike (IID)": IID(), "one class per agent": ByClass()}


class Cell(NamedTuple):
    """One run of the comparison."""

    method: str
    split: str
    seed: int


def cells(seeds: int) -> list[Cell]:
    """All runs: the long ones first, so that two processes end together."""
    every = [Cell(method, split, seed) for seed in range(seeds) for split in SPLITS for method in METHODS]
    return sorted(every, key=lambda cell: not isinstance(METHODS[cell.method], CGA))


def experiment(cell: Cell, graph: GraphSpec, agents: int, steps: int) -> Experiment:
    """The experiment of one run: digits, an MLP 64-32-10, batches of 16."""
    return Experiment(
        model=MLP((32,)),
        graph=graph,
        algorithm=METHODS[cell.method],
        partition=SPLITS[cell.split],
        name=f"{cell.method}, {cell.split}",
        seed=cell.seed,
        agents=agents,
        schedule=Exponential(STEP_SIZES.get(cell.method, LR), DECAY),
        training=TrainingChoice(batch_size=16, steps=steps, evaluate_every=max(1, steps // 12), threads=1),
    )


def check(tasks: Iterable[tuple[Cell, Experiment]]) -> None:
    """Raise if the number of agents does not go with the data, or the graph with one of the methods."""
    for one in {cell.split: one for cell, one in tasks}.values():
        graph = one.start(_digits()).graph
    for algorithm in METHODS.values():
        check_graph(algorithm, graph, graph.agents)


@cache
def _digits() -> Split:
    return load("digits")


def run_cell(task: tuple[Cell, Experiment]) -> tuple[Cell, list[dict[str, Any]]]:
    """One run; its records as plain values."""
    import torch

    cell, one = task
    torch.set_num_threads(1)
    return cell, [record.as_json() for record in one.start(_digits())]


@dataclass(frozen=True)
class Summary:
    """Mean and deviation over the seeds at the end of the runs, for one method and split. Accuracies in percent."""

    averaged: tuple[float, float]
    mean_agent: tuple[float, float]
    worst_agent: tuple[float, float]
    megabytes: float  # sent per agent
    diverged: int  # how many of the runs


def summarise(results: Mapping[Cell, list[dict[str, Any]]]) -> dict[tuple[str, str], Summary]:
    """What the comparison shows, by method and split."""
    summaries = {}
    for method, split in dict.fromkeys((cell.method, cell.split) for cell in _ordered(results)):
        last = [records[-1] for cell, records in results.items() if cell[:2] == (method, split)]
        summaries[method, split] = Summary(
            averaged=_spread(100 * record["accuracy"] for record in last),
            mean_agent=_spread(100 * record["mean_agent"] for record in last),
            worst_agent=_spread(100 * record["worst_agent"] for record in last),
            megabytes=mean(record["bytes_sent"] / len(record["bytes_by_agent"]) / 1e6 for record in last),
            diverged=sum(record["status"] != "ok" for record in last),
        )
    return summaries


def _ordered(results: Mapping[Cell, Any]) -> Iterator[Cell]:
    for split in SPLITS:
        for method in METHODS:
            yield from (cell for cell in results if cell[:2] == (method, split))


def _spread(values: Iterable[float]) -> tuple[float, float]:
    listed = list(values)
    return mean(listed), pstdev(listed)


def meaning(summaries: Mapping[tuple[str, str], Summary]) -> list[str]:
    """Three sentences with this comparison's own numbers."""
    alike, unlike = SPLITS

    def own(method: str) -> str:
        s = summaries[method, unlike]
        return f"{s.averaged[0]:.0f} % averaged and {s.mean_agent[0]:.0f} % for the mean agent"

    swift = [m for m in METHODS if m not in ("SGP", "SwarmSGD, one pair", "SwarmSGD, matching")]
    lowest, highest = (f(summaries[m, alike].mean_agent[0] for m in swift) for f in (min, max))
    drops = {m: summaries[m, alike].mean_agent[0] - summaries[m, unlike].mean_agent[0] for m in METHODS}
    paper, plain = (summaries[m, unlike].mean_agent[0] for m in ("CGA (paper)", "mean cross-gradient"))
    word = "more" if plain > paper else "less"
    cga, edm = summaries["CGA (paper)", unlike], summaries["EDM", unlike]
    return [
        f"Where the agents' data is alike, the methods with momentum bring the mean agent to {lowest:.0f} to "
        f"{highest:.0f} %; with one class per agent it loses from {min(drops.values()):.0f} points "
        f"({min(drops, key=lambda m: drops[m])}) to {max(drops.values()):.0f} ({max(drops, key=lambda m: drops[m])}).",
        f"What is measured decides the story: with one class per agent DPMSGD has {own('DPMSGD')}, CGA "
        f"{own('CGA (paper)')}; and the plain mean of cross-gradients, without any projection, gives the mean "
        f"agent {word} than the QP of CGA ({plain:.0f} against {paper:.0f} %).",
        f"EDM corrects for unlike data without cross-gradients: {own('EDM')}, for {edm.megabytes:.1f} MB sent per "
        f"agent instead of CGA's {cga.megabytes:.1f}.",
    ]
