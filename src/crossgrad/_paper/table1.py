"""Table 1 of the paper with the bytes measured in short runs beside its formulas."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from crossgrad._paper.rates import BITS_PER_NUMBER, RATES, Rate, Sizes
from crossgrad.algorithms import CGA, DPSGD, SGP, SwarmSGD, comp_cga
from crossgrad.data import IID, load
from crossgrad.experiments.choices import TrainingChoice
from crossgrad.experiments.config import choose
from crossgrad.experiments.experiment import Experiment
from crossgrad.graphs import GRAPHS
from crossgrad.models.zoo import MLP

TABLE1_ALGORITHMS: dict[str, Any] = {
    "DPSGD": DPSGD(),
    "SGP": SGP(),
    "SwarmSGD": SwarmSGD(),
    "CGA": CGA(),
    "CompCGA": comp_cga(),
}
RATE_COLUMNS = ("method", "rate", "formula", "formula, kB", "sent, kB", "per batch each, kB", "share", "what is sent")


@dataclass(frozen=True)
class RateRow:
    """A line of Table 1 for one graph; bytes are those of all agents together."""

    rate: Rate
    sizes: Sizes
    measured: float  # per step
    by_kind: dict[str, float]  # the same: models, gradients, codes (compressed gradients), push-sum weights
    batches: float  # mini-batches that all agents together draw in a step: one each, but for SwarmSGD

    @property
    def printed(self) -> float:
        """Bytes per mini-batch by the paper's formula."""
        return self.rate.printed_bytes(self.sizes)

    @property
    def per_batch_each(self) -> float:
        """Bytes measured for as many mini-batches as there are agents."""
        return self.measured * self.sizes.agents / self.batches

    def cells(self) -> tuple[str, ...]:
        """The row as texts, one for each of TABLE_COLUMNS."""
        return (
            self.rate.method,
            self.rate.rate,
            self.rate.printed,
            *(f"{value / 1000:,.1f}" for value in (self.printed, self.measured, self.per_batch_each)),
            f"{self.per_batch_each / self.printed:.2f}",
            self.rate.sent,
        )


def table1(graph: str, agents: int, steps: int = 4) -> list[RateRow]:
    """Table 1 for a graph, measured in a few steps of each method on digits with an MLP 64-32-10."""
    spec, data = choose(GRAPHS, graph, "graph", {}), load("digits")
    training = TrainingChoice(batch_size=16, steps=steps)
    rows = []
    for rate in RATES:
        one = Experiment(MLP((32,)), spec, TABLE1_ALGORITHMS[rate.method], IID(), agents=agents, training=training)
        run = one.start(data)
        for _ in range(steps):
            run.step()
        sizes = Sizes(run.model.start.numel(), agents, run.graph.union().weights.nnz)
        by_kind = {kind: sent / steps for kind, sent in run.traffic.by_kind().items()}
        batches = one.algorithm.pace(agents) * agents if hasattr(one.algorithm, "pace") else agents
        rows.append(RateRow(rate, sizes, run.traffic.total / steps, by_kind, batches))
    return rows


def notes_on_rates(rows: Sequence[RateRow]) -> list[str]:
    """Sentences that say where formulas and measurement differ."""
    sent = {row.rate.method: row.measured for row in rows}
    sizes = rows[0].sizes
    b = BITS_PER_NUMBER
    differ = "; ".join(f"{row.rate.method}: {row.rate.why}" for row in rows)
    return [
        f"m_s: {sizes.model:,} bytes ({sizes.parameters:,} numbers of {b} bits). N_b: {sizes.entries} entries of "
        f"Pi, of which {sizes.agents} are its diagonal. Bytes are those of all agents: by the formula, measured "
        "in a step, measured until every agent has drawn a mini-batch on average; share is the last over the first.",
        f"Why they differ. {differ}.",
        f"CompCGA sends {sent['CompCGA'] / sent['CGA']:.1%} of what CGA sends, and saves "
        f"{1 - sent['CompCGA'] / sent['CGA']:.1%}: the footnote's 1/b would be {1 / b:.1%}, but with models in full "
        f"precision no more than 1 - (1 + 1/{b})/2 = {1 - (1 + 1 / b) / 2:.1%} can be saved.",
    ]


def rates_as_markdown(rows: Sequence[RateRow]) -> str:
    """A Markdown table, and below it the differences of formulas and measurement."""
    right = ["---:" if "kB" in name or name == "share" else "---" for name in RATE_COLUMNS]
    lines = [RATE_COLUMNS, tuple(right), *(row.cells() for row in rows)]
    table = "".join(f"| {' | '.join(line)} |\n" for line in lines)
    return table + "".join(f"\n{note}\n" for note in notes_on_rates(rows))
