"""Cells as jobs of a batch system, through submitit: Slurm's job arrays, or local processes to try it out.

A job that reaches its time limit or is preempted is queued again and resumes from its checkpoint.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from crossgrad._logging.logger import Logger
from crossgrad._registry.shipment import Shipment
from crossgrad._runs.runner import SilentListener, Stop
from crossgrad._sweep.grid import Cell
from crossgrad._sweep.worker import Worker

ENGINES = ("slurm", "local")


class Job:
    """Runs some cells; submitit calls it on a machine of the cluster."""

    def __init__(self, sweep: Path, cells: Sequence[Cell], save_every: float, log: tuple[str | Logger, ...]) -> None:
        self.sweep, self.cells, self.save_every, self.log = sweep, Shipment.of(cells), save_every, log

    def __call__(self) -> None:
        with Stop() as stop:
            worker = Worker(self.sweep, SilentListener(), stop, self.save_every, log=self.log)
            worker.run_all(self.cells.unpack())

    def checkpoint(self) -> Any:
        """Queue this job again: its progress is on disk."""
        from submitit.helpers import DelayedSubmission

        return DelayedSubmission(self)


def submit(
    sweep: Path,
    cells: Sequence[Cell],
    engine: str,
    options: dict[str, Any],
    at_once: int,
    save_every: float,
    log: tuple[str | Logger, ...] = (),
) -> list[Any]:
    """Submit the cells: to Slurm as an array with a job for each cell, to this machine as a few workers."""
    try:
        import submitit
    except ImportError:
        raise ValueError(
            "--cluster needs submitit; it is not installed. Install it by `pip install 'crossgrad[cluster]'`."
        ) from None
    if engine not in ENGINES:
        raise ValueError(f"--cluster must be one of {', '.join(ENGINES)}; found {engine!r}.")
    try:
        executor = submitit.AutoExecutor(folder=sweep / "jobs", cluster=engine)
        given = {"name": "crossgrad", "timeout_min": 24 * 60, "cpus_per_task": 1} | options
        if engine == "slurm":
            given["slurm_array_parallelism"] = at_once
        executor.update_parameters(**given)
        shares = [[cell] for cell in cells] if engine == "slurm" else [cells] * min(at_once, len(cells))
        with executor.batch():
            submitted = [executor.submit(Job(sweep.resolve(), share, save_every, log)) for share in shares]
    except (RuntimeError, NameError, TypeError, AssertionError) as error:
        raise ValueError(
            f"--cluster must name an engine that takes these jobs; {engine} does not: {error}. Change --cluster "
            "or --option."
        ) from None
    return submitted
