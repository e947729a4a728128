"""A listener of runs that also passes records to loggers."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from crossgrad._logging.logger import Logger, RunAbout, flat_settings
from crossgrad._logging.logs import Logs
from crossgrad._runs.runner import Listener, Run
from crossgrad._storage import atomic
from crossgrad.experiments.toml import MAX_EXPERIMENT_BYTES, load_toml
from crossgrad.records.record import Record


class LoggedListener:
    """Passes everything on to another listener, and records to the loggers as well."""

    def __init__(self, listener: Listener, logs: Logs) -> None:
        self.listener, self.logs = listener, logs

    def step(self) -> None:
        self.listener.step()

    def record(self, record: Record) -> None:
        self.logs.record(record)
        self.listener.record(record)

    def paused(self, problem: str) -> None:
        self.listener.paused(problem)


@contextmanager
def logged(run: Run, chosen: Sequence[str | Logger], goes_on: bool) -> Iterator[Logs]:
    """Add loggers to a run, in the process that writes its records.

    Args:
        run: a run that has not been carried out yet.
        chosen: as `check_loggers` returns them.
        goes_on: whether the run began in an earlier process.
    """
    path = run.folder.path
    after = None if not goes_on else -1 if run.saved_step is None else run.saved_step
    with atomic.open_regular(path / "experiment.toml", follow=False) as file:
        settings = flat_settings(load_toml(file.read(MAX_EXPERIMENT_BYTES).decode()))
    here = chosen if run.group.is_rank_0 else ()
    with Logs(here, RunAbout(path.resolve().name, settings, path, after)) as logs:
        if here:
            run.listener = LoggedListener(run.listener, logs)
        yield logs
