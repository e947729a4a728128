"""Progress of a sweep: a bar for all of its cells, and below it a line for each cell at work."""

import json
import os
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn
from rich.text import Text

from crossgrad._cli.console import printable, say
from crossgrad._runs.checkpoint import Checkpoints
from crossgrad._runs.folder import RunFolder
from crossgrad._storage import atomic
from crossgrad._sweep.grid import Cell
from crossgrad._sweep.worker import FAILED, folder_of

SWEEP_LINE_SECONDS = 30.0  # between lines where there is no terminal
RECORDS_TAIL_BYTES = 1 << 20  # at the end of a file, which hold its last record
MAX_LINES = 12  # of cells at work


@dataclass
class CellProgress:
    """A cell that has not ended, and its progress as last read."""

    cell: Cell
    path: Path
    done: float = 0.0
    latest: str = ""
    problem: str = ""  # why it could not be read
    began_at: float | None = None  # how far it was when this sweep began


class Overview:
    """Reads the cells' folders, whichever process works on them, and shows their progress."""

    def __init__(self, sweep: Path, cells: tuple[Cell, ...], console: Console) -> None:
        self.console, self.live = console, console.is_terminal
        self.total, self.ended, self.diverged = len(cells), 0, 0
        self.open = [CellProgress(cell, folder_of(sweep, cell)) for cell in cells]
        self.began = self.last_line = time.monotonic()
        self.before = 0.0  # share of all cells that was done when this began
        columns = (
            TextColumn("cells"),
            BarColumn(bar_width=None),
            MofNCompleteColumn(),
            TextColumn("{task.fields[left]}"),
        )
        self.bar = Progress(*columns, expand=True)
        self.task = self.bar.add_task("cells", total=self.total, left="")
        self.look(quietly=True)
        self.before = self.share

    @property
    def share(self) -> float:
        """The share of the sweep that is done."""
        return (self.ended + sum(progress.done for progress in self.open)) / max(1, self.total)

    @property
    def waiting(self) -> tuple[Cell, ...]:
        """Cells that have not ended."""
        return tuple(progress.cell for progress in self.open)

    def look(self, quietly: bool = False) -> None:
        """Read files that have changed. A cell that cannot be read stays open, and is named at the end."""
        still = []
        for progress in self.open:
            try:
                atomic.check_folder(progress.path)
                ended = RunFolder(progress.path).ended
                if ended is None:
                    _look_at(progress)
            except (ValueError, OSError) as error:
                ended, progress.problem = None, str(error)
            if ended is None:
                still.append(progress)
                continue
            self.ended += 1
            self.diverged += ended == "diverged"
            if not quietly:
                self._tell(progress, ended)
        self.open = still
        if not quietly and not self.live and time.monotonic() - self.last_line > SWEEP_LINE_SECONDS:
            self._line(f"{self.ended}/{self.total} cells", f"{self.share:.0%}", self._left())

    def failures(self) -> list[str]:
        """Cells that could not be run, each with its reason."""
        reasons = [(progress.cell.experiment.name, _failure(progress)) for progress in self.open]
        return [f"{name}: {reason}" for name, reason in reasons if reason]

    def __rich__(self) -> RenderableType:
        self.bar.update(self.task, completed=self.share * self.total, left=self._left())
        at_work = [progress for progress in self.open if progress.done > (progress.began_at or 0.0) or progress.latest]
        at_work = sorted(at_work, key=lambda progress: -progress.done)
        texts = [printable(f"  {w.done:4.0%}  {w.cell.experiment.name}  {w.latest}") for w in at_work[:MAX_LINES]]
        lines = [Text(text, no_wrap=True, overflow="ellipsis") for text in texts]
        more = len(at_work) - MAX_LINES
        return Group(self.bar, *lines, *([Text(f"  and {more} more")] if more > 0 else []))

    def shown(self) -> Live:
        """Show a live display on a terminal."""
        return Live(self, console=self.console, refresh_per_second=2, transient=True)

    def _tell(self, progress: CellProgress, ended: str) -> None:
        summary = atomic.read_json(progress.path / "summary.json")
        latest = _accuracies_of_json(summary.get("last_record"))
        how = f"diverged ({summary.get('status')} at step {summary.get('steps')})" if ended == "diverged" else ended
        self._line(f"{self.ended}/{self.total}", f"{progress.cell.experiment.name}: {how}", latest, self._left())

    def _line(self, *parts: str) -> None:
        say(self.console, "  ".join(part for part in parts if part))
        self.last_line = time.monotonic()

    def _left(self) -> str:
        gone, done = time.monotonic() - self.began, self.share - self.before
        if done <= 0 or gone < 1:
            return ""
        seconds = gone * (1 - self.share) / done
        if seconds < 1:
            return ""
        minutes = seconds / 60
        return f"about {seconds:.0f} s left" if minutes < 2 else f"about {minutes:.0f} min left"


def _look_at(progress: CellProgress) -> None:
    """The progress of a cell, by the last complete line of its records or its newest checkpoint."""
    folder = RunFolder(progress.path)
    last = _last_record(folder.records)
    if last is None:
        return
    about = atomic.read_json(progress.path / "cell.json")
    steps = about.get("steps") if isinstance(about, dict) else None  # a cell of an earlier version does not say
    step = max(last["step"], Checkpoints.newest_step(folder.checkpoints))
    progress.done = min(1.0, step / steps) if type(steps) is int and steps > 0 else 0.0
    progress.began_at = progress.done if progress.began_at is None else progress.began_at
    progress.latest = _accuracies_of_json(last)


def _failure(progress: CellProgress) -> str:
    path = progress.path / FAILED
    try:
        with atomic.open_regular(path, follow=False) as file:
            return file.read(RECORDS_TAIL_BYTES).decode(errors="replace").strip()
    except FileNotFoundError:
        return progress.problem
    except (ValueError, OSError) as error:
        return progress.problem or str(error)


def _last_record(path: Path) -> dict[str, Any] | None:
    """The last complete line of a file of records, if it is a record."""
    try:
        with atomic.open_regular(path, follow=False) as file:
            file.seek(0, os.SEEK_END)
            file.seek(max(0, file.tell() - RECORDS_TAIL_BYTES))
            whole = file.read().rpartition(b"\n")[0].rpartition(b"\n")[2]
        record = json.loads(whole) if whole else None
    except FileNotFoundError:
        return None
    except (ValueError, RecursionError):
        return None  # no JSON, or a line longer than that
    return record if isinstance(record, dict) and type(record.get("step")) is int else None


def _accuracies_of_json(record: Any) -> str:
    """The accuracies and metrics of a record as read from disk, without values of other types."""
    if not isinstance(record, dict):
        return ""
    parts, metrics = [], record.get("metrics")
    averaged, mean_agent = record.get("accuracy"), record.get("mean_agent")
    if _is_number(averaged) and _is_number(mean_agent):
        parts.append(f"averaged {averaged:.1%}, mean agent {mean_agent:.1%}")
    for name, values in metrics.items() if isinstance(metrics, dict) else ():
        if isinstance(values, dict) and _is_number(values.get("averaged")):
            parts.append(f"{name} {values['averaged']:.3g}")
    return ", ".join(parts)


def _is_number(value: Any) -> bool:
    return type(value) in (int, float)
