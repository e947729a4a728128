"""`crossgrad run`: an experiment with live progress and a folder of its own."""

import json
import sys
import time
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path

import torch
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from crossgrad import experiment as experiments
from crossgrad.records import Record
from crossgrad.rundir import RunFolder
from crossgrad.train import Training

PLAIN_EVERY = 5.0  # seconds between lines where there is no terminal


def run_experiment(path: Path, changes: list[str], out: Path, *, quiet: bool, as_json: bool) -> None:
    """Run the experiment of a file; Ctrl-C once ends it after the step, with its state kept."""
    experiment = experiments.read(path, changes)
    if experiment.training.threads is not None:
        torch.set_num_threads(experiment.training.threads)
    training = experiment.start()
    folder = RunFolder(out, experiment)
    show = Show(training, quiet=quiet, as_json=as_json)
    last: Record | None = None
    ended = "finished"
    try:
        with show.progress:
            last = _record(training, folder, show)
            while not training.finished:
                training.step()
                show.step()
                if training.due:
                    last = _record(training, folder, show)
    except KeyboardInterrupt:
        ended = "interrupted"
    if training.status != "ok":
        ended = "diverged"
        training.keep_last_good()
    folder.finish(training, last, ended)
    show.end(folder.path, ended, last)
    if ended == "interrupted":
        sys.exit(130)


def _record(training: Training, folder: RunFolder, show: "Show") -> Record:
    record = training.evaluate()
    folder.add(record)
    show.record(record)
    return record


class Show:
    """What a person sees of a run: a bar on a terminal, lines elsewhere, JSON or nothing if so wished."""

    def __init__(self, training: Training, *, quiet: bool, as_json: bool) -> None:
        self.training, self.quiet, self.as_json = training, quiet, as_json
        self.console = Console()
        self.live = self.console.is_terminal and not quiet and not as_json
        self.began = self.last_line = time.monotonic()
        self.bar = Progress(
            TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TextColumn("{task.fields[news]}"),
            TextColumn("time left"), TimeRemainingColumn(), console=self.console,
        )  # fmt: skip
        self.news = ""
        self.task = self.bar.add_task("training", total=training.total_steps, news="")

    @property
    def progress(self) -> AbstractContextManager[object]:
        return self.bar if self.live else nullcontext()

    def step(self) -> None:
        elapsed = time.monotonic() - self.began
        rate = f"{self.training.step_number / elapsed:.0f} steps/s"
        if self.live:
            total = self.training.total_steps
            self.bar.update(self.task, completed=self.training.step_number, total=total, news=f"{self.news} {rate}")
        elif not (self.quiet or self.as_json) and time.monotonic() - self.last_line > PLAIN_EVERY:
            now = f"step {self.training.step_number}/{self.training.total_steps}"
            self._line(f"{now}  {rate}  {self._time_left(elapsed)}")

    def record(self, record: Record) -> None:
        if self.as_json:
            print(json.dumps(record.as_json()), flush=True)
        self.news = f"loss {record.loss:.3f}" + _accuracies(record)
        if not self.live and not self.quiet and not self.as_json:
            elapsed = time.monotonic() - self.began
            self._line(
                f"step {record.step}/{self.training.total_steps}  epoch {record.epoch:.1f}  {self.news}  "
                f"{_megabytes(record)} MB/agent  {self._time_left(elapsed)}"
            )

    def end(self, folder: Path, ended: str, last: Record | None) -> None:
        if self.as_json:
            return
        if self.quiet:
            print(folder)
            return
        if last is not None:
            self.console.print(_summary(last), highlight=False)
        if ended == "diverged":
            self.console.print(
                f"The run diverged: {self.training.reason}. The state of step {self.training.last_good_step}, "
                f"the last good one, is kept.", highlight=False, soft_wrap=True,
            )  # fmt: skip
        elif ended == "interrupted":
            self.console.print(
                f"Interrupted after step {self.training.step_number}; what was learnt so far is kept.",
                highlight=False, soft_wrap=True,
            )  # fmt: skip
        self.console.print(f"Records, model and settings: {folder}", highlight=False, soft_wrap=True)

    def _line(self, text: str) -> None:
        print(text, flush=True)
        self.last_line = time.monotonic()

    def _time_left(self, elapsed: float) -> str:
        done = self.training.done
        return f"{elapsed * (1 - done) / done:.0f} s left" if 0 < done < 1 else ""


def _accuracies(record: Record) -> str:
    if record.accuracy is None or record.mean_agent is None or record.worst_agent is None:
        return ""
    return f"  accuracy {record.accuracy:.1%} (mean agent {record.mean_agent:.1%}, worst {record.worst_agent:.1%})"


def _summary(record: Record) -> str:
    accuracies = _accuracies(record) or f"  loss {record.loss:.4g}"
    return f"After {record.step} steps:{accuracies}, {_megabytes(record)} MB sent per agent."


def _megabytes(record: Record) -> str:
    return f"{record.bytes_sent / len(record.bytes_by_agent) / 1e6:.2f}"
