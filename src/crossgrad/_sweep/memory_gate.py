"""The memory of a machine, shared by the workers of a sweep: a cell starts once enough memory is free."""

import multiprocessing
import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from crossgrad._forecast.memory import Forecast, bytes_in_words, machine_memory
from crossgrad._runs.runner import Stop

MEMORY_SHARE = 0.8  # of the machine's memory, for all cells
GATE_POLL_SECONDS = 0.2


class StoppedError(Exception):
    """The sweep was stopped while a cell waited for memory."""


class MemoryGate:
    """Forecast bytes of the cells at work, by worker."""

    def __init__(self, folder: Path, workers: int, size: float | None = None) -> None:
        self.folder, self.size = folder, MEMORY_SHARE * machine_memory() if size is None else size
        self.taken = multiprocessing.get_context("spawn").RawArray("d", workers)

    def take(self, worker: int, size: float) -> bool:
        """Reserve so many bytes; False if they do not fit beside the others'. A single cell always fits."""
        with _locked(self.folder):
            others = sum(self.taken) - self.taken[worker]
            if others and others + size > self.size:
                return False
            self.taken[worker] = size
            return True

    def leave(self, worker: int) -> None:
        """Release this worker's bytes."""
        self.taken[worker] = 0.0


@dataclass
class Reservation:
    """One worker's reservation at the gate."""

    gate: MemoryGate
    worker: int
    stop: Stop
    say: Callable[[str], None]
    said: bool = field(default=False, init=False)

    def enter(self, needed: Forecast) -> None:
        """Wait until so much memory can be reserved."""
        while not self.gate.take(self.worker, needed.total):
            if self.stop.wanted:
                raise StoppedError
            if not self.said:
                self.say(f"Cells that need {bytes_in_words(needed.total)} of memory wait until other cells have ended.")
                self.said = True
            time.sleep(GATE_POLL_SECONDS)

    def leave(self) -> None:
        """Release this worker's bytes."""
        self.gate.leave(self.worker)


class NoGate:
    """No limit: one worker alone, or a batch system that limits memory itself."""

    def enter(self, needed: Forecast) -> None: ...

    def leave(self) -> None: ...


@contextmanager
def _locked(folder: Path) -> Iterator[None]:
    """One process at a time. The system releases the lock when the process ends, for whatever reason."""
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
