"""The processes that run the cells of a grid, on this machine or as jobs of a cluster."""

import gc
import multiprocessing
import os
import sys
import time
from collections.abc import Callable
from contextlib import nullcontext
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any

from rich.console import Console

from crossgrad._cli.children import end_with_parent
from crossgrad._cli.console import printable, say
from crossgrad._cli.options import SweepOptions
from crossgrad._cli.overview import Overview
from crossgrad._cli.worker_pool import PoolProgress, WorkerPool
from crossgrad._logging.logger import check_loggers
from crossgrad._registry.shipment import Shipment
from crossgrad._runs.runner import SilentListener, Stop
from crossgrad._storage import atomic
from crossgrad._sweep.cluster import submit
from crossgrad._sweep.grid import Cell, Grid
from crossgrad._sweep.memory_gate import MemoryGate, Reservation
from crossgrad._sweep.store import Store
from crossgrad._sweep.worker import Worker

JOB_POLL_SECONDS = 0.5


def run_cells(folder: Path, grid: Grid, options: SweepOptions) -> bool:
    """Run the cells that have not ended, and wait; False if some could not be run."""
    atomic.check_folder(folder / "cells")
    console = Console()
    overview = Overview(folder, grid.cells, console)
    Store(folder).refresh()
    waiting = overview.waiting
    begun = f", {overview.ended} of them run before" if overview.ended else ""
    say(console, f"{grid.name}: {len(grid.cells)} cells{begun}.")
    if waiting and options.cluster:
        _on_cluster(folder, waiting, options, overview)
    elif waiting:
        _here(folder, waiting, options, overview)
    damaged = Store(folder).refresh()
    failures = overview.failures()
    for failure in failures:
        say(console, f"Could not be run: {failure}")
    for name, reason in damaged.items():
        if not any(name in failure for failure in failures):  # it has ended, but is damaged
            say(console, f"Left out of the results: {name}: {reason}")
    diverged = f", {overview.diverged} of them diverged" if overview.diverged else ""
    say(console, f"{overview.ended} of {len(grid.cells)} cells have ended{diverged}.")
    return overview.ended == len(grid.cells) and not damaged


def _here(folder: Path, cells: tuple[Cell, ...], options: SweepOptions, overview: Overview) -> None:
    """Run the cells in processes of this machine. First Ctrl-C: save and stop. Second: stop at once."""
    context = multiprocessing.get_context("spawn")
    threads = max(cell.experiment.training.threads or 1 for cell in cells)
    jobs = min(options.jobs or max(1, cores() // threads), len(cells))
    home = folder.resolve()  # a plug-in may change the working directory
    gate, stopping = MemoryGate(home, jobs), context.RawValue("b", 0)
    progress = PoolProgress(context, jobs, len(cells))
    arguments = (home, Shipment.of(cells), options, gate, progress, stopping)

    def make(number: int) -> BaseProcess:
        return context.Process(target=_worker, args=(*arguments, number))

    pool = WorkerPool(folder, cells, gate, progress, make, jobs)
    with Stop(ends_process=True) as stop:
        try:
            pool.start()
            _watch(overview, lambda: not stop.wanted and pool.alive())
            if stop.wanted:
                say(Console(stderr=True), "Stopping: running cells are saved. A second Ctrl-C does not wait.")
                stopping.value = 1  # no signal: one to the whole process group has reached the workers already
                _watch(overview, lambda: pool.alive(replace=False))
        except BaseException as error:
            pool.kill()
            if not isinstance(error, KeyboardInterrupt):
                raise
    if stop.wanted:
        say(Console(stderr=True), "Stopped. Run the same command again to resume.")
        sys.exit(128 + (stop.signal or 2))
    pool.check()


def _on_cluster(folder: Path, cells: tuple[Cell, ...], options: SweepOptions, overview: Overview) -> None:
    """Run the cells as jobs of a batch system; Ctrl-C leaves the jobs running."""
    assert options.cluster is not None
    given = dict(_option(option) for option in options.option or ())
    log = check_loggers(options.log)
    jobs = submit(folder, cells, options.cluster, given, options.jobs or cores(), options.checkpoint_every, log)
    say(overview.console, f"{len(jobs)} jobs were submitted; their logs are in {folder / 'jobs'}.")
    try:
        _watch(overview, lambda: not all(job.done() for job in jobs))
    except KeyboardInterrupt:
        say(Console(stderr=True), "The jobs go on; the same command shows them again.")
        sys.exit(130)
    for job in jobs:
        if job.exception() is not None:
            raise ChildProcessError(
                f"job {job.job_id} failed; {job.paths.stderr} says why. Run the same command again to resume."
            )


def _option(text: str) -> tuple[str, Any]:
    key, equals, value = text.partition("=")
    if not equals or not key:
        raise ValueError(f"--option must be key=value, such as timeout_min=60; found {text!r}.")
    return key, int(value) if value.isdecimal() else value


def _watch(overview: Overview, going: Callable[[], bool]) -> None:
    with overview.shown() if overview.live else nullcontext():
        while going():
            overview.look()
            time.sleep(JOB_POLL_SECONDS)
    overview.look()


class WorkerStop(Stop):
    """A stop by a signal to this process, or by the command that started it."""

    def __init__(self, stopping: Any) -> None:
        super().__init__(ends_process=True)
        self.stopping = stopping

    @property
    def wanted(self) -> bool:
        return super().wanted or bool(self.stopping.value)


def _worker(
    folder: Path,
    cells: Shipment,
    options: SweepOptions,
    gate: MemoryGate,
    progress: PoolProgress,
    stopping: Any,
    number: int,
) -> None:
    end_with_parent()
    if options.keep_memory:
        from crossgrad._cli.freed_memory import keep_freed_memory

        keep_freed_memory()
    gc.freeze()  # what is imported by now stays; looking through it after every cell took a tenth of a second
    try:
        with WorkerStop(stopping) as stop:
            slot = Reservation(gate, number, stop, _print_error)
            worker = Worker(folder, PauseListener(), stop, options.checkpoint_every, slot, check_loggers(options.log))
            for index, cell in enumerate(cells.unpack()):
                if stop.wanted or not progress.begin(number, index):
                    continue
                if worker.run(cell):
                    progress.end(number)
                else:
                    progress.give_up(number)
    except (ValueError, OSError) as error:
        _print_error(f"crossgrad: {error}")
        sys.exit(2)
    except KeyboardInterrupt:  # the last checkpoint has been written
        sys.exit(130)


class PauseListener(SilentListener):
    """Prints only what needs somebody's attention: a cell that cannot write."""

    last_problem = ""

    def paused(self, problem: str) -> None:
        if problem == self.last_problem:
            return
        self.last_problem = problem
        _print_error(f"Paused: {problem}. The cell goes on as soon as it can be written.")


def _print_error(sentence: str) -> None:
    print(printable(sentence), file=sys.stderr, flush=True)


def cores() -> int:
    """The number of cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
