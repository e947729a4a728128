"""The runs of a tuning, round after round, and the table made from them."""

from collections.abc import Iterable
from pathlib import Path

from rich.console import Console
from rich.table import Table

from crossgrad._cli.console import printable, say
from crossgrad._cli.options import SweepOptions
from crossgrad._cli.workers import run_cells
from crossgrad._runs.results import FULL, PACKED, RunResult, read_results
from crossgrad._storage import atomic
from crossgrad._sweep.grid import Cell, Grid
from crossgrad._sweep.worker import folder_of
from crossgrad._tuning.plan import Tuning
from crossgrad._tuning.search import check_optuna
from crossgrad._tuning.standings import HEADINGS, Standing, as_cells, ranked, standings, standings_as_markdown

SHOWN = ("lr", "averaged", "mean agent", "worst agent", "MB per agent")  # on a terminal; table.md has all


def run_tuning(tuning: Tuning, folder: Path, options: SweepOptions, others: bool = False) -> bool:
    """Run what has not been run, then write and print the table; False if some could not be run.

    Args:
        tuning: what is compared.
        folder: where its runs are.
        options: how they are run.
        others: whether the table also has what other commands have compared in this folder.
    """
    check_optuna()
    results = _ended(folder)
    given_up: set[int] = set()
    number = 0
    while needed := _needed(tuning, results, given_up):
        number += 1
        cells = tuple(cell for cells in needed.values() for cell in cells)
        run_cells(folder, Grid(f"{tuning.name}, round {number}", cells), options)
        results |= _read_ended(folder, cells)
        given_up |= {at for at, cells in needed.items() if any(cell.name not in results for cell in cells)}
    _write(tuning, folder, tuning.among(results, others), bool(given_up))
    return not given_up


def _needed(tuning: Tuning, results: dict[str, RunResult], given_up: set[int]) -> dict[int, list[Cell]]:
    """The cells of the next round, by the number of the entry that they belong to; failed entries are left out."""
    return {at: cells for at, cells in enumerate(tuning.next_cells(results)) if cells and at not in given_up}


def _ended(folder: Path) -> dict[str, RunResult]:
    if not (folder / "cells").is_dir() and not (folder / PACKED).is_file():
        return {}
    return _of_ended(read_results(folder, damaged={}))


def _read_ended(folder: Path, cells: Iterable[Cell]) -> dict[str, RunResult]:
    """The results of cells that have just been run, without damaged ones, which have been named before."""
    found: list[RunResult] = []
    for cell in cells:
        path = folder_of(folder, cell)
        if (path / "summary.json").exists():
            try:
                found += [RunResult(**{**vars(one), "labels": cell.labels}) for one in read_results(path)]
            except ValueError:
                continue
    return _of_ended(found)


def _of_ended(results: Iterable[RunResult]) -> dict[str, RunResult]:
    return {result.name: result for result in results if result.ended in FULL}


def _write(tuning: Tuning, folder: Path, results: list[RunResult], incomplete: bool) -> None:
    rows = standings(results, tuning.choice.judge)
    choice = tuning.choice
    note = (
        f"Settings by the {choice.judge.replace('_', ' ')} on validation data, {choice.trials} trials each; "
        f"test data, seeds {', '.join(map(str, choice.seeds))}; ± is half of a 95 % confidence interval."
    )
    if incomplete:
        note += " Some could not be run and are missing."
    atomic.write(folder / "table.md", [f"{note}\n\n{standings_as_markdown(rows)}".encode()])
    atomic.write_json(folder / "standings.json", {"rows": [row.as_json() for row in rows]})
    console = Console()
    console.print(standings_table(rows))
    say(console, note)
    print(f"Table: {folder / 'table.md'}")


def standings_table(rows: list[Standing]) -> Table:
    """The rows on a terminal, the best mean agent first."""
    table = Table(box=None, pad_edge=False)
    axes = list(rows[0].labels) if rows else []
    told = [axis for axis in axes if len({row.labels.get(axis) for row in rows}) > 1] or axes[:1]  # not what all share
    for axis in told:
        table.add_column(printable(axis))
    for heading in SHOWN:
        table.add_column(heading, justify="right", no_wrap=True)
    for row in ranked(rows):
        cells = dict(zip(HEADINGS, as_cells(row), strict=True))
        table.add_row(*(printable(row.labels.get(axis, "")) for axis in told), *(cells[heading] for heading in SHOWN))
    return table
