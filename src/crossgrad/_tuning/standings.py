"""Results of tuned settings on the test data: means over seeds with confidence intervals, and costs."""

import math
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from statistics import mean, stdev
from typing import Any

from scipy.stats import t as student

from crossgrad._runs.results import RunResult
from crossgrad._tuning.plan import ADDED, TEST, VALIDATION, score, without_added
from crossgrad._tuning.search import DIVERGED_SCORE

CONFIDENCE = 0.95


@dataclass(frozen=True)
class Interval:
    """A mean over seeds, and half the width of its 95 % confidence interval by Student's t. In percent."""

    mean: float
    half_width: float

    @classmethod
    def of(cls, values: Sequence[float]) -> "Interval":
        """The interval of these values.

        >>> Interval.of([90.0, 92.0, 94.0])
        Interval(mean=92.0, half_width=4.97)
        """
        if len(values) < 2:
            return cls(round(mean(values), 2), math.nan)
        factor = student.ppf((1 + CONFIDENCE) / 2, len(values) - 1)
        return cls(round(mean(values), 2), round(float(factor) * stdev(values) / math.sqrt(len(values)), 2))

    def __str__(self) -> str:
        return f"{self.mean:.1f} ± {self.half_width:.1f}"


@dataclass(frozen=True)
class Standing:
    """One of the things that are compared, with its best settings: a row of the table."""

    labels: dict[str, str]
    lr: float
    momentum: float | None
    validation: float  # percent, of the run that settings were judged on
    trials: int
    at_edge: bool  # whether the best step size is the smallest or the largest that was tried
    averaged: Interval
    mean_agent: Interval
    worst_agent: Interval
    diverged: int  # of the seeds
    seeds: tuple[str, ...]
    megabytes: float  # sent per agent
    rounds: int  # of communication
    gradients: float  # per agent
    simulated_seconds: float | None
    commit: str

    def as_json(self) -> dict[str, Any]:
        """Plain values; `from_json` reads them back."""
        return asdict(self)

    @classmethod
    def from_json(cls, plain: dict[str, Any]) -> "Standing":
        """The row that `as_json` made these values from."""
        three = {name: Interval(**plain[name]) for name in ("averaged", "mean_agent", "worst_agent")}
        return cls(**(plain | three | {"seeds": tuple(plain["seeds"])}))


def standings(results: Iterable[RunResult], judge: str = "mean_agent") -> list[Standing]:
    """A row for everything whose best settings have been run, in the order of the results.

    Where several settings of one thing have been run, only those with the best score have a row. Of runs with the same
    labels, as when a later version has run them again, only the last one counts.
    """
    trials: dict[tuple[tuple[str, str], ...], list[RunResult]] = {}
    tests: dict[tuple[tuple[str, str], ...], dict[tuple[str, str], dict[str, RunResult]]] = {}
    for result in results:
        labels = dict(result.labels)
        if not labels.keys() >= set(ADDED) or result.ended not in ("finished", "diverged") or result.last is None:
            continue
        place, chosen = _tuned_labels(labels), (labels["lr"], labels["momentum"])
        if labels["part"] == VALIDATION:
            trials.setdefault(place, []).append(result)
        elif labels["part"] == TEST:
            tests.setdefault(place, {}).setdefault(chosen, {})[labels["seed"]] = result
    rows = []
    for place, by_settings in tests.items():
        scores = {(one.labels["lr"], one.labels["momentum"]): score(one, judge) for one in trials.get(place, ())}
        chosen = max(by_settings, key=lambda settings: scores.get(settings, DIVERGED_SCORE))
        rows.append(_standing(dict(place), chosen, scores, list(by_settings[chosen].values())))
    return rows


def _tuned_labels(labels: dict[str, str]) -> tuple[tuple[str, str], ...]:
    return tuple(without_added(labels).items())


def _standing(
    labels: dict[str, str],
    chosen: tuple[str, str],
    scores: dict[tuple[str, str], float],
    runs: list[RunResult],
) -> Standing:
    runs = sorted(runs, key=lambda run: int(run.labels["seed"]))
    last = [run.records[-1] for run in runs]
    agents = [len(record.bytes_by_agent) for record in last]
    tried = [float(lr) for lr, _ in scores]
    times = [record.simulated_seconds for record in last if record.simulated_seconds is not None]
    lr, momentum = chosen
    return Standing(
        labels=labels,
        lr=float(lr),
        momentum=None if momentum == "-" else float(momentum),
        validation=round(100 * scores.get(chosen, math.nan), 2),
        trials=len(scores),
        at_edge=bool(tried) and float(lr) in (min(tried), max(tried)),
        averaged=Interval.of([100 * (record.accuracy or 0.0) for record in last]),
        mean_agent=Interval.of([100 * (record.mean_agent or 0.0) for record in last]),
        worst_agent=Interval.of([100 * (record.worst_agent or 0.0) for record in last]),
        diverged=sum(run.ended == "diverged" for run in runs),
        seeds=tuple(run.labels["seed"] for run in runs),
        megabytes=float(f"{mean(r.bytes_sent / n for r, n in zip(last, agents, strict=True)) / 1e6:.3g}"),
        rounds=round(mean(record.step * run.rounds_per_step for record, run in zip(last, runs, strict=True))),
        gradients=round(mean(record.gradients / n for record, n in zip(last, agents, strict=True)), 1),
        simulated_seconds=float(f"{mean(times):.3g}") if times else None,
        commit=", ".join(dict.fromkeys(str(run.versions.get("commit", "")) for run in runs)),
    )


HEADINGS = (
    *("lr", "momentum", "validation", "averaged", "mean agent", "worst agent"),
    *("MB per agent", "simulated s", "trials", "seeds"),
)


def as_cells(row: Standing) -> tuple[str, ...]:
    """The row as texts, in the order of HEADINGS."""
    died = f", {row.diverged} diverged" if row.diverged else ""
    return (
        f"{row.lr:g}{' (edge)' if row.at_edge else ''}",
        "-" if row.momentum is None else f"{row.momentum:g}",
        f"{row.validation:.1f}",
        str(row.averaged),
        str(row.mean_agent),
        str(row.worst_agent),
        f"{row.megabytes:g}",
        "-" if row.simulated_seconds is None else f"{row.simulated_seconds:g}",
        str(row.trials),
        f"{len(row.seeds)}{died}",
    )


def standings_as_markdown(rows: Sequence[Standing]) -> str:
    """The rows as a Markdown table, sorted by the mean agent's accuracy."""
    if not rows:
        return "Nothing has been run yet.\n"
    axes = list(rows[0].labels)
    lines = [[*axes, *HEADINGS], ["---"] * len(axes) + ["---:"] * len(HEADINGS)]
    for row in ranked(rows):
        lines.append([*(row.labels.get(axis, "") for axis in axes), *as_cells(row)])
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


def ranked(rows: Sequence[Standing]) -> list[Standing]:
    """The rows sorted by the mean agent's accuracy, the highest first."""
    return sorted(rows, key=lambda row: -row.mean_agent.mean)
