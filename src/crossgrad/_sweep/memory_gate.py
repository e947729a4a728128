"""The memory of a machine, shared by the workers of a sweep: a cell begins once there is room for it."""

import multiprocessing
import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from crossgrad._forecast.memory import Forecast, in_words, machine_memory
from crossgrad._runs.runner import Stop

SHARE = 0.8  # of the machine's memory that is for cells
LOOK_EVERY = 0.2  # seconds


class StoppedError(Exception):
    """A stop was asked for while a cell was waiting."""


class MemoryGate:
    """Bytes that the cells at work will need at most, by worker."""

    def __init__(self, folder: Path, workers: int, size: float | None = None) -> None:
        self.folder, self.size = folder, SHARE * machine_memory() if size is None else size
        self.taken = multiprocessing.get_context("spawn").RawArray("d", workers)

    def take(self, worker: int, size: float) -> bool:
        """Whether there is room for so many bytes: beside the others, or because nobody else is there."""
        with _locked(self.folder):
            others = sum(self.taken) - self.taken[worker]
            if others and others + size > self.size:
                return False
            self.taken[worker] = size
            return True

    def leave(self, worker: int) -> None:
        """Make room for others."""
        self.taken[worker] = 0.0


@dataclass
class Place:
    """One worker's place in a room."""

    room: MemoryGate
    worker: int
    stop: Stop
    say: Callable[[str], None]
    said: bool = field(default=False, init=False)

    def enter(self, needed: Forecast) -> None:
        """Wait until there is room."""
        while not self.room.take(self.worker, needed.total):
            if self.stop.wanted:
                raise StoppedError
            if not self.said:
                self.say(f"Cells that need {in_words(needed.total)} of memory and more wait for others to end.")
                self.said = True
            time.sleep(LOOK_EVERY)

    def leave(self) -> None:
        """Make room for others."""
        self.room.leave(self.worker)


class NoGate:
    """Where memory is nobody's concern, or that of the engine that starts the workers."""

    def enter(self, needed: Forecast) -> None: ...

    def leave(self) -> None: ...


@contextmanager
def _locked(folder: Path) -> Iterator[None]:
    """One process at a time; the lock is gone with the process, however it ends."""
    try:
        import fcntl
    except ImportError:  # Windows has no such locks
        yield
        return
    file = os.open(folder, os.O_RDONLY)
    try:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield
    finally:
        os.close(file)
