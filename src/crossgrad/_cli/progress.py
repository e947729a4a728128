"""What a run prints during training and at its end."""

import json
import math
import time
from collections.abc import Iterable, Sequence
from contextlib import AbstractContextManager, nullcontext

from rich.console import Console, RenderableType
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
from rich.text import Text

from crossgrad._cli.console import say
from crossgrad._cli.options import RunOptions
from crossgrad._runs.runner import Run, SilentListener
from crossgrad._training.trainer import Training
from crossgrad.records.quantity import Quantity
from crossgrad.records.record import Record

LINE_SECONDS = 5.0  # between lines where there is no terminal
PAUSE_REMINDER_SECONDS = 60.0  # between reminders that a disk is full


class Bar(Progress):
    """A bar, and the latest evaluation in a line of its own below it: both fit into 80 columns."""

    latest = ""

    def get_renderables(self) -> Iterable[RenderableType]:
        yield self.make_tasks_table(self.tasks)
        if self.latest:
            yield Text(self.latest, no_wrap=True, overflow="ellipsis")

    def stop(self) -> None:
        self.latest = ""  # the summary follows
        super().stop()


class ProgressDisplay:
    """Progress of a run: a bar on a terminal, lines elsewhere, JSON or nothing on request."""

    def __init__(self, training: Training, options: RunOptions) -> None:
        self.training, self.quiet, self.as_json = training, options.quiet, options.json
        self.console, self.errors = Console(), Console(stderr=True)
        self.live = self.console.is_terminal and not self.quiet and not self.as_json
        self.began = self.last_line = time.monotonic()
        self.begun_at, self.last_pause = training.step_number, -math.inf
        self.last: Record | None = None
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
        elif not (self.quiet or self.as_json) and now - self.last_line > LINE_SECONDS:
            self._line(f"step {training.step_number}/{training.total_steps}", self._rate(now), self._time_left(now))

    def record(self, record: Record) -> None:
        self.last = record
        latest = f"loss {record.loss:.3f}" + _accuracies(record) + _metrics(record, self.training.quantities)
        if self.as_json:
            print(json.dumps(record.as_json()), flush=True)
        elif self.live:
            self.bar.latest = f"step {record.step}  {latest}"
        elif not self.quiet:
            step = f"step {record.step}/{self.training.total_steps}"
            bytes_sent = f"{_megabytes(record)} MB/agent"
            self._line(step, f"epoch {record.epoch:.1f}", latest, bytes_sent, self._time_left(time.monotonic()))

    def paused(self, problem: str) -> None:
        now = time.monotonic()
        if now - self.last_pause > PAUSE_REMINDER_SECONDS:
            self.last_pause = now
            say(self.errors, f"Paused: {problem}. The run goes on as soon as it can be written; Ctrl-C stops it.")

    def goes_on(self, run: Run) -> None:
        """Print the step at which a resumed run goes on."""
        self.begun_at = self.training.step_number
        for problem in run.checkpoints.problems:
            say(self.errors, f"Warning: {problem}")
        if run.checkpoints.problems:
            older = "there is no other checkpoint, so the run begins again at step 0."
            say(self.errors, f"Warning: {older if run.saved_step is None else 'an older checkpoint is used.'}")
        for change in run.folder.changed_versions():
            say(self.errors, f"Warning: {change}, so the last bits may differ from those of an undisturbed run.")
        if not self.quiet and not self.as_json:
            step = self.training.step_number
            where = f"from step {step} of {self.training.total_steps}" if step else "from the beginning"
            say(self.console, f"Going on {where}: {run.folder.path}")

    def end(self, run: Run, ended: str) -> None:
        folder = run.folder.path
        if ended == "interrupted":
            say(self.errors, _how_to_go_on(run))
        if self.as_json:
            return
        if self.quiet:
            print(folder)
            return
        if self.last is not None:
            say(self.console, _summary(self.last, self.training.quantities))
        if ended == "diverged":
            say(self.console, f"The run diverged: {self.training.reason}. {self.training.kept}")
        elif ended == "finished" and self.training.doubt:
            say(self.console, f"Beware: {self.training.doubt}.")
        print(f"Records, model and settings: {folder}")

    def stopped_at_once(self, run: Run) -> None:
        """Print from which step the run can be resumed."""
        say(self.errors, _how_to_go_on(run))

    def _line(self, *parts: str) -> None:
        print("  ".join(part for part in parts if part), flush=True)
        self.last_line = time.monotonic()

    def _rate(self, now: float) -> str:
        rate = (self.training.step_number - self.begun_at) / max(now - self.began, 1e-9)
        return f"{rate:.0f} steps/s" if rate >= 10 else f"{rate:.2g} steps/s"

    def _time_left(self, now: float) -> str:
        training = self.training
        taken, left = training.step_number - self.begun_at, training.total_steps - training.step_number
        return f"{(now - self.began) * left / taken:.0f} s left" if taken and left else ""


class SilentDisplay(SilentListener):
    """The display of processes other than rank 0: they print nothing."""

    progress = nullcontext()

    def goes_on(self, run: Run) -> None: ...

    def end(self, run: Run, ended: str) -> None: ...

    def stopped_at_once(self, run: Run) -> None: ...


def _how_to_go_on(run: Run) -> str:
    step, saved = run.training.step_number, run.saved_step
    where = "from the beginning" if saved is None else f"from step {saved}"
    return f"Stopped after step {step}. `crossgrad resume {run.folder.path}` goes on {where}."


def _accuracies(record: Record) -> str:
    if record.accuracy is None or record.mean_agent is None or record.worst_agent is None:
        return ""
    return f"  accuracy {record.accuracy:.1%} (mean agent {record.mean_agent:.1%}, worst {record.worst_agent:.1%})"


def _metrics(record: Record, quantities: Sequence[Quantity]) -> str:
    """What the task measures besides accuracy, of the averaged model."""
    numbers, parts = record.numbers(), []
    for one in quantities:
        value = numbers.get(one.name) if one.name in record.metrics else None
        if value is not None:
            parts.append(f"  {one.short} {value:.1%}" if one.percent else f"  {one.short} {value:.4g}")
    return "".join(parts)


def _summary(record: Record, quantities: Sequence[Quantity]) -> str:
    result = (_accuracies(record) + _metrics(record, quantities)).strip() or f"loss {record.loss:.4g}"
    return f"Step {record.step}: {result}, {_megabytes(record)} MB/agent."


def _megabytes(record: Record) -> str:
    return f"{record.bytes_sent / len(record.bytes_by_agent) / 1e6:.2f}"
