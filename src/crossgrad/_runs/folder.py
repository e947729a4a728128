"""The folder of one run. It is never overwritten, and holds all that is needed to repeat or resume the run.

experiment.toml    every setting, spelled out
versions.json      of Python, PyTorch, crossgrad and the machine
agents.json        the edges of the graph, and how many samples of each class each agent holds
records.jsonl      one evaluation per line
checkpoints/       to resume from; deleted once the run has ended
model.safetensors  the averaged model
summary.json       how it ended
lock               held by the process that is at work here
"""

import hashlib
import json
from pathlib import Path
from typing import Any

from safetensors.torch import save
from torch import nn

from crossgrad._runs.lock import FolderLock
from crossgrad._runs.new_folder import make_folder
from crossgrad._runs.versions import changed_plugins, versions
from crossgrad._storage import atomic
from crossgrad._storage.damage import damaged
from crossgrad._training.trainer import Training
from crossgrad.experiments.config import ConfigError
from crossgrad.experiments.experiment import Experiment
from crossgrad.experiments.files import read, to_toml
from crossgrad.experiments.toml import MAX_EXPERIMENT_BYTES
from crossgrad.records.file import MAX_RECORD_BYTES
from crossgrad.records.record import Record


class RunFolder:
    """The files of a run. Rank 0 writes all of them but the checkpoints."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.records, self.checkpoints = path / "records.jsonl", path / "checkpoints"
        self.last: dict[str, Any] | None = None  # the newest record, as plain values
        self._digest = hashlib.sha256()  # of all records written so far
        self._lock = FolderLock(path)

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
        """Write the experiment and the versions."""
        self.note(experiment)
        start = experiment.training.start
        noted = {} if start is None else {"start": {start: digest_of_file(Path(start))}}
        atomic.write_json(self.path / "versions.json", versions() | {"experiment": self.digest()} | noted)

    @classmethod
    def existing(cls, folder_path: str | Path) -> "RunFolder":
        """The folder of a run that has been started."""
        folder = cls(Path(folder_path))
        if not folder.path.is_dir():
            raise ValueError(f"{folder_path} must be the folder of a run; there is no such folder. Name one.")
        path = folder.path / "experiment.toml"
        if path.is_symlink() or not path.is_file():
            raise ValueError(
                f"{folder_path} must be the folder of a run; there is no file experiment.toml in it. Name "
                "one that `crossgrad run` made."
            )
        return folder

    def note(self, experiment: Experiment) -> None:
        """Write experiment.toml unless it exists. On several machines without a shared disk, each writes its own."""
        path = self.path / "experiment.toml"
        if not path.exists():
            self.path.mkdir(parents=True, exist_ok=True)
            atomic.write(path, [to_toml(experiment).encode()])

    def experiment(self) -> Experiment:
        """The experiment of this run.

        Raises:
            ValueError: it cannot be built from its file alone.
        """
        mark = b"# Made by crossgrad.fit"
        with atomic.open_regular(self.path / "experiment.toml") as file:
            made_by_fit = file.read(len(mark)) == mark
        if made_by_fit:
            raise ValueError(
                f"`crossgrad resume` needs a model and data that have names; {self.path} was made by crossgrad.fit, "
                f"where they have none. To go on with it, call fit again in the same way, with out={str(self.path)!r}."
            )
        try:
            return read(self.path / "experiment.toml")
        except ConfigError as error:
            before = self._before() or {}
            if problems := changed_plugins(before.get("plugins")):
                raise ConfigError(
                    f"the run needs what it began with; {problems[0]}. Pass it by --plugin, or install it. ({error})"
                ) from None
            raise

    def digest(self) -> str:
        """SHA-256 of experiment.toml."""
        with atomic.open_regular(self.path / "experiment.toml", follow=False) as file:
            return hashlib.sha256(file.read(MAX_EXPERIMENT_BYTES)).hexdigest()

    def check_experiment(self) -> None:
        """Raise ValueError if experiment.toml is not what the run began with."""
        before = self._before() or {}
        written = before.get("experiment")  # older versions did not write it
        if written is not None and written != self.digest():
            raise ValueError(
                f"{self.path / 'experiment.toml'} must be what the run began with; it has been changed since. Undo the "
                "change, or start a new run with `crossgrad run`."
            )
        start_models = before.get("start")
        for start, digest in start_models.items() if isinstance(start_models, dict) else ():
            if digest_of_file(Path(start)) != digest:
                raise ValueError(
                    f"training.start must be what the run began with; {start} has been changed since. Undo the change, "
                    "or start a new run with `crossgrad run`."
                )

    def _before(self) -> dict[str, Any] | None:
        """The versions that the run began with; None if there is no record of them."""
        path = self.path / "versions.json"
        before = atomic.read_json(path) if path.exists() else None
        return before if isinstance(before, dict) else None

    @property
    def threads(self) -> int | None:
        """How many threads the run began with; None if there is no record of it."""
        threads = (self._before() or {}).get("threads")
        return threads if isinstance(threads, int) and threads > 0 else None

    def changed_versions(self) -> list[str]:
        """The versions that differ from those that the run began with, a sentence each."""
        before = self._before()
        if before is None:
            return ["it is not known with which versions the run began"]
        changed = {
            what: now
            for what, now in versions().items()
            if before.get(what) != now and what not in ("plugins", "commit")
        }
        words = [f"{what} was {before.get(what)!s:.60} and is {now}" for what, now in changed.items()]
        return words + changed_plugins(before.get("plugins"))

    @property
    def ended(self) -> str | None:
        """How the run ended, if it has."""
        path = self.path / "summary.json"
        if not path.exists():
            return None
        summary = atomic.read_json(path)
        ended = summary.get("ended") if isinstance(summary, dict) else None
        if ended not in ("finished", "diverged", "interrupted"):
            raise ValueError(
                f"{path} must say how the run ended; found {str(ended)[:60]!r}. Remove the file to go on with the run."
            )
        return None if ended == "interrupted" else str(ended)

    def lock(self) -> None:
        """Take the lock of the folder; raises BusyError if another process holds it."""
        self._lock.acquire()

    def unlock(self) -> None:
        """Release the lock."""
        self._lock.release()

    def add(self, record: Record) -> None:
        """Append one record; a failed write leaves the file as it was."""
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
        """SHA-256 of the records written so far; a checkpoint keeps it."""
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
                while lines < count and (line := file.readline(MAX_RECORD_BYTES)).endswith(b"\n"):
                    end, lines, last = end + len(line), lines + 1, line
                    self._digest.update(line)
        if lines < count:
            raise ValueError(
                f"{self.records} must have the {count} records that were there at the checkpoint; it has {lines} whole "
                "records. Put the file back, or start a new run with `crossgrad run`."
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
            raise damaged(
                f"{self.records}, line {lines},", "it must be a record as JSON; found something else"
            ) from None

    def finish(self, training: Training, module: nn.Module, ended: str) -> None:
        """Write the averaged model and the summary; `ended` is finished, diverged or interrupted."""
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


def digest_of_file(path: Path) -> str:
    """The SHA-256 of a file's content."""
    with atomic.open_regular(path) as file:
        digest = hashlib.sha256()
        while piece := file.read(1 << 20):
            digest.update(piece)
        return digest.hexdigest()
