"""Checkpoints of a run: every process writes its own agents, and any number of processes can read them.

The processes that read may hold other agents than those that wrote, so one process may read several files.
"""

import os
import re
from collections.abc import Iterable
from contextlib import suppress
from functools import cached_property
from pathlib import Path
from typing import NamedTuple

import torch
from torch import Tensor

from crossgrad._network.shard import Shard
from crossgrad._processes.group import Group
from crossgrad._runs.checkpoint_file import CheckpointFile, Header, write_checkpoint
from crossgrad._runs.data_digests import FileDigests, data_digests, digest_of_test
from crossgrad._storage import atomic
from crossgrad._storage.damage import DamagedFileError, damaged
from crossgrad._storage.stateful import StateDict, flatten, unflatten
from crossgrad._training.trainer import Training

FILE_NAME = re.compile(r"step-(\d{1,15})\.agents-(\d{1,9})-(\d{1,9})\.safetensors")
STEPS_KEPT = 2  # the newest ones; the second is used if the first is damaged
MAX_PROBLEMS = 20  # damaged files that are named
NO_CHECKPOINT = -1


class CheckpointName(NamedTuple):
    """What a checkpoint file's name says: it has agents first, ..., last - 1 at a step."""

    path: Path
    step: int
    first: int
    last: int


class Checkpoint(NamedTuple):
    """The state of this process's agents at a step, as read from files."""

    step: int
    state: StateDict  # of the training
    data_N: Tensor  # a digest of each agent's data
    test_data: str  # a digest of the test set
    records: int  # written before the checkpoint
    records_digest: str  # of these records


