"""The demo's comparison: its methods, its experiments, and a summary of the results."""

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
    Gossip,
    MomentumTracking,
    QGDSGDm,
    SwarmSGD,
    comp_cga,
    mean_cga,
    released_cga,
)
from crossgrad.codecs import Quantised
from crossgrad.data import IID, ByClass, PartitionRule, Split, load
from crossgrad.experiments.choices import TrainingChoice
from crossgrad.experiments.experiment import Experiment
from crossgrad.graphs import GraphSpec
from crossgrad.models.zoo import MLP

LR, MOMENTUM, DECAY = 0.01, 0.98, 0.981  # as in the text of the paper

DEMO_METHODS: dict[str, Algorithm[Any]] = {
    "DPMSGD": DPMSGD(MOMENTUM),
    "SGP": SGP(),
    "SGP, momentum": SGP(MOMENTUM),
    "SwarmSGD, one pair": SwarmSGD(),
    "SwarmSGD, matching": SwarmSGD(matching=True),
    "CGA (paper)": CGA(MOMENTUM),
    "CGA (released)": released_cga(MOMENTUM),
    "CompCGA": comp_cga(MOMENTUM),
    "mean cross-gradient": mean_cga(MOMENTUM),
    "QG-DSGDm": QGDSGDm(0.9),
    "momentum tracking": MomentumTracking(MOMENTUM),
    "EDM": EDM(MOMENTUM),
    "EDM, 4 bits": EDM(MOMENTUM),
}
GOSSIP = {"EDM, 4 bits": Gossip(Quantised(bits=4))}
# EDM's momentum is a mean of gradients, a heavy ball's a sum: this step size goes as far as LR does there. QG-DSGDm has
# its authors' momentum, and a step size that makes up for it.
DEMO_STEP_SIZES = {"EDM": LR / (1 - MOMENTUM), "EDM, 4 bits": LR / (1 - MOMENTUM), "QG-DSGDm": 0.1}
DEMO_SPLITS: dict[str, PartitionRule] = {"IID": IID(), "one class per agent": ByClass()}


class DemoRun(NamedTuple):
    """One run of the comparison."""

    method: str
    split: str
    seed: int


def runs(seeds: int) -> list[DemoRun]:
    """All runs, the longest first, so that the processes end at about the same time."""
    every = [DemoRun(method, split, seed) for seed in range(seeds) for split in DEMO_SPLITS for method in DEMO_METHODS]
    return sorted(every, key=lambda run: not isinstance(DEMO_METHODS[run.method], CGA))


def experiment(run: DemoRun, graph: GraphSpec, agents: int, steps: int) -> Experiment:
    """The experiment of one run: digits, an MLP 64-32-10, batches of 16."""
    return Experiment(
        model=MLP((32,)),
        graph=graph,
        algorithm=DEMO_METHODS[run.method],
        partition=DEMO_SPLITS[run.split],
        name=f"{run.method}, {run.split}",
        seed=run.seed,
        agents=agents,
        schedule=Exponential(DEMO_STEP_SIZES.get(run.method, LR), DECAY),
        gossip=GOSSIP.get(run.method, Gossip()),
        training=TrainingChoice(batch_size=16, steps=steps, evaluate_every=max(1, steps // 12), threads=1),
    )


def check_tasks(tasks: Iterable[tuple[DemoRun, Experiment]]) -> None:
    """Raise ValueError if the data cannot be split over so many agents, or a method does not accept the graph."""
    for one in {run.split: one for run, one in tasks}.values():
        graph = one.start(_loaded_digits()).graph
    for method, algorithm in DEMO_METHODS.items():
        check_graph(GOSSIP.get(method, Gossip()).around(algorithm), graph, graph.agents)


@cache
def _loaded_digits() -> Split:
    return load("digits")


def run_task(task: tuple[DemoRun, Experiment]) -> tuple[DemoRun, list[dict[str, Any]]]:
    """Run one experiment; returns its records as plain values."""
    import torch

    run, one = task
    torch.set_num_threads(1)
    return run, [record.as_json() for record in one.start(_loaded_digits())]


@dataclass(frozen=True)
class Summary:
    """One method on one split: mean and deviation over the seeds at the end of the runs; accuracies in percent."""

    averaged: tuple[float, float]
    mean_agent: tuple[float, float]
    worst_agent: tuple[float, float]
    megabytes: float  # sent per agent
    diverged: int  # how many of the runs


def summarise(results: Mapping[DemoRun, list[dict[str, Any]]]) -> dict[tuple[str, str], Summary]:
    """Summarise the last records by method and split."""
    summaries = {}
    for method, split in dict.fromkeys((run.method, run.split) for run in _ordered(results)):
        last = [records[-1] for run, records in results.items() if run[:2] == (method, split)]
        summaries[method, split] = Summary(
            averaged=_spread(100 * record["accuracy"] for record in last),
            mean_agent=_spread(100 * record["mean_agent"] for record in last),
            worst_agent=_spread(100 * record["worst_agent"] for record in last),
            megabytes=mean(record["bytes_sent"] / len(record["bytes_by_agent"]) / 1e6 for record in last),
            diverged=sum(record["status"] != "ok" for record in last),
        )
    return summaries


def _ordered(results: Mapping[DemoRun, Any]) -> Iterator[DemoRun]:
    for split in DEMO_SPLITS:
        for method in DEMO_METHODS:
            yield from (run for run in results if run[:2] == (method, split))


def _spread(values: Iterable[float]) -> tuple[float, float]:
    listed = list(values)
    return mean(listed), pstdev(listed)


def conclusions(summaries: Mapping[tuple[str, str], Summary]) -> list[str]:
    """Three sentences with this comparison's own numbers."""
    iid, one_class = DEMO_SPLITS

    def own(method: str) -> str:
        s = summaries[method, one_class]
        return f"{s.averaged[0]:.0f} % averaged and {s.mean_agent[0]:.0f} % for the mean agent"

    with_momentum = [m for m in DEMO_METHODS if m not in ("SGP", "SwarmSGD, one pair", "SwarmSGD, matching")]
    lowest, highest = (f(summaries[m, iid].mean_agent[0] for m in with_momentum) for f in (min, max))
    drops = {m: summaries[m, iid].mean_agent[0] - summaries[m, one_class].mean_agent[0] for m in DEMO_METHODS}
    paper, plain = (summaries[m, one_class].mean_agent[0] for m in ("CGA (paper)", "mean cross-gradient"))
    word = "more" if plain > paper else "less"
    cga, edm, coded = (summaries[m, one_class] for m in ("CGA (paper)", "EDM", "EDM, 4 bits"))
    return [
        f"With IID data, the methods with momentum bring the mean agent to {lowest:.0f} to "
        f"{highest:.0f} %; with one class per agent it loses from {min(drops.values()):.0f} points "
        f"({min(drops, key=lambda m: drops[m])}) to {max(drops.values()):.0f} ({max(drops, key=lambda m: drops[m])}).",
        f"The result depends on which accuracy is measured: with one class per agent DPMSGD has {own('DPMSGD')}, CGA "
        f"{own('CGA (paper)')}; and the plain mean of cross-gradients, without any projection, gives the mean "
        f"agent {word} than the QP of CGA ({plain:.0f} against {paper:.0f} %).",
        f"EDM corrects for non-IID data without cross-gradients: {own('EDM')}, for {edm.megabytes:.1f} MB sent per "
        f"agent instead of CGA's {cga.megabytes:.1f}; with 4 bits per number the mean agent has "
        f"{coded.mean_agent[0]:.0f} % for {coded.megabytes:.2f} MB.",
    ]
