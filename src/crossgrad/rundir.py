"""The folder of one run: never overwritten, and complete enough to repeat the run.

experiment.toml    every setting, spelled out
versions.json      of Python, PyTorch, crossgrad and the machine
records.jsonl      one evaluation per line
model.safetensors  the averaged model
summary.json       how it ended
"""

import json
import os
import platform
import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime
from importlib.metadata import version
from pathlib import Path
from typing import Any

from torch import nn

from crossgrad import __version__
from crossgrad.experiment import Experiment, to_toml
from crossgrad.records import Record
from crossgrad.train import Training

LONGEST = 100  # characters of a name that a folder takes over


def make_folder(parent: str | Path, name: str) -> Path:
    """A new folder under `parent`, named after `name` and the time; existing ones are left alone."""
    parent = Path(parent)
    word = re.sub(r"[^A-Za-z0-9._-]+", "-", name[:LONGEST]).strip("-.") or "run"
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


class RunFolder:
    """Writes a run's files while it goes on; every record is on disk before the next step begins."""

    def __init__(self, parent: str | Path, experiment: Experiment) -> None:
        self.path = make_folder(parent, experiment.name)
        with _in(self.path):
            (self.path / "experiment.toml").write_text(to_toml(experiment), encoding="utf-8")
            write_json(self.path / "versions.json", versions())

    def add(self, record: Record) -> None:
        """Write one record."""
        with _in(self.path), (self.path / "records.jsonl").open("a", encoding="utf-8") as lines:
            lines.write(json.dumps(record.as_json()) + "\n")

    def finish(self, training: Training, module: nn.Module, last: Record | None, ended: str) -> None:
        """Write the averaged model and how it ended: finished, diverged or interrupted."""
        from safetensors.torch import save

        tensors = {name: value.contiguous().clone() for name, value in module.state_dict().items()}
        summary = {
            "ended": ended,
            "status": training.status,
            "reason": training.reason,
            "steps": training.step_number,
            "model_of_step": training.last_good_step,
            "last_record": None if last is None else last.as_json(),
        }
        with _in(self.path):
            _write(self.path / "model.safetensors", save(tensors))
            write_json(self.path / "summary.json", summary)


@contextmanager
def _in(folder: Path) -> Iterator[None]:
    """Say where it was that the disk was full."""
    try:
        yield
    except OSError as error:
        error.filename = error.filename or str(folder)
        raise


def write_json(path: Path, content: Any) -> None:
    """Write a file at once or not at all."""
    _write(path, (json.dumps(content, indent=2) + "\n").encode())


def _write(path: Path, content: bytes) -> None:
    unfinished = path.with_name(path.name + ".part")
    unfinished.write_bytes(content)
    os.replace(unfinished, path)


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