class Checkpoints:
    """The checkpoints of one run, in a folder of their own."""

    def __init__(self, folder: Path, training: Training, experiment: str) -> None:
        self.folder, self.training = folder, training
        self.shard: Shard = training.context.shard
        layout = "channels-last" if training.model.channels_last else "plain"
        self.header = Header(experiment, layout)
        self._files = FileDigests(folder, f"{self.shard.first}-{self.shard.last - 1}")
        self.problems: list[str] = []  # damaged files that were found

    @staticmethod
    def newest_step(folder: Path) -> int:
        """The newest step of which a folder has a checkpoint, 0 if of none; by the files' names alone."""
        found = [FILE_NAME.fullmatch(path.name) for path in folder.glob("step-*.safetensors")]
        return max((int(match.group(1)) for match in found if match), default=0)

    def save(self, records: int, records_digest: str = "") -> None:
        """Write the state of this process's agents.

        Args:
            records: how many records the run has written so far.
            records_digest: SHA-256 of these records.
        """
        atomic.check_folder(self.folder)
        self.folder.mkdir(parents=True, exist_ok=True)
        content = self._content(records, records_digest)
        self._files.save()
        agents = f"{self.shard.first}-{self.shard.last - 1}"
        path = self.folder / f"step-{self.training.step_number}.agents-{agents}.safetensors"
        write_checkpoint(path, content, self.header)

    def forget(self, step: int) -> None:
        """Delete all but the STEPS_KEPT newest checkpoints up to `step`, once every process has written `step`."""
        steps = sorted({entry.step for entry in self._entries()})
        kept = [other for other in steps if other <= step][-STEPS_KEPT:]
        self._remove(other for other in steps if other not in kept)

    def forget_all(self) -> None:
        """Delete all checkpoints. Call it once the run has ended."""
        self._remove({entry.step for entry in self._entries()})
        with suppress(FileNotFoundError):  # all processes do this at the same time
            self._files.forget()
            if not any(self.folder.iterdir()):
                self.folder.rmdir()

    def go_on(self, group: Group) -> Checkpoint | None:
        """Restore the newest checkpoint that all processes can read; None if there is none.

        Raises:
            ValueError: a checkpoint was written by another version or experiment, or on other data.
        """
        atomic.remove_unfinished(self.folder)
        bound = 2**53
        while True:
            found, problem = None, ""
            try:
                found = self._newest(bound)
            except ValueError as error:
                problem = str(error)
            except OSError as error:
                problem = f"{error.filename or self.folder} must be readable to go on with the run; {error.strerror}."
            group.check_all(problem)
            steps = group.votes(found.step if found else NO_CHECKPOINT)[:, 0]
            bound = int(steps.min())
            if bound == NO_CHECKPOINT or bool((steps == bound).all()):
                break
        said = group.gather_texts("\n".join(self.problems))
        self.problems = [
            f"{group.name_of(rank)}: {line}" if rank else line
            for rank, text in enumerate(said)
            for line in text.splitlines()
        ]
        if bound == NO_CHECKPOINT:
            return None
        assert found is not None
        group.check_all(self._changed(found))
        self.training.load_state_dict(found.state)
        return found

    def _changed(self, found: Checkpoint) -> str:
        """A sentence that names data which is not what the run began with; empty if all of it is the same."""
        differing = (found.data_N != self._data["data"]).nonzero()[:, 0].tolist()
        which = f"the data of agent {self.shard.first + differing[0]}" if differing else "the test set"
        if not differing and found.test_data == self._data["test_data"]:
            return ""
        return (
            f"{which} must be what the run began with; it has been changed. Put the data back, or start a new run "
            "with `crossgrad run`."
        )

    @cached_property
    def _data(self) -> StateDict:
        """Digests of the data: a number for each agent of this process, and a text for the test set."""
        return {
            "data": data_digests(self.training, self._files),
            "test_data": digest_of_test(self.training, self._files),
        }

    def _content(self, records: int, records_digest: str) -> StateDict:
        return self.training.state_dict() | self._data | {"records": records, "records_digest": records_digest}

    def _newest(self, bound: int) -> Checkpoint | None:
        """The newest undamaged checkpoint of this process's agents, of step `bound` at the latest."""
        by_step: dict[int, list[CheckpointName]] = {}
        for entry in self._entries():
            by_step.setdefault(entry.step, []).append(entry)
        for step in sorted((step for step in by_step if step <= bound), reverse=True):
            entries = self._covering(by_step[step])
            if entries is None:
                continue
            try:
                return self._read(step, entries)
            except DamagedFileError as error:
                if len(self.problems) < MAX_PROBLEMS and str(error) not in self.problems:
                    self.problems.append(str(error))
        return None

    def _entries(self) -> list[CheckpointName]:
        try:
            names = sorted(os.listdir(self.folder))  # `glob` would treat a folder that cannot be read as empty
        except FileNotFoundError:
            return []
        found = []
        for name in names:
            if match := FILE_NAME.fullmatch(name):
                step, first, last = map(int, match.groups())
                found.append(CheckpointName(self.folder / name, step, first, last + 1))
        return found

    def _covering(self, entries: list[CheckpointName]) -> list[CheckpointName] | None:
        """Files, of these of one step, that together hold this process's agents."""
        chosen, agent = [], self.shard.first
        while agent < self.shard.last:
            holding = [entry for entry in entries if entry.first <= agent < entry.last]
            if not holding:
                return None
            chosen.append(max(holding, key=lambda entry: entry.last))
            agent = chosen[-1].last
        return chosen

    def _read(self, step: int, entries: list[CheckpointName]) -> Checkpoint:
        """Read this process's agents from the files that hold them."""
        like = self._content(0, "")
        files = [CheckpointFile(entry.path, entry.last - entry.first, like, self.header) for entry in entries]
        pieces, agent = [], self.shard.first
        for file, entry in zip(files, entries, strict=True):
            pieces.append((file, agent - entry.first, min(entry.last, self.shard.last) - entry.first))
            agent = entry.last
        values = files[0].values
        if values["step_number"] != step:
            raise damaged(
                files[0].path, f"it must hold step {step}, as its name says; found step {values['step_number']}"
            )
        names = [name for name, value in flatten(like).items() if isinstance(value, Tensor)]
        rows = {name: torch.cat([file.rows(name, first, last) for file, first, last in pieces]) for name in names}
        content = unflatten(values | rows)
        rest = (content.pop(name) for name in ("data", "test_data", "records", "records_digest"))
        return Checkpoint(step, content, *rest)

    def _remove(self, steps: Iterable[int]) -> None:
        gone = set(steps)
        for entry in self._entries():
            if entry.step in gone and (entry.path.is_symlink() or not entry.path.is_dir()):
                entry.path.unlink(missing_ok=True)
