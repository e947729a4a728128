"""The folder of one run: never overwritten, and complete enough to repeat the run or to go on with it.

experiment.toml    every setting, spelled out
versions.json      of Python, PyTorch, crossgrad and the machine
agents.json        who hears whom, and how much of which class each agent holds
records.jsonl      one evaluation per line
checkpoints/       where to go on from; gone once the run has ended
model.safetensors  the averaged model
summary.json       how it ended
lock               held by the process that is at work here
"""

import hashlib
import json
import os
import platform
import re
import sys
from datetime import datetime
from importlib.metadata import version
from pathlib import Path
from typing import IO, Any

from safetensors.torch import save
from torch import nn

from crossgrad import __version__
from crossgrad._storage import atomic
from crossgrad._training.trainer import Training
from crossgrad.experiments.config import MAX_FILE_BYTES, tidy
from crossgrad.experiments.experiment import Experiment, read, to_toml
from crossgrad.records.file import MAX_LINE_BYTES
from crossgrad.records.record import Record

MAX_NAME_CHARACTERS = 100  # of an experiment's name, in the name of its folder


def make_folder(parent: str | Path, name: str) -> Path:
    """A new folder under `parent`, named after `name` and the time; existing ones are left alone."""
    parent = Path(parent)
    word = re.sub(r"[^A-Za-z0-9._-]+", "-", name[:MAX_NAME_CHARACTERS]).strip("-.") or "run"
    stem = f"{datetime.now():%Y-%m-%d_%H-%M-%S}-{word}"
    try:
        parent.mkdir(parents=True, exist_ok=True)
        for count in range(1, 1000):
            folder = parent / (stem if count == 1 else f"{stem}-{count}")
            try:
                folder.mkdir()
                return folder
            except FileExistsError:
                continue
    except (FileExistsError, NotADirectoryError):
        raise ValueError(f"--out must name a folder; {parent} is a file. Name another, such as --out runs.") from None
    except OSError as error:
        raise ValueError(f"cannot write to {parent}: {error.strerror}. Name another folder with --out.") from None
    raise ValueError(f"there are 1000 folders {stem} in {parent} already. Name another with --out.")


class BusyError(ValueError):
    """Another process is at work in the folder."""


