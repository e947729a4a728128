"""Running the cells of a grid: a worker takes any cell that has not ended and that no other worker has locked.

Workers need not know each other: a worker locks the folder of its cell, on one machine or on several that share a disk.
So a worker can be killed, and others can join, at any time. Only the workers of one command share something: the
machine's memory, through a gate.
"""

from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

import torch

from crossgrad._forecast.memory import give_back
from crossgrad._runs.checkpoint import Checkpoints
from crossgrad._runs.folder import BusyError, RunFolder
from crossgrad._runs.results import read_results
from crossgrad._runs.runner import Listener, Run, Stop
from crossgrad._storage import atomic
from crossgrad._sweep.grid import Cell
from crossgrad._sweep.memory_gate import NoGate, Slot, StoppedError
from crossgrad._sweep.store import Store
from crossgrad.data import Split
from crossgrad.experiments.experiment import DataChoice

FAILED = "failed.txt"  # in a cell's folder: why it could not be run


def folder_of(sweep: Path, cell: Cell) -> Path:
    """The folder of a cell."""
    return sweep / "cells" / cell.name


@dataclass(frozen=True)
class Worker:
    """Runs cells one after the other."""

    sweep: Path
    listener: Listener
    stop: Stop
    save_every: float = 60.0  # seconds between a cell's checkpoints
    slot: Slot | NoGate = NoGate()

    def run_all(self, cells: Iterable[Cell]) -> None:
        """Run the cells that no other worker has locked."""
        for cell in cells:
            if self.stop.wanted:
                return
            self.run(cell)

    def run(self, cell: Cell) -> None:
        """Run or resume one cell, unless it has ended or another worker has it."""
        folder = RunFolder(folder_of(self.sweep, cell))
        if folder.ended:
            return
        folder.path.mkdir(parents=True, exist_ok=True)
        try:
            folder.lock()
        except BusyError:
            return
        try:
            if not folder.ended:  # another worker may just have finished it
                with suppress(StoppedError):
                    self._run(folder, cell)
                if folder.ended:
                    Store(self.sweep).add(read_results(folder.path)[0], cell.labels)
        finally:
            give_back()
            self.slot.leave()
            folder.unlock()

    def _run(self, folder: RunFolder, cell: Cell) -> None:
        begun = (folder.path / "experiment.toml").exists()
        (folder.path / FAILED).unlink(missing_ok=True)
        experiment = cell.experiment
        torch.set_num_threads(experiment.training.threads or 1)
        with _noted(folder.path / FAILED):
            data = _data(experiment.data)
            training = experiment.start(data, admit=self.slot.enter)
            atomic.write_json(folder.path / "cell.json", {"labels": cell.labels, "steps": training.total_steps})
            if not begun:
                folder.begin(experiment)
            checkpoints = Checkpoints(folder.checkpoints, training, folder.digest())
            run = Run(training, folder, checkpoints, self.listener, self.stop, self.save_every)
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
        atomic.write(path, [f"{'there is not enough memory for it.' if memory else error}\n".encode()])


@lru_cache(maxsize=2)
def _data(choice: DataChoice) -> Split:
    return choice.load()
