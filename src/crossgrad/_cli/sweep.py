"""`crossgrad sweep` and `crossgrad query`: all cells of a grid, and what came out of them."""

import multiprocessing
import os
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from crossgrad._cli.children import deaf_to_ctrl_c, end_with_parent
from crossgrad._cli.console import say
from crossgrad._cli.overview import Overview
from crossgrad._cli.progress import SilentListener
from crossgrad._runs.results import PACKED, pack, read_results
from crossgrad._runs.runner import Stop
from crossgrad._storage import atomic
from crossgrad._sweep.cluster import submit
from crossgrad._sweep.grid import Cell, Grid, read_grid
from crossgrad._sweep.memory_gate import MemoryGate, Place
from crossgrad._sweep.store import Store
from crossgrad._sweep.worker import Worker

BESIDE = ("grid.toml", "reproduction.json", "table.md")  # what a sweep's folder has besides its cells
LOOK_EVERY = 0.5  # seconds


@dataclass(frozen=True)
class SweepOptions:
    """What the command line says about how a sweep is run."""

    jobs: int | None = None  # processes; None: as many as there are cores for
    save_every: float = 60.0  # seconds between a cell's checkpoints
    cluster: str | None = None  # an engine of sweep.cluster
    options: tuple[str, ...] = ()  # of that engine, key=value
    tuning: bool = True  # let workers keep their memory


def run_sweep(path: Path, changes: list[str], out: Path, means: SweepOptions) -> None:
    """Run all cells of a grid's file that have not been run, in the folder of that grid."""
    grid = read_grid(path, changes)
    folder = out / grid.name
    folder.mkdir(parents=True, exist_ok=True)
    atomic.write(folder / "grid.toml", [path.read_bytes()])
    complete = run_cells(folder, grid, means)
    print(f"Results: {folder} (query them: crossgrad query {folder} 'SELECT * FROM cells')")
    if not complete:
        sys.exit(1)


def run_cells(folder: Path, grid: Grid, means: SweepOptions) -> bool:
    """Run the cells that have not ended, and wait; False if some could not be run."""
    console = Console()
    overview = Overview(folder, grid.cells, console)
    Store(folder).refresh()
    waiting = overview.waiting
    begun = f", {overview.ended} of them run before" if overview.ended else ""
    say(console, f"{grid.name}: {len(grid.cells)} cells{begun}.")
    if waiting and means.cluster:
        _on_cluster(folder, waiting, means, overview)
    elif waiting:
        _here(folder, waiting, means, overview)
    Store(folder).refresh()
    failures = overview.failures()
    for failure in failures:
        say(console, f"Could not be run: {failure}")
    diverged = f", {overview.diverged} of them diverged" if overview.diverged else ""
    say(console, f"{overview.ended} of {len(grid.cells)} cells have ended{diverged}.")
    return overview.ended == len(grid.cells)


