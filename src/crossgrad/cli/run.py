"""`crossgrad run`: an experiment with live progress and a folder of its own."""

import json
import signal
import sys
import time
from collections.abc import Iterable
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import Any

import torch
from rich.console import Console, RenderableType
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
from rich.text import Text

from crossgrad import __version__
from crossgrad import experiment as experiments
from crossgrad.cli.console import say
from crossgrad.config import ConfigError
from crossgrad.process import process_group
from crossgrad.records import Record
from crossgrad.rundir import RunFolder
from crossgrad.train import Training

PLAIN_EVERY = 5.0  # seconds between lines where there is no terminal


def run_experiment(
    path: Path, changes: list[str], out: Path, *, quiet: bool, as_json: bool, verbose: bool = False
) -> None:
    """Run the experiment of a file, alone or in all processes that torchrun started; the leader talks and writes."""
    experiment = experiments.read(path, changes)
    if experiment.training.threads is not None:
        torch.set_num_threads(experiment.training.threads)
    with process_group(experiment.training.device) as group:
        group.agree(f"{__version__}\n{experiments.to_toml(experiment)}")
        try:
            training = experiment.start(group=group)
        except ValueError as error:
            raise ConfigError(f"{path}: {error}") from None
        if verbose and group.leader:
            print(training.passes, file=sys.stderr)
        if group.leader:
            ended = _lead(training, RunFolder(out, experiment), Show(training, quiet=quiet, as_json=as_json))
        else:
            ended = _follow(training)
    if ended == "interrupted":
        sys.exit(130)


def _lead(training: Training, folder: RunFolder, show: "Show") -> str:
    """Run, show and write down; how it ended. Ctrl-C ends it after the step, with its state kept."""
    last: Record | None = None
    ended = "interrupted"
    with CtrlC(training.group.processes == 1) as ctrl_c:
        try:
            with show.progress:
                last = _record(training, folder, show)
                while not training.finished and not ctrl_c.pressed:
                    training.step()
                    show.step()
                    if training.due:
                        last = _record(training, folder, show)
            if training.finished:
                ended = "finished"
        except KeyboardInterrupt:
            if training.group.processes > 1:
                raise
        if training.status != "ok":
            ended = "diverged"
            training.keep_last_good()
        folder.finish(training, training.averaged_model(), last, ended)
    show.end(folder.path, ended, last)
    return ended


def _follow(training: Training) -> str:
    """Run along with the leader."""
    for _ in training:
        pass
    training.keep_last_good()
    training.averaged_model()
    return "finished"


def _record(training: Training, folder: RunFolder, show: "Show") -> Record:
    record = training.evaluate()
    folder.add(record)
    show.record(record)
    return record


class CtrlC:
    """Takes note of the first Ctrl-C, so that no step is cut in half; the second does not wait."""

    def __init__(self, alone: bool) -> None:
        self.alone, self.pressed = alone, False  # of several processes, each would stop after another step

    def __enter__(self) -> "CtrlC":
        self.before = signal.getsignal(signal.SIGINT)
        # A process in the background may have been told to ignore it.
        if self.alone and self.before is signal.default_int_handler:
            signal.signal(signal.SIGINT, self._note)
        return self

    def __exit__(self, *_: object) -> None:
        signal.signal(signal.SIGINT, self.before)

    def _note(self, *_: Any) -> None:
        if self.pressed:
            raise KeyboardInterrupt
        self.pressed = True


class Bar(Progress):
    """A bar, and the latest evaluation in a line of its own below it: both fit into 80 columns."""

    news = ""

    def get_renderables(self) -> Iterable[RenderableType]:
        yield self.make_tasks_table(self.tasks)
        if self.news:
            yield Text(self.news, no_wrap=True, overflow="ellipsis")

    def stop(self) -> None:
        self.news = ""  # the summary follows
        super().stop()


class Show:
    """What a person sees of a run: a bar on a terminal, lines elsewhere, JSON or nothing if so wished."""

    def __init__(self, training: Training, *, quiet: bool, as_json: bool) -> None:
        self.training, self.quiet, self.as_json = training, quiet, as_json
        self.console = Console()
        self.live = self.console.is_terminal and not quiet and not as_json
        self.began = self.last_line = time.monotonic()
        self.bar = Bar(
            TextColumn("training"), BarColumn(bar_width=None), MofNCompleteColumn(), TextColumn("{task.fields[rate]}"),
            TimeRemainingColumn(), TextColumn("left"), console=self.console, expand=True,
        )  # fmt: skip
        self.task = self.bar.add_task("training", total=training.total_steps, rate="")

    @property
    def progress(self) -> AbstractContextManager[object]:
        return self.bar if self.live else nullcontext()

    def step(self) -> None:
        training, now = self.training, time.monotonic()
        if self.live:
            total = training.total_steps
            self.bar.update(self.task, completed=training.step_number, total=total, rate=self._rate(now))
        elif not (self.quiet or self.as_json) and now - self.last_line > PLAIN_EVERY:
            self._line(f"step {training.step_number}/{training.total_steps}", self._rate(now), self._time_left(now))

    def record(self, record: Record) -> None:
        news = f"loss {record.loss:.3f}" + _accuracies(record)
        if self.as_json:
            print(json.dumps(record.as_json()), flush=True)
        elif self.live:
            self.bar.news = f"step {record.step}  {news}"
        elif not self.quiet:
            step = f"step {record.step}/{self.training.total_steps}"
            bytes_sent = f"{_megabytes(record)} MB/agent"
            self._line(step, f"epoch {record.epoch:.1f}", news, bytes_sent, self._time_left(time.monotonic()))

    def end(self, folder: Path, ended: str, last: Record | None) -> None:
        if self.as_json:
            return
        if self.quiet:
            print(folder)
            return
        if last is not None:
            say(self.console, _summary(last))
        if ended == "diverged":
            kept = f"The state of step {self.training.last_good_step}, the last good one, is kept."
            say(self.console, f"The run diverged: {self.training.reason}. {kept}")
        elif ended == "interrupted":
            so_far = f"Interrupted after step {self.training.step_number}"
            say(self.console, f"{so_far}; what was learnt so far is kept.")
        print(f"Records, model and settings: {folder}")

    def _line(self, *parts: str) -> None:
        print("  ".join(part for part in parts if part), flush=True)
        self.last_line = time.monotonic()

    def _rate(self, now: float) -> str:
        rate = self.training.step_number / max(now - self.began, 1e-9)
        return f"{rate:.0f} steps/s" if rate >= 10 else f"{rate:.2g} steps/s"

    def _time_left(self, now: float) -> str:
        done = self.training.done
        return f"{(now - self.began) * (1 - done) / done:.0f} s left" if 0 < done < 1 else ""


def _accuracies(record: Record) -> str:
    if record.accuracy is None or record.mean_agent is None or record.worst_agent is None:
        return ""
    return f"  accuracy {record.accuracy:.1%} (mean agent {record.mean_agent:.1%}, worst {record.worst_agent:.1%})"


def _summary(record: Record) -> str:
    result = _accuracies(record).strip() or f"loss {record.loss:.4g}"
    return f"Step {record.step}: {result}, {_megabytes(record)} MB/agent."


def _megabytes(record: Record) -> str:
    return f"{record.bytes_sent / len(record.bytes_by_agent) / 1e6:.2f}"
