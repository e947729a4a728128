"""One file of a checkpoint: the agents first, ..., last - 1 of a run at one step.

Tensors of the state have one row for each of these agents. Plain values (the step, the status) are the same in all
files of a step. Tensors that occur twice in a state are stored once, and named as aliases.
"""

import json
from pathlib import Path
from typing import Any, NamedTuple

from torch import Tensor

from crossgrad._storage import tensorfile
from crossgrad._storage.damage import damaged
from crossgrad._storage.stateful import StateDict, flatten
from crossgrad._storage.tensorfile import SAFETENSORS_DTYPES, TensorFile

FORMAT = "crossgrad checkpoint 3"


class Header(NamedTuple):
    """Values that must be the same in a checkpoint file and in the run that goes on from it."""

    experiment: str  # a digest of the run's experiment.toml
    layout: str  # the order of the numbers in a model's flat row


def write_checkpoint(path: Path, state: StateDict, header: Header) -> None:
    """Write a state, whole or not at all."""
    names: dict[Any, str] = {}
    tensors, values, aliases = {}, {}, {}
    for name, value in flatten(state).items():
        if not isinstance(value, Tensor):
            values[name] = value
        elif (first := names.setdefault((value.data_ptr(), value.shape, value.stride(), value.dtype), name)) != name:
            aliases[name] = first
        else:
            tensors[name] = value
    texts = {"values": json.dumps(values), "aliases": json.dumps(aliases)}
    tensorfile.write(path, tensors, {"format": FORMAT, **header._asdict(), **texts})


class CheckpointFile:
    """A file that was checked against the run that is to go on from it, before any tensor is read.

    Args:
        path: the file.
        agents: how many agents it holds, by its name.
        like: the run's present state, which has the names, types and shapes (but for axis 0) that must be found.
        header: what must be the same.

    Raises:
        ValueError: the file was written by another version, experiment or machine.
        DamagedFileError: the file is not what was written, or does not fit.
    """

    def __init__(self, path: Path, agents: int, like: StateDict, header: Header) -> None:
        self.path, self.file = path, TensorFile(path)
        about = self.file.about
        if about.get("format") != FORMAT:
            raise ValueError(
                f"{path} must be a {FORMAT!r} for this version of crossgrad to go on from it; found "
                f"{about.get('format', 'another file')!r}. Go on with the version that wrote it, or start a new run "
                "with `crossgrad run`."
            )
        if about.get("experiment") != header.experiment:
            raise ValueError(
                f"{path} must be of the run's experiment.toml; that has been changed since. "
                "Undo the change, or start a new run with `crossgrad run`."
            )
        if about.get("layout") != header.layout:
            raise ValueError(
                f"{path} must have {header.layout} models, as this process has; found {about.get('layout')!s:.40} "
                "ones. Go on with the version of PyTorch, and the device, that the run began with."
            )
        self.values, self.aliases = (self._json(about, name) for name in ("values", "aliases"))
        self._check(agents, flatten(like))

    def rows(self, name: str, first: int, last: int) -> Tensor:
        """Read some rows of a tensor; the file's first agent has row 0."""
        return self.file.rows(self.aliases.get(name, name), first, last)

    def _json(self, about: dict[str, str], name: str) -> dict[str, Any]:
        try:
            content = json.loads(about.get(name, ""))
        except (ValueError, RecursionError):
            content = None
        if not isinstance(content, dict):
            raise damaged(self.path, f"its {name} must be a JSON object; found something else")
        return content

    def _check(self, agents: int, like: StateDict) -> None:
        """Raise unless names, shapes and types are those of this run."""
        expected = {
            name: (agents, *value.shape[1:], SAFETENSORS_DTYPES[value.dtype])
            if isinstance(value, Tensor)
            else type(value).__name__
            for name, value in like.items()
        }
        found: dict[str, Any] = {name: type(value).__name__ for name, value in self.values.items()}
        stored = {name: (*shape, self.file.dtypes[name]) for name, shape in self.file.shapes.items()}
        found |= stored | {alias: stored.get(str(name)) for alias, name in self.aliases.items()}
        for name in sorted(expected | found):
            if expected.get(name) != found.get(name):
                raise damaged(
                    self.path, f"{name} must be {expected.get(name)}, as in this run; found {found.get(name)}."
                )