class RunFolder:
    """A run's files while it goes on; one process, rank 0's, writes all of them but the checkpoints."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.records, self.checkpoints = path / "records.jsonl", path / "checkpoints"
        self.last: dict[str, Any] | None = None  # the newest record, as plain values
        self._digest = hashlib.sha256()  # of all records written so far
        self._lock: IO[str] | None = None

    @classmethod
    def new(cls, parent: str | Path, experiment: Experiment) -> "RunFolder":
        """A new folder under `parent`."""
        folder = cls(make_folder(parent, experiment.name))
        try:
            folder.lock()
            folder.begin(experiment)
        except OSError:
            folder.unlock()
            raise
        return folder

    def begin(self, experiment: Experiment) -> None:
        """Write down what is run here, and with which versions."""
        self.note(experiment)
        atomic.write_json(self.path / "versions.json", versions() | {"experiment": self.digest()})

    @classmethod
    def existing(cls, folder_path: str | Path) -> "RunFolder":
        """The folder of a run that has begun."""
        folder = cls(Path(folder_path))
        if not folder.path.is_dir():
            raise ValueError(f"{folder_path}: there is no such folder. `crossgrad resume` takes the folder of a run.")
        path = folder.path / "experiment.toml"
        if path.is_symlink() or not path.is_file():
            raise ValueError(f"{folder_path} must be the folder of a run; there is no file experiment.toml in it.")
        return folder

    def note(self, experiment: Experiment) -> None:
        """Write the experiment down, on this machine too, so that each can go on by itself."""
        path = self.path / "experiment.toml"
        if not path.exists():
            self.path.mkdir(parents=True, exist_ok=True)
            atomic.write(path, [to_toml(experiment).encode()])

    def experiment(self) -> Experiment:
        """What is run here.

        Raises:
            ValueError: it cannot be built from its file alone.
        """
        mark = b"# Made by crossgrad.fit"
        with atomic.open_regular(self.path / "experiment.toml") as file:
            made_by_fit = file.read(len(mark)) == mark
        if made_by_fit:
            raise ValueError(
                f"{self.path} was made by crossgrad.fit, with a model and data that have no name. To go on with it, "
                f"call fit again in the same way, with out={str(self.path)!r}."
            )
        return read(self.path / "experiment.toml")

    def digest(self) -> str:
        """Changes with the experiment's file."""
        with atomic.open_regular(self.path / "experiment.toml", follow=False) as file:
            return hashlib.sha256(file.read(MAX_FILE_BYTES)).hexdigest()

    def check_experiment(self) -> None:
        """Raise ValueError if experiment.toml is not what the run began with."""
        path = self.path / "versions.json"
        before = atomic.read_json(path) if path.exists() else None
        written = before.get("experiment") if isinstance(before, dict) else None  # older versions did not note it
        if written is not None and written != self.digest():
            raise ValueError(
                f"{self.path / 'experiment.toml'} must be what the run began with; it has been changed since. Undo the "
                "change, or start a new run with `crossgrad run`."
            )

    def changed_versions(self) -> list[str]:
        """What is not as it was when the run began."""
        path = self.path / "versions.json"
        before = atomic.read_json(path) if path.exists() else None
        if not isinstance(before, dict):
            return ["it is not known with which versions the run began"]
        changed = {what: now for what, now in versions().items() if before.get(what) != now}
        return [f"{what} was {before.get(what)!s:.60} and is {now}" for what, now in changed.items()]

    @property
    def ended(self) -> str | None:
        """How the run ended, if it has."""
        path = self.path / "summary.json"
        if not path.exists():
            return None
        summary = atomic.read_json(path)
        ended = summary.get("ended") if isinstance(summary, dict) else None
        if ended not in ("finished", "diverged", "interrupted"):
            raise ValueError(f"{path} does not say how the run ended. Remove it to go on with the run.")
        return None if ended == "interrupted" else str(ended)

    def lock(self) -> None:
        """Make sure that nobody else is at work here; the lock is gone with the process, however it ends."""
        try:
            import fcntl
        except ImportError:  # Windows has no such locks
            return
        self._lock = os.fdopen(atomic.open_handle(self.path / "lock", os.O_RDWR | os.O_CREAT), "r+")
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            process = tidy(self._lock.read(20).strip()) or "?"
            self.unlock()
            raise BusyError(
                f"{self.path}: this run is still going on, in process {process}. Wait for it, or stop it first."
            ) from None
        try:
            os.ftruncate(self._lock.fileno(), 0)
            os.write(self._lock.fileno(), f"{os.getpid()}\n".encode())
        except OSError as error:
            self.unlock()
            error.filename = str(self.path / "lock")
            raise

    def unlock(self) -> None:
        """Let others work here."""
        if self._lock is not None:
            self._lock.close()

    def add(self, record: Record) -> None:
        """Write one record: all of it, or nothing."""
        plain = record.as_json()
        line = (json.dumps(plain) + "\n").encode()
        atomic.append(self.records, line)
        self._digest.update(line)
        self.last = plain

    def sync_records(self) -> None:
        """Wait until the records would survive a loss of power."""
        if self.records.exists():
            atomic.sync(self.records)

    def records_digest(self) -> str:
        """Changes with any byte of the records written so far; a checkpoint keeps it."""
        return self._digest.hexdigest()

    def keep_records(self, count: int, digest: str = "") -> None:
        """Keep the first records; those after them will be written again.

        Args:
            count: how many; those that a checkpoint knows of.
            digest: `records_digest` when the checkpoint was written; not needed for none.

        Raises:
            ValueError: the file is not what was written.
        """
        end, lines, last = 0, 0, b"null"
        self._digest = hashlib.sha256()
        there = self.records.exists() or self.records.is_symlink()
        if there:
            with atomic.open_regular(self.records, follow=False) as file:
                while lines < count and (line := file.readline(MAX_LINE_BYTES)).endswith(b"\n"):
                    end, lines, last = end + len(line), lines + 1, line
                    self._digest.update(line)
        if lines < count:
            raise ValueError(
                f"{self.records} has {lines} whole records, but the checkpoint was written after {count}: it has been "
                "changed, and the run cannot go on."
            )
        if count and self.records_digest() != digest:
            raise ValueError(
                f"{self.records} must be what the run wrote; its first {count} records have been changed since the "
                "checkpoint. Put the file back, or start a new run with `crossgrad run`."
            )
        if there:
            atomic.truncate(self.records, end)
        try:
            self.last = json.loads(last)
        except (ValueError, RecursionError):
            raise ValueError(f"{self.records}, line {lines}, must be a record; found something else.") from None

    def finish(self, training: Training, module: nn.Module, ended: str) -> None:
        """Write the averaged model and how it ended: finished, diverged or interrupted."""
        tensors = {name: value.contiguous().clone() for name, value in module.state_dict().items()}
        summary = {
            "ended": ended,
            "status": training.status,
            "reason": training.reason,
            "steps": training.step_number,
            "model_of_step": training.last_good_step,
            "last_record": self.last,
        }
        atomic.write(self.path / "model.safetensors", [save(tensors)])
        atomic.write_json(self.path / "summary.json", summary)


def versions() -> dict[str, Any]:
    """What decides the bits besides the experiment: same machine, same threads, same versions."""
    import torch

    packages = ("torch", "numpy", "scipy", "scikit-learn")
    return {
        "python": sys.version.split()[0],
        "machine": platform.platform(),
        "cpu": torch.backends.cpu.get_cpu_capability(),
        "threads": torch.get_num_threads(),
        "crossgrad": __version__,
        **{package: version(package) for package in packages},
    }
