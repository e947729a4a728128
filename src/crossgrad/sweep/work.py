"""Running the cells of a grid: a worker takes any cell that has not ended and that nobody else is at.

Workers need not know one another: a cell's folder is locked by the one at work there, on one machine or on many that
share a disk. So a worker can be killed, and more can join, at any time.
"""

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from functools import lru_cache
from pathlib import Path

import torch

from crossgrad import durable
from crossgrad.checkpoint import Checkpoints
from crossgrad.data import Split, load
from crossgrad.results import read_results
from crossgrad.rundir import BusyError, RunFolder
from crossgrad.running import Audience, Run, Stop
from crossgrad.sweep.grid import Cell
from crossgrad.sweep.store import Store

FAILED = "failed.txt"  # in a cell's folder: why it could not be run


def folder_of(sweep: Path, cell: Cell) -> Path:
    """Where a cell is run."""
    return sweep / "cells" / cell.name


def work(sweep: Path, cells: Iterable[Cell], audience: Audience, stop: Stop, save_every: float = 60.0) -> None:
    """Run all cells that nobody else runs, one after the other."""
    for cell in cells:
        if stop.wanted:
            return
        run_cell(sweep, cell, audience, stop, save_every)


def run_cell(sweep: Path, cell: Cell, audience: Audience, stop: Stop, save_every: float = 60.0) -> None:
    """Run one cell, or go on with it, unless it has ended or somebody is at it."""
    folder = RunFolder(folder_of(sweep, cell))
    if folder.ended:
        return
    folder.path.mkdir(parents=True, exist_ok=True)
    try:
        folder.lock()
    except BusyError:
        return
    try:
        if not folder.ended:  # somebody may just have ended it
            _run(folder, cell, audience, stop, save_every)
            if folder.ended:
                Store(sweep).add(read_results(folder.path)[0], cell.labels)
    finally:
        folder.unlock()


def _run(folder: RunFolder, cell: Cell, audience: Audience, stop: Stop, save_every: float) -> None:
    begun = (folder.path / "experiment.toml").exists()
    (folder.path / FAILED).unlink(missing_ok=True)
    experiment = cell.experiment
    torch.set_num_threads(experiment.training.threads or 1)
    durable.write_json(folder.path / "cell.json", {"labels": cell.labels})
    with _noted(folder.path / FAILED):
        training = experiment.start(_data(experiment.data.name, experiment.data.root))
        if not begun:
            folder.begin(experiment)
        checkpoints = Checkpoints(folder.checkpoints, training, folder.digest())
        run = Run(training, folder, checkpoints, audience, stop, save_every)
        if begun:
            run.go_on()
        run.carry_out()


@contextmanager
def _noted(path: Path) -> Iterator[None]:
    """Write down why a cell cannot be run; the others can."""
    try:
        yield
    except (ValueError, MemoryError, RuntimeError) as error:
        memory = "memory" in str(error) or isinstance(error, MemoryError)
        if isinstance(error, RuntimeError) and not memory:  # PyTorch's own kind of MemoryError is one
            raise
        durable.write(path, [f"{'there is not enough memory for it.' if memory else error}\n".encode()])


@lru_cache(maxsize=2)
def _data(name: str, root: str | None) -> Split:
    return load(name, root)
