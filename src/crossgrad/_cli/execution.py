"""Running an experiment in its folder, in one process or in several: the common part of `run` and `resume`."""

import os
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path

import torch

from crossgrad import __version__
from crossgrad._cli.options import RunOptions
from crossgrad._cli.progress import ProgressDisplay, SilentDisplay
from crossgrad._logging.logger import check_loggers
from crossgrad._processes.group import Group
from crossgrad._processes.torchrun import process_group
from crossgrad._runs.checkpoint import Checkpoints
from crossgrad._runs.folder import RunFolder
from crossgrad._runs.logged import logged
from crossgrad._runs.runner import Run, Stop
from crossgrad._runs.versions import versions_of_plugins
from crossgrad._training.threads import suitable_threads
from crossgrad.experiments import files
from crossgrad.experiments.config import ConfigError
from crossgrad.experiments.experiment import Experiment


@contextmanager
def processes_of(experiment: Experiment, options: RunOptions) -> Iterator[Group]:
    """The processes of the run, once all of them have the same version and experiment."""
    if experiment.training.threads is not None:
        torch.set_num_threads(experiment.training.threads)
    with process_group(experiment.training.device, lost_after=options.lost_after) as group:
        group.agree(f"{__version__}\n{sorted(versions_of_plugins().values())}\n{files.to_toml(experiment)}")
        yield group


def execute(
    experiment: Experiment, folder: RunFolder | None, out: Path, options: RunOptions, group: Group, name: str
) -> None:
    """Run, in a new folder unless there is one; the process ends with a status that says how the run ended."""
    forecasts: list[str] = []
    try:
        training = experiment.start(group=group, admit=lambda forecast: forecasts.append(str(forecast)))
    except ValueError as error:
        raise ConfigError(f"{name}: {error}") from None
    if options.verbose and group.is_rank_0:
        print(training.passes, *forecasts, sep="\n", file=sys.stderr)
    begun = folder is not None
    if folder is None and group.is_rank_0:
        folder = RunFolder.new(out, experiment)
    elif folder is not None and group.is_rank_0:
        folder.lock()
    path = Path(group.broadcast_text(str(folder.path) if folder else ""))
    folder = folder or RunFolder(path)
    folder.note(experiment)
    group.keep_text(str(path))
    display = ProgressDisplay(training, options) if group.is_rank_0 else SilentDisplay()
    with Stop(ends_process=True) as stop:
        checkpoints = Checkpoints(folder.checkpoints, training, folder.digest())
        run = Run(training, folder, checkpoints, display, stop, options.checkpoint_every, options.keep_state)
        threads = suitable_threads(training) if experiment.training.threads is None else nullcontext()
        try:
            if begun:
                run.go_on()
                display.goes_on(run)
            with logged(run, check_loggers(options.log), begun) as logs, threads, display.progress:
                ended = logs.ended = run.carry_out()
            display.end(run, ended)
        except KeyboardInterrupt:
            display.stopped_at_once(run)
            if group.processes > 1:
                os._exit(130)  # an orderly exit would wait for the other processes
            sys.exit(130)
        finally:
            folder.unlock()
    if ended == "interrupted":
        sys.exit(128 + (stop.signal or signal.SIGINT))