def _here(folder: Path, cells: tuple[Cell, ...], means: SweepOptions, overview: Overview) -> None:
    """With processes of this machine; a Ctrl-C saves what they are at, a second one does not wait."""
    context = multiprocessing.get_context("spawn")
    threads = max(cell.experiment.training.threads or 1 for cell in cells)
    jobs = min(means.jobs or max(1, cores() // threads), len(cells))
    room = MemoryGate(folder, jobs)
    workers = [context.Process(target=_worker, args=(folder, cells, means, room, n)) for n in range(jobs)]
    with Stop() as stop:
        try:
            with deaf_to_ctrl_c():
                for worker in workers:
                    worker.start()
            _watch(overview, lambda: not stop.wanted and _alive(workers, room))
            if stop.wanted:
                say(Console(stderr=True), "Stopping: the cells at work are saved. A second Ctrl-C does not wait.")
                for worker in workers:
                    worker.terminate()  # which they take as the wish to stop after this step
                _watch(overview, lambda: _alive(workers, room))
        except BaseException as error:
            for worker in workers:
                worker.kill()
            if not isinstance(error, KeyboardInterrupt):
                raise
    if stop.wanted:
        say(Console(stderr=True), "Stopped. The same command goes on where it was.")
        sys.exit(128 + (stop.signal or 2))
    _check(workers)


def _alive(workers: Sequence[BaseProcess], room: MemoryGate) -> bool:
    alive = [worker.is_alive() for worker in workers]
    for number, lives in enumerate(alive):
        if not lives:
            room.leave(number)
    return any(alive)


def _check(workers: Sequence[BaseProcess]) -> None:
    lost = [worker.exitcode for worker in workers if worker.exitcode]
    if killed := [-code for code in lost if code < 0]:
        raise ChildProcessError(
            f"{len(killed)} of {len(workers)} processes were ended from outside (signal {killed[0]}); is there enough "
            "memory? The same command goes on where they were; --jobs takes fewer."
        )
    if lost:
        raise ChildProcessError("a process failed; it has said why above. The same command goes on where it was.")


def _on_cluster(folder: Path, cells: tuple[Cell, ...], means: SweepOptions, overview: Overview) -> None:
    """As jobs of a batch system; a Ctrl-C leaves them to it."""
    assert means.cluster is not None
    options = dict(_option(option) for option in means.options)
    jobs = submit(folder, cells, means.cluster, options, means.jobs or cores(), means.save_every)
    say(overview.console, f"{len(jobs)} jobs were submitted; their logs are in {folder / 'jobs'}.")
    try:
        _watch(overview, lambda: not all(job.done() for job in jobs))
    except KeyboardInterrupt:
        say(Console(stderr=True), "The jobs go on; the same command shows them again.")
        sys.exit(130)
    for job in jobs:
        if job.exception() is not None:
            raise ChildProcessError(f"job {job.job_id} failed; {job.paths.stderr} says why.")


def _option(text: str) -> tuple[str, Any]:
    key, equals, value = text.partition("=")
    if not equals or not key:
        raise ValueError(f"--option is written key=value, such as timeout_min=60; found {text!r}.")
    return key, int(value) if value.isdecimal() else value


def _watch(overview: Overview, going: Callable[[], bool]) -> None:
    with overview.shown() if overview.live else nullcontext():
        while going():
            overview.look()
            time.sleep(LOOK_EVERY)
    overview.look()


def _worker(folder: Path, cells: tuple[Cell, ...], means: SweepOptions, room: MemoryGate, number: int) -> None:
    end_with_parent()
    if means.tuning:
        from crossgrad._cli.tuning import tune

        tune()
    try:
        with Stop() as stop:
            place = Place(room, number, stop, _aloud)
            Worker(folder, Aloud(), stop, means.save_every, place).run_all(cells)
    except (ValueError, OSError) as error:
        _aloud(f"crossgrad: {error}")
        sys.exit(2)


class Aloud(SilentListener):
    """Silent, but for what a person must mend."""

    last_problem = ""

    def paused(self, problem: str) -> None:
        if problem == self.last_problem:
            return
        self.last_problem = problem
        _aloud(f"Paused: {problem}. The cell goes on as soon as it can be written.")


def _aloud(sentence: str) -> None:
    print(sentence, file=sys.stderr, flush=True)


def cores() -> int:
    """Cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def pack_sweep(folder: Path, out: Path) -> None:
    """Put a sweep's settings and records into a folder with few and small files."""
    results = read_results(folder)
    if out.exists() and any(out.iterdir()):
        raise ValueError(f"{out} is not empty, and nothing is overwritten. Name a new folder.")
    out.mkdir(parents=True, exist_ok=True)
    pack(results, out / PACKED)
    for name in BESIDE:
        if (folder / name).is_file():
            atomic.write(out / name, [(folder / name).read_bytes()])
    kilobytes = sum(path.stat().st_size for path in out.iterdir()) / 1e3
    print(f"{len(results)} runs are packed in {out} ({kilobytes:.0f} kB)")


def show_query(folder: Path, sql: str) -> None:
    """Print what a query finds in a sweep's results."""
    columns, rows = Store(folder).query(sql)
    console = Console()
    if not console.is_terminal:
        for row in [tuple(columns), *rows]:
            print("\t".join("" if value is None else str(value) for value in row))
        return
    table = Table(box=None, pad_edge=False)
    for column in columns:
        table.add_column(column)
    for row in rows:
        table.add_row(*("" if value is None else str(value) for value in row))
    console.print(table)
    say(console, f"{len(rows)} rows")
