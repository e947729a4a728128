"""Running the cells of a grid: a worker takes any cell that has not ended and that no other worker has locked.

Workers need not know each other: a worker locks the folder of its cell, on one machine or on several that share a disk.
So a worker can be killed, and others can join, at any time. Only the workers of one command share something: the
machine's memory, through a gate.
"""

import errno
import os
import sys
import time
import traceback
from collections.abc import Iterable
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path

import torch

from crossgrad._forecast.memory import give_back
from crossgrad._logging.logger import Logger
from crossgrad._numerics.out_of_memory import NO_MEMORY, lacks_memory
from crossgrad._runs.checkpoint import Checkpoints
from crossgrad._runs.folder import RunFolder
from crossgrad._runs.lock import BusyError
from crossgrad._runs.logged import logged
from crossgrad._runs.results import read_results
from crossgrad._runs.runner import RETRY_SECONDS, Listener, Run, Stop
from crossgrad._storage import atomic
from crossgrad._sweep.grid import Cell
from crossgrad._sweep.memory_gate import NoGate, Reservation, StoppedError
from crossgrad._sweep.store import Store
from crossgrad.data import Split
from crossgrad.experiments.choices import DataChoice
from crossgrad.experiments.config import tidy

NO_SPACE = (errno.ENOSPC, errno.EDQUOT, errno.EROFS)
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
    slot: Reservation | NoGate = NoGate()
    log: tuple[str | Logger, ...] = ()  # as check_loggers returns them

    def run_all(self, cells: Iterable[Cell]) -> None:
        """Run the cells that no other worker has locked."""
        for cell in cells:
            if self.stop.wanted:
                return
            self.run(cell)

    def run(self, cell: Cell) -> bool:
        """Run or resume one cell, unless it has ended or another worker has it; return False if it has failed.

        An error concerns this cell only, even if a plug-in calls `sys.exit` or `os.chdir`: the reason is written to its
        folder, and the next cell is run. On a disk that is full or read-only, it waits.
        """
        here = Path.cwd()
        try:
            while not self._try(cell) and not self.stop.wanted:
                time.sleep(RETRY_SECONDS)
        finally:
            os.chdir(here)
        return not (folder_of(self.sweep, cell) / FAILED).exists()

    def _try(self, cell: Cell) -> bool:
        """Run one cell; False if its folder cannot be written for want of space, which may pass."""
        folder = RunFolder(folder_of(self.sweep, cell))
        try:
            atomic.check_folder(folder.path)
            if folder.ended:
                return True
            folder.path.mkdir(parents=True, exist_ok=True)
            folder.lock()
            if not folder.ended:  # another worker may just have finished it
                self._run(folder, cell)
            if folder.ended:
                Store(self.sweep).add(read_results(folder.path)[0], cell.labels)
        except (BusyError, StoppedError):
            return True
        except BaseException as error:
            if isinstance(error, KeyboardInterrupt) and self.stop.wanted:
                raise  # a second signal, not an error of the cell
            if isinstance(error, OSError) and error.errno in NO_SPACE:
                self.listener.paused(f"{error.filename or folder.path}: {error.strerror}")
                return False
            note_reason(folder.path, _reason_of_cell(error))
        finally:
            give_back()
            self.slot.leave()
            folder.unlock()
        return True

    def _run(self, folder: RunFolder, cell: Cell) -> None:
        experiment, path = cell.experiment, folder.path / "experiment.toml"
        begun = path.exists() or path.is_symlink()
        (folder.path / FAILED).unlink(missing_ok=True)
        if begun and replace(folder.experiment(), name=experiment.name) != experiment:
            raise ValueError(
                f"{path} must be this cell's experiment; it has been changed. Put it back, or remove the cell's folder."
            )
        torch.set_num_threads(experiment.training.threads or 1)
        data = _loaded_data(experiment.data)
        training = experiment.start(data, admit=self.slot.enter)
        atomic.write_json(folder.path / "cell.json", {"labels": cell.labels, "steps": training.total_steps})
        if not begun:
            folder.begin(experiment)
        checkpoints = Checkpoints(folder.checkpoints, training, folder.digest())
        run = Run(training, folder, checkpoints, self.listener, self.stop, self.save_every)
        if begun:
            run.go_on()
        with logged(run, self.log, begun) as logs:
            logs.ended = run.carry_out()


def note_reason(folder: Path, reason: str) -> None:
    """Write the reason why a cell cannot be run into its folder; if that fails, print it."""
    try:
        atomic.check_folder(folder)
        atomic.write(folder / FAILED, [f"{reason}\n".encode()])
    except OSError as problem:
        sys.stderr.write(f"{folder}: {reason}\nand this could not be noted there: {problem.strerror}.\n")
    except ValueError:
        sys.stderr.write(f"{folder}: {reason}\n")


def _reason_of_cell(error: BaseException) -> str:
    if lacks_memory(error):
        return NO_MEMORY
    if isinstance(error, OSError) and error.strerror:
        return tidy(f"{error.filename or 'the disk'}: {error.strerror}.")
    if isinstance(error, ValueError | OSError):
        return tidy(str(error))
    frame = traceback.extract_tb(error.__traceback__)[-1]
    try:
        words = f": {error}".removesuffix(": ")
    except BaseException:  # the text of a user's error may fail, too
        words = ""
    return tidy(f"{type(error).__name__}{words} ({Path(frame.filename).name}, line {frame.lineno}).")


@lru_cache(maxsize=2)
def _loaded_data(choice: DataChoice) -> Split:
    return choice.load()
