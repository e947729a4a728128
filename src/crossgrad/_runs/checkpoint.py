"""Checkpoints of a run: every process writes its own agents, and any number of processes can read them.

A file holds the agents first to last of one step. What a process needs may lie in several files, where the agents
were spread otherwise when they were written.
"""

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from pydantic import TypeAdapter, ValidationError
from torch import Tensor

from crossgrad._network.shard import Shard
from crossgrad._processes.group import Group
from crossgrad._runs.snapshot import Progress, Snapshot, put_back, take
from crossgrad._storage import atomic, tensorfile
from crossgrad._storage.tensorfile import DTYPES, DamagedFileError, TensorFile
from crossgrad._training.trainer import Training

FORMAT = "crossgrad checkpoint 1"
NAME = re.compile(r"step-(\d{1,15})\.agents-(\d{1,9})-(\d{1,9})\.safetensors")
KEEP = 2  # newest checkpoints that stay: the second is there in case the first is damaged
NONE = -1  # in place of a step


class Entry(NamedTuple):
    """A file as its name tells: the agents first, ..., last - 1 at a step."""

    path: Path
    step: int
    first: int
    last: int


class Checkpoints:
    """The checkpoints of one run, in a folder of their own."""

    def __init__(self, folder: Path, training: Training, experiment: str) -> None:
        self.folder, self.training, self.experiment = folder, training, experiment
        self.shard: Shard = training.context.shard
        self.problems: list[str] = []  # what was found to be damaged

    @staticmethod
    def newest_step(folder: Path) -> int:
        """The newest step of which a folder has a checkpoint, 0 if of none; by the files' names alone."""
        found = [NAME.fullmatch(path.name) for path in folder.glob("step-*.safetensors")]
        return max((int(match.group(1)) for match in found if match), default=0)

    def save(self, records: int) -> None:
        """Write this process's agents; `records` have been written before."""
        self.folder.mkdir(parents=True, exist_ok=True)
        snapshot = take(self.training, records)
        about = {
            "format": FORMAT,
            "experiment": self.experiment,
            "layout": _layout(self.training),
            "progress": json.dumps(snapshot.about()),
        }
        tensors = snapshot.rows | {f"traffic.{kind}": amounts for kind, amounts in snapshot.edges.items()}
        step, first, last = snapshot.progress.step, self.shard.first, self.shard.last
        tensorfile.write(self.folder / f"step-{step}.agents-{first}-{last - 1}.safetensors", tensors, about)

    def forget(self, step: int) -> None:
        """Once every process has written `step`: remove all but the newest ones, and what is later than it."""
        steps = sorted({entry.step for entry in self._entries()})
        kept = [other for other in steps if other <= step][-KEEP:]
        self._remove(other for other in steps if other not in kept)

    def forget_all(self) -> None:
        """Once the run has ended: its checkpoints are of no more use."""
        self._remove({entry.step for entry in self._entries()})
        if self.folder.is_dir() and not any(self.folder.iterdir()):
            self.folder.rmdir()

    def go_on(self, group: Group) -> Progress | None:
        """Put the run back to the newest checkpoint that all processes can read; None if there is none."""
        atomic.remove_unfinished(self.folder)
        bound = 2**53
        while True:
            step, snapshot = self._newest(bound)
            steps = group.gather(torch.tensor([[float(step)]]))[:, 0]
            bound = int(steps.min())
            if bound == NONE:
                return None
            if bool((steps == bound).all()):
                break
        assert snapshot is not None
        put_back(self.training, snapshot)
        return snapshot.progress

    def _newest(self, bound: int) -> tuple[int, Snapshot | None]:
        """The newest snapshot of this process's agents that is whole, of `bound` at the latest."""
        for step in sorted({entry.step for entry in self._entries() if entry.step <= bound}, reverse=True):
            entries = self._covering(step)
            if entries is None:
                continue
            try:
                return step, self._read(entries)
            except DamagedFileError as error:
                if str(error) not in self.problems:
                    self.problems.append(str(error))
        return NONE, None

    def _entries(self) -> list[Entry]:
        found = []
        for path in sorted(self.folder.glob("step-*.safetensors")):
            if match := NAME.fullmatch(path.name):
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

    def _read(self, entries: list[Entry]) -> Snapshot:
        files = [_File(entry, self.training, self.experiment) for entry in entries]
        pieces, agent = [], self.shard.first
        for file in files:
            pieces.append((file, agent, min(file.entry.last, self.shard.last)))
            agent = file.entry.last
        present = take(self.training, 0)
        names = [*present.rows, *(["good.x", "good.floats", "good.integers"] if files[0].old_good else [])]
        rows = {name: torch.cat([file.rows(name, first, last) for file, first, last in pieces]) for name in names}
        sender = self.training.traffic.sender
        edges = {}
        for kind in sorted({kind for file in files for kind in file.kinds}):
            everywhere = torch.zeros(len(sender), dtype=torch.int64)
            for file in files:
                everywhere[torch.from_numpy(file.shard.holds(sender))] = file.traffic(kind)
            edges[kind] = everywhere[torch.from_numpy(self.shard.holds(sender))]
        return Snapshot(files[0].progress, rows, edges)

    def _remove(self, steps: "set[int] | Iterator[int]") -> None:
        gone = set(steps)
        for entry in self._entries():
            if entry.step in gone:
                entry.path.unlink(missing_ok=True)


