"""The lock of a run's folder: one process works in it at a time."""

import os
from pathlib import Path
from typing import IO

from crossgrad._storage import atomic
from crossgrad.experiments.config import tidy


class BusyError(ValueError):
    """Another process is at work in the folder."""


class FolderLock:
    """An exclusive lock on a folder's file `lock`, which the operating system frees when the process ends."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._file: IO[str] | None = None

    def acquire(self) -> None:
        """Take the lock and write this process's number into the file.

        Raises:
            BusyError: another process holds it.
        """
        try:
            import fcntl
        except ImportError:  # Windows has no such locks
            return
        self._file = os.fdopen(atomic.open_handle(self.folder / "lock", os.O_RDWR | os.O_CREAT), "r+")
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            process = tidy(self._file.read(20).strip()) or "?"
            self.release()
            raise BusyError(
                f"a run must have ended before it goes on; {self.folder} is still going on, in process {process}. "
                "Wait for it, or stop it first."
            ) from None
        try:
            os.ftruncate(self._file.fileno(), 0)
            os.write(self._file.fileno(), f"{os.getpid()}\n".encode())
        except OSError as error:
            self.release()
            error.filename = str(self.folder / "lock")
            raise

    def release(self) -> None:
        """Free the lock, if this process holds it."""
        if self._file is not None:
            self._file.close()
