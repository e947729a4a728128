"""`crossgrad run` and `crossgrad resume`: an experiment, its folder and its checkpoints, in one process or in many."""

import os
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import torch

from crossgrad import __version__
from crossgrad._cli.progress import RunOptions, Show, SilentListener
from crossgrad._processes.group import Group
from crossgrad._processes.torchrun import process_group
from crossgrad._runs.checkpoint import Checkpoints
from crossgrad._runs.folder import RunFolder
from crossgrad._runs.runner import Run, Stop
from crossgrad.experiments import experiment as experiments
from crossgrad.experiments.config import ConfigError
from crossgrad.experiments.experiment import Experiment


def run_experiment(path: Path, changes: list[str], out: Path, options: RunOptions) -> None:
    """Run the experiment of a file, alone or in all processes that torchrun started; rank 0 talks and writes.

    Where torchrun starts all processes anew because one was lost, the run that they were at goes on.
    """
    experiment = experiments.read(path, changes)
    with _processes(experiment, options) as group:
        earlier = group.recall()
        folder = RunFolder(Path(earlier)) if earlier else None
        if folder is not None and folder.ended:
            return
        _carry_out(experiment, folder, out, options, group, str(path))


def resume_run(path: Path, options: RunOptions) -> None:
    """Go on with a run that was stopped, in any number of processes."""
    folder = RunFolder.existing(path)
    experiment = folder.experiment()
    with _processes(experiment, options) as group:
        if ended := folder.ended:
            raise ValueError(f"{path}: this run has ended ({ended}); there is nothing to go on with.")
        _carry_out(experiment, folder, path, options, group, str(folder.path))


@contextmanager
def _processes(experiment: Experiment, options: RunOptions) -> Iterator[Group]:
    if experiment.training.threads is not None:
        torch.set_num_threads(experiment.training.threads)
    with process_group(experiment.training.device, lost_after=options.lost_after) as group:
        group.agree(f"{__version__}\n{experiments.to_toml(experiment)}")
        yield group


def _carry_out(
    experiment: Experiment, folder: RunFolder | None, out: Path, options: RunOptions, group: Group, name: str
) -> None:
    """Run, in a new folder unless there is one, and say how it ended by the status of the process."""
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
    path = Path(group.tell(str(folder.path) if folder else ""))
    folder = folder or RunFolder(path)
    folder.note(experiment)
    group.remember(str(path))
    show = Show(training, options) if group.is_rank_0 else SilentListener()
    with Stop() as stop:
        checkpoints = Checkpoints(folder.checkpoints, training, folder.digest())
        run = Run(training, folder, checkpoints, show, stop, options.save_every, options.keep_state)
        try:
            if begun:
                run.go_on()
                show.goes_on(run)
            with show.progress:
                ended = run.carry_out()
            show.end(run, ended)
        except KeyboardInterrupt:
            show.stopped_at_once(run)
            if group.processes > 1:
                os._exit(130)  # tidying up would wait for the others
            sys.exit(130)
        finally:
            folder.unlock()
    if ended == "interrupted":
        sys.exit(128 + (stop.signal or signal.SIGINT))