class _File:
    """One file of a checkpoint, checked against the run it is to continue before a tensor is read."""

    def __init__(self, entry: Entry, training: Training, experiment: str) -> None:
        self.entry, self.file = entry, TensorFile(entry.path)
        about = self.file.about
        if about.get("format") != FORMAT:
            raise ValueError(
                f"{entry.path} is a {about.get('format', 'file')!r}; this version of crossgrad reads {FORMAT!r}."
            )
        if about.get("experiment") != experiment:
            raise ValueError(
                f"{entry.path} was written by another experiment: the run's experiment.toml has been changed since. "
                "Undo the change, or start a new run with `crossgrad run`."
            )
        if about.get("layout") != _layout(training):
            raise ValueError(
                f"{entry.path} was written with {about.get('layout')!s:.40} models, and this process has "
                f"{_layout(training)} ones. Go on with the version of PyTorch, and the device, that the run began with."
            )
        self.progress = _progress(entry, about.get("progress", ""))
        self.old_good = self.progress.good_step != entry.step
        self.shard = Shard(training.graph.agents, entry.first, entry.last)
        self.kinds = [name.removeprefix("traffic.") for name in self.file.shapes if name.startswith("traffic.")]
        self._check(training)

    def _check(self, training: Training) -> None:
        """Raise unless names, shapes and types are those of this run."""
        present = take(training, 0).rows
        good = {"good.x": "state.x", "good.floats": "buffers.floats", "good.integers": "buffers.integers"}
        expected = present | {name: present[like] for name, like in good.items() if self.old_good}
        agents = self.entry.last - self.entry.first
        shapes: dict[str, tuple[Any, ...]] = {
            name: (agents, *tensor.shape[1:], DTYPES[tensor.dtype]) for name, tensor in expected.items()
        }
        edges = int(np.count_nonzero(self.shard.holds(training.traffic.sender)))
        shapes |= {f"traffic.{kind}": (edges, "I64") for kind in self.kinds}
        found = {name: (*shape, self.file.dtypes[name]) for name, shape in self.file.shapes.items()}
        if found != shapes:
            wrong = sorted(name for name in shapes | found if shapes.get(name) != found.get(name))
            name = wrong[0]
            raise DamagedFileError(
                f"{self.entry.path} does not fit this run: expected {name} of {shapes.get(name)}, found "
                f"{found.get(name)}."
            )

    def rows(self, name: str, first: int, last: int) -> Tensor:
        """The rows of the agents first, ..., last - 1."""
        return self.file.rows(name, first - self.entry.first, last - self.entry.first)

    def traffic(self, kind: str) -> Tensor:
        """Bytes on the edges of the file's agents."""
        if kind not in self.kinds:
            return torch.zeros((), dtype=torch.int64)
        return self.file.rows(f"traffic.{kind}", 0, self.file.shapes[f"traffic.{kind}"][0])


def _layout(training: Training) -> str:
    """The order of the numbers in a model's flat row."""
    return "channels-last" if training.model.channels_last else "plain"


def _progress(entry: Entry, text: str) -> Progress:
    try:
        progress = TypeAdapter(Progress).validate_json(text)
    except ValidationError:
        raise DamagedFileError(f"{entry.path} does not say where the run was.") from None
    if progress.step != entry.step:
        raise DamagedFileError(f"{entry.path} holds step {progress.step}, which is not the one of its name.")
    return progress
