"""Checkpoints of a run: every process writes its own agents, and any number of processes can read them.

What a process needs may lie in several files, where the agents were spread otherwise when they were written.
"""

import re
from collections.abc import Iterable
from hashlib import blake2b
from pathlib import Path
from typing import NamedTuple

import torch
from torch import Tensor

from crossgrad._network.shard import Shard
from crossgrad._processes.group import Group
from crossgrad._runs.checkpoint_file import CheckpointFile, Header, write
from crossgrad._storage import atomic
from crossgrad._storage.stateful import StateDict, flatten, unflatten
from crossgrad._storage.tensorfile import DamagedFileError
from crossgrad._training.trainer import Training
from crossgrad.data.nested import leaves

FILE_NAME = re.compile(r"step-(\d{1,15})\.agents-(\d{1,9})-(\d{1,9})\.safetensors")
STEPS_KEPT = 2  # the newest ones: the second is there in case the first is damaged
NO_STEP = -1


class Entry(NamedTuple):
    """A file as its name tells: the agents first, ..., last - 1 at a step."""

    path: Path
    step: int
    first: int
    last: int


class Checkpoint(NamedTuple):
    """The state of this process's agents at a step, as read from files."""

    step: int
    state: StateDict  # of the training
    data_N: Tensor  # a digest of each agent's data
    records: int  # written before the checkpoint


class Checkpoints:
    """The checkpoints of one run, in a folder of their own."""

    def __init__(self, folder: Path, training: Training, experiment: str) -> None:
        self.folder, self.training = folder, training
        self.shard: Shard = training.context.shard
        layout = "channels-last" if training.model.channels_last else "plain"
        self.header = Header(experiment, layout)
        self.problems: list[str] = []  # damaged files that were found

    @staticmethod
    def newest_step(folder: Path) -> int:
        """The newest step of which a folder has a checkpoint, 0 if of none; by the files' names alone."""
        found = [FILE_NAME.fullmatch(path.name) for path in folder.glob("step-*.safetensors")]
        return max((int(match.group(1)) for match in found if match), default=0)

    def save(self, records: int) -> None:
        """Write this process's agents; `records` have been written before."""
        self.folder.mkdir(parents=True, exist_ok=True)
        agents = f"{self.shard.first}-{self.shard.last - 1}"
        path = self.folder / f"step-{self.training.step_number}.agents-{agents}.safetensors"
        write(path, self._content(records), self.header)

    def forget(self, step: int) -> None:
        """Once every process has written `step`: remove all but the newest ones, and what is later than it."""
        steps = sorted({entry.step for entry in self._entries()})
        kept = [other for other in steps if other <= step][-STEPS_KEPT:]
        self._remove(other for other in steps if other not in kept)

    def forget_all(self) -> None:
        """Once the run has ended: its checkpoints are of no more use."""
        self._remove({entry.step for entry in self._entries()})
        if self.folder.is_dir() and not any(self.folder.iterdir()):
            self.folder.rmdir()

    def go_on(self, group: Group) -> Checkpoint | None:
        """Put the run back to the newest checkpoint that all processes can read; None if there is none.

        Raises:
            ValueError: a checkpoint was written by another version or experiment, or on other data.
        """
        atomic.remove_unfinished(self.folder)
        bound = 2**53
        while True:
            found = self._newest(bound)
            steps = group.gather(torch.tensor([[float(found.step if found else NO_STEP)]]))[:, 0]
            bound = int(steps.min())
            if bound == NO_STEP:
                return None
            if bool((steps == bound).all()):
                break
        assert found is not None
        differing = (found.data_N != data_digests(self.training)).nonzero()[:, 0].tolist()
        if differing:
            agent = self.shard.first + differing[0]
            raise ValueError(f"the data of agent {agent} is not the data that the run began with; it cannot go on.")
        self.training.load_state_dict(found.state)
        return found

    def _content(self, records: int) -> StateDict:
        return self.training.state_dict() | {"data": data_digests(self.training), "records": records}

    def _newest(self, bound: int) -> Checkpoint | None:
        """The newest checkpoint of this process's agents that is whole, of step `bound` at the latest."""
        for step in sorted({entry.step for entry in self._entries() if entry.step <= bound}, reverse=True):
            entries = self._covering(step)
            if entries is None:
                continue
            try:
                return self._read(step, entries)
            except DamagedFileError as error:
                if str(error) not in self.problems:
                    self.problems.append(str(error))
        return None

    def _entries(self) -> list[Entry]:
        found = []
        for path in sorted(self.folder.glob("step-*.safetensors")):
            if match := FILE_NAME.fullmatch(path.name):
                step, first, last = map(int, match.groups())
                found.append(Entry(path, step, first, last + 1))
        return found

    def _covering(self, step: int) -> list[Entry] | None:
        """Files that together hold this process's agents at this step."""
        entries, chosen, agent = [entry for entry in self._entries() if entry.step == step], [], self.shard.first
        while agent < self.shard.last:
            holding = [entry for entry in entries if entry.first <= agent < entry.last]
            if not holding:
                return None
            chosen.append(max(holding, key=lambda entry: entry.last))
            agent = chosen[-1].last
        return chosen

    def _read(self, step: int, entries: list[Entry]) -> Checkpoint:
        """Read this process's agents from the files that hold them."""
        like = self._content(0)
        files = [CheckpointFile(entry.path, entry.last - entry.first, like, self.header) for entry in entries]
        pieces, agent = [], self.shard.first
        for file, entry in zip(files, entries, strict=True):
            pieces.append((file, agent - entry.first, min(entry.last, self.shard.last) - entry.first))
            agent = entry.last
        values = files[0].values
        if values["step_number"] != step:
            raise DamagedFileError(f"{files[0].path} holds another step than that of its name.")
        names = [name for name, value in flatten(like).items() if isinstance(value, Tensor)]
        rows = {name: torch.cat([file.rows(name, first, last) for file, first, last in pieces]) for name in names}
        content = unflatten(values | rows)
        data, records = content.pop("data"), content.pop("records")
        return Checkpoint(step, content, data, records)

    def _remove(self, steps: Iterable[int]) -> None:
        gone = set(steps)
        for entry in self._entries():
            if entry.step in gone:
                entry.path.unlink(missing_ok=True)


def data_digests(training: Training) -> Tensor:
    """A number per agent that changes with its data: all labels, and the inputs that losses are taken on."""
    digests = []
    for own, probe in zip(training.agents, training.probes, strict=True):
        digest = blake2b(digest_size=8)
        for part in (*leaves(own.labels), *leaves(probe.inputs)):
            digest.update(part.cpu().contiguous().numpy().tobytes())
        digests.append(int.from_bytes(digest.digest(), "big", signed=True))
    return torch.tensor(digests)
