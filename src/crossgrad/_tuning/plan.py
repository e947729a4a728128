"""The runs of a tuning as cells of a sweep: trials that settings are judged by, then the best ones with other seeds."""

import copy
import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from crossgrad._runs.results import RunResult
from crossgrad._sweep.grid import Cell
from crossgrad._tuning.search import DIVERGED_SCORE, Trial, best_of, next_points
from crossgrad._tuning.space import Point, Space
from crossgrad.experiments.config import ConfigError
from crossgrad.experiments.files import from_table, set_key

Judge = Literal["mean_agent", "averaged", "worst_agent"]
RECORDED: dict[str, str] = {
    "mean_agent": "validation_mean_agent",
    "averaged": "validation_accuracy",
    "worst_agent": "validation_worst_agent",
}
LEAST_SEEDS = 3
ADDED = ("lr", "momentum", "part", "seed")  # labels of a cell besides those of what it is a trial of
VALIDATION, TEST = "validation", "test"


@dataclass(frozen=True)
class TuneChoice:
    """How settings are picked; the table [tune] of a file.

    Args:
        lr: step sizes that are always tried; the grid goes on beyond an edge at which the best one lies.
        momentum: momenta that are always tried, for methods that have one.
        trials: runs on which the settings of each method are judged, the same number for all.
        judge: whose accuracy on the validation data counts: mean_agent, averaged or worst_agent.
        validation: share of each agent's training data that is held out.
        seed: of the runs that settings are judged on.
        seeds: of the runs with the best settings, whose test accuracies are reported; three or more.
    """

    lr: tuple[float, ...] = (0.01, 0.1, 1.0)
    momentum: tuple[float, ...] = (0.0, 0.9)
    trials: int = 8
    judge: Judge = "mean_agent"
    validation: float = 0.2
    seed: int = 0
    seeds: tuple[int, ...] = (1, 2, 3)

    def __post_init__(self) -> None:
        least = len(Space(self.lr, self.momentum).grid())
        if self.trials < least:
            raise ValueError(f"trials must be at least the {least} points of the grid; found {self.trials}.")
        if len(set(self.seeds)) < LEAST_SEEDS:
            raise ValueError(f"seeds must be {LEAST_SEEDS} or more different ones; found {list(self.seeds)}.")
        if self.seed in self.seeds:
            raise ValueError(
                f"seeds must not have the one that settings are picked with, or the best run is reported twice; found "
                f"{self.seed} in both."
            )


@dataclass(frozen=True)
class TunedEntry:
    """One of the things that are compared: its labels, and its experiment as tables."""

    labels: dict[str, str]
    table: dict[str, Any]

    def cell(self, choice: TuneChoice, space: Space, point: Point, seed: int, part: str) -> Cell:
        """The run of one trial, or of one seed with the best settings."""
        table, lr = copy.deepcopy(self.table), space.lr_at(point.lr)
        table.setdefault("schedule", "constant")
        table.setdefault("training", {}).setdefault("validation", choice.validation)
        set_key(table, "schedule.lr", lr)
        momentum = "-"
        if point.momentum is not None:
            momentum = f"{space.momentum_at(point.momentum):g}"
            set_key(table, "algorithm.momentum", space.momentum_at(point.momentum))
        table["seed"] = seed
        table["name"] = ", ".join(self.labels.values())
        added = dict(zip(ADDED, (f"{lr:g}", momentum, part, str(seed)), strict=True))
        return Cell(self.labels | added, from_table(table))

    def space(self, choice: TuneChoice) -> Space:
        """The step sizes of the choice, and its momenta where the algorithm has one."""
        try:
            algorithm: Any = from_table({**copy.deepcopy(self.table), "name": "x"}).algorithm
        except ConfigError as error:
            raise ConfigError(f"{', '.join(self.labels.values())}: {error}") from None
        has = any(field.name == "momentum" for field in dataclasses.fields(algorithm))
        return Space(choice.lr, choice.momentum if has else ())


@dataclass(frozen=True)
class Tuning:
    """Everything that is compared, and how it is tuned."""

    name: str
    entries: tuple[TunedEntry, ...]
    choice: TuneChoice

    def next_cells(self, results: Mapping[str, RunResult]) -> list[list[Cell]]:
        """The cells that each entry needs next, in the order of the entries; an empty list for one that is done.

        Args:
            results: the runs that have ended, by the names of their cells.
        """
        return [self._next(entry, results) for entry in self.entries]

    def among(self, results: Mapping[str, RunResult], others: bool = False) -> list[RunResult]:
        """Those of these results that belong to this tuning, and not to one with shorter runs, say, in the same folder.

        Args:
            results: the runs that have ended, by the names of their cells.
            others: whether to keep those of things that are not compared here.
        """
        used: set[str] = set()
        for entry in self.entries:
            self._next(entry, results, used)
        compared = [entry.labels for entry in self.entries]
        return [
            one
            for name, one in results.items()
            if name in used or (others and without_added(one.labels) not in compared)
        ]

    def _next(self, entry: TunedEntry, results: Mapping[str, RunResult], used: set[str] | None = None) -> list[Cell]:
        choice, space = self.choice, entry.space(self.choice)
        trials: list[Trial] = []
        used = set() if used is None else used  # filled in: the names of the cells that were looked up
        while points := next_points(space, trials, choice.trials, choice.seed):
            cells = [entry.cell(choice, space, point, choice.seed, VALIDATION) for point in points]
            used |= {cell.name for cell in cells}
            if missing := [cell for cell in cells if cell.name not in results]:
                return missing
            found = (results[cell.name] for cell in cells)
            trials += [Trial(point, score(one, choice.judge)) for point, one in zip(points, found, strict=True)]
        best = best_of(trials).point
        tested = [entry.cell(choice, space, best, seed, TEST) for seed in choice.seeds]
        used |= {cell.name for cell in tested}
        return [cell for cell in tested if cell.name not in results]


def without_added(labels: Mapping[str, str]) -> dict[str, str]:
    """The labels of what a cell is a trial of."""
    return {axis: label for axis, label in labels.items() if axis not in ADDED}


def score(result: RunResult, judge: str) -> float:
    """The score of a run: its last accuracy on validation data, or DIVERGED, which is below every accuracy."""
    if result.ended == "diverged" or result.last is None:
        return DIVERGED_SCORE
    try:
        return result.last.diagnostics[RECORDED[judge]]
    except KeyError:
        raise ValueError(
            f"{result.name}: settings are judged by the accuracy on validation data; this run has none. Tune a "
            "task with classes."
        ) from None
