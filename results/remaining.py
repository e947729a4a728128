"""Put into README.md here which runs of the paper's tables are left, and about how many hours of one core they take.

    python results/remaining.py

A run's cost is its gradients, and its evaluations, by the quickest gradient among the kept runs on the same images:
slower ones shared their core with other work. It is for the whole length, though a run may settle sooner.
"""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

from crossgrad._paper.tables import paper_table
from crossgrad._paper.verdict import long_enough
from crossgrad._runs.results import PACKED, RunResult, read_results
from crossgrad.graphs import GRAPHS

HERE = Path(__file__).parent
FOLDERS = "[bcm]*"  # of the runs on CIFAR-10 and MNIST: cifar10, mnist and so on, boundary-half
MNIST, CIFAR = "mnist-cnn-noniid", "cifar10-cnn-noniid"
SAMPLES = {MNIST: 60_000, CIFAR: 50_000}
TEST_SAMPLES, BATCH = 10_000, 128
FORWARD = 1 / 3  # of a gradient's cost: a pass back takes about twice as long as one forward
METHODS = ("dpsgd", "sgp", "swarmsgd", "cga", "cga:released")
LABELS = {"dpsgd": "DPSGD", "sgp": "SGP", "swarmsgd": "SwarmSGD", "cga": "CGA", "edm": "EDM"}


class Plan(NamedTuple):
    """Cells that are to be run, with one command."""

    table: str
    scale: str
    agents: int
    graph: str
    methods: tuple[str, ...]
    seeds: int
    epochs: int

    @property
    def command(self) -> str:
        """What runs them, or goes on with them."""
        words = [f"crossgrad reproduce {self.table}"] + ["--scale half"] * (self.scale == "half")
        words += [f"--agents {self.agents} --graph {self.graph}", *(f"--algorithm {name}" for name in self.methods)]
        words += [f"--epochs {self.epochs} --until-settled"] if self.table == MNIST else [f"--epochs {self.epochs}"]
        words += [f"--evaluations {self.epochs}"] * (self.epochs != 20) + [f"--seeds {self.seeds}"] * (self.seeds > 1)
        return " ".join([*words, "--autocast"])


PLANS = [Plan(MNIST, "paper", agents, graph, METHODS, 1, 20)
         for agents, graph in ((5, "ring"), (10, "ring"), (5, "fully-connected"))]  # fmt: skip
PLANS += [Plan(CIFAR, "paper", 5, "ring", ("cga", "cga:released", "sgp", "edm"), 1, 30)]
PLANS += [Plan(MNIST, "half", agents, graph, METHODS, 3, 20)
          for agents in (5, 10) for graph in ("ring", "bipartite", "fully-connected")]  # fmt: skip


def main() -> None:
    page = HERE / "README.md"
    page.write_text(filled(page.read_text(encoding="utf-8")), encoding="utf-8")


def filled(text: str) -> str:
    """The page with its table made again."""
    return re.sub(r"(<!-- remaining -->\n).*?(<!-- end -->)", lambda m: m[1] + _table() + m[2], text, flags=re.DOTALL)


def _table() -> str:
    results = [run for packed in sorted(HERE.glob(f"{FOLDERS}/{PACKED}")) for run in read_results(packed.parent)]
    kept = {(plan.table, plan.scale): _kept(plan, results) for plan in PLANS}
    lines = ["| runs at their end | runs left | core hours | command |\n", "| ---: | ---: | ---: | --- |\n"]
    total = 0.0
    for plan in PLANS:
        missing = list(_missing(plan, kept[plan.table, plan.scale]))
        hours = sum(_gradients(plan, name) for name in missing) * _seconds(kept[plan.table, plan.scale]) / 3600
        total += hours
        done, command = len(plan.methods) * plan.seeds - len(missing), plan.command if missing else ""
        lines.append(f"| {done} | {len(missing)} | {hours:.1f} | {f'`{command}`' if command else ''} |\n")
    return "".join([*lines, f"| | | {total:.0f} | all together |\n"])


def _kept(plan: Plan, results: list[RunResult]) -> list[RunResult]:
    """The kept runs on the same images that came to an evaluation."""
    return [
        r
        for r in results
        if r.records and _images(r) == (paper_table(plan.table).data, 2 if plan.scale == "half" else None)
    ]


def _images(run: RunResult) -> tuple[Any, Any]:
    return run.experiment["data"]["name"], run.experiment["data"].get("shrink")


def _seconds(kept: list[RunResult]) -> float:
    """Of one core, for a gradient of a batch."""
    last = [run.records[-1] for run in kept if run.experiment["model"]["name"] == "cnn" and run.records[-1].step > 0]
    return min(record.seconds / record.gradients for record in last)


def _missing(plan: Plan, kept: list[RunResult]) -> Iterator[str]:
    """The method of each run that has not come to its end."""
    for name in plan.methods:
        method, _, variant = name.partition(":")
        place = {"method": LABELS[method], "variant": variant or "paper", "graph": plan.graph, "split": "non-IID"}
        place |= {"agents": str(plan.agents)}
        ended = {r.labels["seed"] for r in kept if place.items() <= r.labels.items() and _at_its_end(plan, r)}
        yield from [name] * (plan.seeds - len(ended & set(map(str, range(plan.seeds)))))


def _at_its_end(plan: Plan, run: RunResult) -> bool:
    enough = long_enough(run.records) if plan.table == MNIST else run.records[-1].epoch >= plan.epochs - 0.1
    return run.ended == "diverged" or enough


def _gradients(plan: Plan, name: str) -> float:
    """All that a whole run takes, its evaluations included, in gradients of a batch."""
    edges = GRAPHS[plan.graph]().build(plan.agents, 0).union().weights.nnz  # with those of each agent to itself
    each = edges / plan.agents if name.startswith("cga") else 1
    evaluation = (plan.agents + 1) * TEST_SAMPLES / BATCH * FORWARD
    return plan.epochs * (SAMPLES[plan.table] / BATCH * each + evaluation)


if __name__ == "__main__":
    main()
