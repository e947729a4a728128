"""The folder of a run of `crossgrad.fit`: the same files as any run's, so that `report` and `fit` can read it."""

import dataclasses
from contextlib import nullcontext
from pathlib import Path
from threading import current_thread, main_thread
from typing import Any

import tomli_w
from torch import nn

from crossgrad._logging.logger import Logger
from crossgrad._runs.checkpoint import Checkpoints
from crossgrad._runs.folder import RunFolder
from crossgrad._runs.logged import logged
from crossgrad._runs.runner import Listener, Run, Stop
from crossgrad._runs.versions import versions
from crossgrad._storage import atomic
from crossgrad._training.trainer import Training
from crossgrad.records.file import read_records
from crossgrad.records.record import Record

MADE_BY_FIT = "# Made by crossgrad.fit. To go on with an interrupted run, call fit again in the same way.\n"


def run_in_folder(
    training: Training,
    path: Path,
    about: dict[str, Any],
    listener: Listener,
    save_every: float,
    log: tuple[str | Logger, ...] = (),
) -> str:
    """Run a training in a folder, from its newest checkpoint if it has begun there before.

    Args:
        training: the training, ready for its first step.
        path: the folder; made if it is not there.
        about: what is written to experiment.toml.
        listener: called after every step and record.
        save_every: seconds between two checkpoints.
        log: loggers, as `check_loggers` returns them.

    Returns:
        How it ended: finished, diverged or interrupted (by Ctrl-C).

    Raises:
        ValueError: the folder holds a run that has ended, or another one.
    """
    text = (MADE_BY_FIT + tomli_w.dumps(about)).encode()
    folder, file = RunFolder(path), path / "experiment.toml"
    path.mkdir(parents=True, exist_ok=True)
    if file.exists():
        with atomic.open_regular(file, follow=False) as begun_before:
            if begun_before.read(len(text) + 1) != text:
                raise ValueError(
                    f"out must be a new folder, or that of the same run; {path} holds another. Name another."
                )
    if folder.ended:
        raise ValueError(f"out must be a new folder; the run in {path} has ended. Name another.")
    begun = file.exists()
    folder.lock()
    try:
        if not begun:
            atomic.write_json(path / "versions.json", versions())
            atomic.write(file, [text])
        with Stop() if current_thread() is main_thread() else nullcontext(Stop()) as stop:
            checkpoints = Checkpoints(folder.checkpoints, training, folder.digest())
            run = Run(training, folder, checkpoints, listener, stop, save_every)
            if begun:
                run.go_on()
            with logged(run, log, begun) as logs:
                logs.ended = run.carry_out()
            return logs.ended
    finally:
        folder.unlock()


def all_records(path: Path, records: list[Record]) -> list[Record]:
    """The records of a run in a folder, those of earlier calls included.

    Args:
        path: the folder.
        records: those of this call.
    """
    begun_here = bool(records) and records[0].step == 0
    return records if begun_here else read_records(RunFolder(path).records, growing=True)


def about_run(training: Training, model: nn.Module, partition: Any) -> dict[str, Any]:
    """The settings of a run for people to read: models and data passed as objects have no name to build them by."""
    settings = training.settings
    how = {
        f.name: getattr(settings, f.name) for f in dataclasses.fields(settings) if f.name not in ("schedule", "seed")
    }
    return {
        "name": type(model).__name__,
        "seed": settings.seed,
        "agents": training.graph.agents,
        "model": {"name": type(model).__name__, "parameters": sum(training.model.sizes)},
        "graph": {"name": training.graph.name},
        "algorithm": plain(training.algorithm),
        "partition": plain(partition) if dataclasses.is_dataclass(partition) else {"name": "own"},
        "schedule": plain(settings.schedule) if dataclasses.is_dataclass(settings.schedule) else {"name": "own"},
        "training": {name: plain(value) for name, value in how.items() if value not in (None, ())},
        "data": {"name": "own", "samples": sum(training.sizes)},
    }


def plain(value: Any) -> Any:
    """Return hyper-parameters as a table for experiment.toml: a name and its plain fields."""
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        fields = {f.name: plain(getattr(value, f.name)) for f in dataclasses.fields(value) if f.repr}
        return {"name": type(value).__name__} | {name: field for name, field in fields.items() if field is not None}
    if isinstance(value, tuple | list):
        return [plain(part) for part in value if part is not None]
    return value if isinstance(value, bool | int | float | str) or value is None else str(value)[:200]
