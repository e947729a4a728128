"""Runs beside the paper's numbers: a row for each method, variant, graph and number of agents, over all seeds."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from math import isfinite
from statistics import mean, pstdev
from typing import Any

from crossgrad._paper.status import status_of
from crossgrad._paper.tables import PAPER_GRAPHS, PAPER_METHODS, PaperCell, cell, paper_table
from crossgrad._paper.verdict import paper_verdict
from crossgrad._runs.results import RunResult

BESIDE_COLUMNS = ("method", "graph", "agents", "paper", "averaged", "mean agent", "worst agent", "difference", "epochs",
           "seeds", "status")  # fmt: skip
NO_VALUE = "-"


@dataclass(frozen=True)
class Row:
    """The runs of one cell: accuracies in percent at the last record, as means over the seeds.

    The last record of a run that diverged counts, too.
    """

    method: str
    variant: str
    graph: str
    agents: int
    paper: PaperCell | None
    averaged: float | None
    mean_agent: float | None
    worst_agent: float | None
    spread: float | None  # deviation of `averaged` over seeds; None for fewer than two
    difference: float | None  # averaged - paper, where the runs are on the paper's data
    epochs: float  # of the local data, of the seed that came furthest
    seeds: int
    status: str
    data: str | None  # what was trained on; None where nothing ran
    verdict: str  # whether the paper's number was reached; empty where the runs are not on the paper's data

    @property
    def name(self) -> str:
        """The method and its variant; only CGA has two, the paper's and the released code's."""
        plain = not self.variant or (self.variant == "paper" and not self.method.endswith("CGA"))
        return self.method if plain else f"{self.method} ({self.variant})"

    def cells(self) -> tuple[str, ...]:
        """The row as texts, one for each of TABLE_COLUMNS."""
        spread = "" if self.spread is None else f" ± {self.spread:.1f}"
        return (
            self.name,
            self.graph,
            str(self.agents),
            NO_VALUE if self.paper is None else str(self.paper),
            _one_decimal(self.averaged) + spread,
            _one_decimal(self.mean_agent),
            _one_decimal(self.worst_agent),
            NO_VALUE if self.difference is None else f"{self.difference:+.1f}",
            f"{self.epochs:.3g}",
            str(self.seeds),
            self.status,
        )


def rows(results: Iterable[RunResult], table: str) -> list[Row]:
    """The rows of one of the paper's tables for which there are runs.

    Results of another table or split, where their labels name one, are left out.
    """
    paper = paper_table(table)
    groups: dict[tuple[str, str, str, int], list[RunResult]] = {}
    for result in results:
        labels = result.labels
        if labels.get("split", paper.split) == paper.split and labels.get("table", table) == table:
            groups.setdefault(_place_in_paper(result), []).append(result)
    return [_row_of_place(place, groups[place], table) for place in sorted(groups, key=_order_in_paper)]


def rows_as_markdown(rows: Sequence[Row]) -> str:
    """A Markdown table, with notes on numbers that cannot be compared with the paper's."""
    right = {"agents", "paper", "averaged", "mean agent", "worst agent", "difference", "epochs", "seeds"}
    lines = [
        BESIDE_COLUMNS,
        tuple("---:" if name in right else "---" for name in BESIDE_COLUMNS),
        *(row.cells() for row in rows),
    ]
    notes = [f"\n{note}\n" for note in notes_on_rows(rows)]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines) + "".join(notes)


def notes_on_rows(rows: Sequence[Row]) -> list[str]:
    """Sentences that a reader of the table needs."""
    other = sorted(
        {row.data for row in rows if row.data and row.paper and row.data != paper_table(row.paper.table).data}
    )
    theirs = sorted({paper_table(row.paper.table).data for row in rows if row.paper})
    if not other:
        return []
    return [
        f"These runs are on {' and '.join(other)}, the paper's numbers on {' and '.join(theirs)}: compare the pattern, "
        "not the numbers. No difference is taken."
    ]


def as_json(rows: Sequence[Row], command: Callable[[Row], str] | None = None) -> list[dict[str, Any]]:
    """The rows as plain values; `command` gives the command that repeats a row."""
    return [
        {
            "method": row.method,
            "variant": row.variant,
            "graph": row.graph,
            "agents": row.agents,
            "paper": None if row.paper is None else str(row.paper),
            "averaged": row.averaged,
            "mean_agent": row.mean_agent,
            "worst_agent": row.worst_agent,
            "difference": row.difference,
            "epochs": row.epochs,
            "seeds": row.seeds,
            "spread": row.spread,
            "status": row.status,
            "verdict": row.verdict,
            "command": None if command is None else command(row),
        }
        for row in rows
    ]


def _place_in_paper(result: RunResult) -> tuple[str, str, str, int]:
    labels = result.labels
    for axis in ("method", "graph", "agents"):
        if axis not in labels:
            raise ValueError(
                f"a run that is set beside the paper says its method, graph and number of agents; {result.name} has no "
                f"{axis}. Was it made by `crossgrad reproduce`?"
            )
    if not labels["agents"].isdecimal():
        raise ValueError(f"{result.name}: agents must be a whole number; found {labels['agents']!r}.")
    return labels["method"], labels.get("variant", ""), labels["graph"], int(labels["agents"])


def _order_in_paper(place: tuple[str, str, str, int]) -> tuple[Any, ...]:
    """The paper's order of methods, then its variant, of graphs, then rising numbers of agents; others come last."""
    method, variant, graph, agents = place
    return _rank(PAPER_METHODS, method), method, variant != "paper", variant, _rank(PAPER_GRAPHS, graph), graph, agents


def _rank(known: tuple[str, ...], name: str) -> int:
    return known.index(name) if name in known else len(known)


def _row_of_place(place: tuple[str, str, str, int], results: list[RunResult], table: str) -> Row:
    method, variant, graph, agents = place
    paper = cell(table, method, graph, agents)
    last = [result.last for result in results if result.last is not None]
    averaged = _percents(record.accuracy for record in last)
    data = next((_data_of(result) for result in results), None)
    comparable = data in (None, paper_table(table).data)
    theirs = paper.accuracy if paper is not None and comparable else None
    return Row(
        method=method,
        variant=variant,
        graph=graph,
        agents=agents,
        paper=paper,
        averaged=mean(averaged) if averaged else None,
        mean_agent=_mean_percent(record.mean_agent for record in last),
        worst_agent=_mean_percent(record.worst_agent for record in last),
        spread=pstdev(averaged) if len(averaged) > 1 else None,
        difference=mean(averaged) - theirs if averaged and theirs is not None else None,
        epochs=max((record.epoch for record in last), default=0.0),
        seeds=len(results),
        status=status_of(results),
        data=data,
        verdict=paper_verdict(results, paper) if comparable else "",
    )


def _data_of(result: RunResult) -> str | None:
    """The run's data in words, such as "mnist", or "mnist shrunk 2 times"."""
    data = result.experiment.get("data", {})
    return f"{data.get('name')} shrunk {data['shrink']} times" if "shrink" in data else data.get("name")


def _percents(shares: Iterable[float | None]) -> list[float]:
    return [100 * share for share in shares if share is not None and isfinite(share)]


def _mean_percent(shares: Iterable[float | None]) -> float | None:
    known = _percents(shares)
    return mean(known) if known else None


def _one_decimal(value: float | None) -> str:
    return NO_VALUE if value is None else f"{value:.1f}"
