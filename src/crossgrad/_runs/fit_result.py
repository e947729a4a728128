"""The result of `crossgrad.fit`, and its listener during the training."""

import sys
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from io import BytesIO
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any

from safetensors.torch import save_file
from torch import nn

from crossgrad._runs.notebook_bar import NotebookBar
from crossgrad._training.trainer import Training
from crossgrad.records.record import Record

if TYPE_CHECKING:
    import pandas
    from matplotlib.figure import Figure


@dataclass(frozen=True, eq=False)
class Result:
    """The result of a run.

    Attributes:
        records: one record per evaluation.
        model: the average of all agents' models: of the last good ones if the run diverged, of the best ones if there
            was validation data.
        training: the `Training` itself.
        ended: "finished", "diverged" or "interrupted".
        folder: the folder that the run was written to; None without `out`.
    """

    records: list[Record]
    model: nn.Module
    training: Training
    ended: str = "finished"
    folder: Path | None = None

    @property
    def status(self) -> str:
        """How the loss behaved: "ok", "nonfinite" or "exploded"."""
        return self.training.status

    def agent_model(self, agent: int) -> nn.Module:
        """Return one agent's own model."""
        return self.training.agent_model(agent)

    def save(self, path: str | Path) -> None:
        """Write the averaged model's parameters and buffers as a safetensors file."""
        tensors = {name: value.detach().contiguous().clone() for name, value in self.model.state_dict().items()}
        save_file(tensors, str(path))

    def to_pandas(self) -> "pandas.DataFrame":
        """Return the records as a table with one row per evaluation.

        Raises:
            ImportError: pandas is not installed.
        """
        try:
            import pandas
        except ImportError:
            raise ImportError(
                "to_pandas needs pandas; it is not installed. Install it by `pip install pandas`."
            ) from None
        return pandas.DataFrame([record.as_json() for record in self.records])

    def plot(self) -> "Figure":
        """Return a figure of the averaged model's losses and, where there is one, its accuracy over the steps."""
        from matplotlib.figure import Figure

        class ShownFigure(Figure):
            """A figure that a notebook shows, whether pyplot was imported or not."""

            def _repr_png_(self) -> bytes:
                content = BytesIO()
                self.savefig(content, format="png")
                return content.getvalue()

        figure = ShownFigure(figsize=(6, 3), layout="constrained")
        steps = [record.step for record in self.records]
        curves: dict[str, list[Any]] = {
            "loss": [record.loss for record in self.records],
            "test loss": [record.test_loss for record in self.records],
            "validation loss": [record.diagnostics.get("validation_loss") for record in self.records],
        }
        accuracies: list[Any] = [record.accuracy for record in self.records]
        count = 2 if any(value is not None for value in accuracies) else 1
        axes = [figure.add_subplot(1, count, number + 1) for number in range(count)]
        for name, values in curves.items():
            if any(value is not None for value in values):
                axes[0].plot(steps, values, label=name)
        axes[0].set(xlabel="step", ylabel="loss of the averaged model")
        axes[0].legend()
        if len(axes) > 1:
            axes[1].plot(steps, accuracies)
            axes[1].set(xlabel="step", ylabel="accuracy of the averaged model")
        return figure

    def __repr__(self) -> str:
        last = self.records[-1] if self.records else None
        accuracy = "" if last is None or last.accuracy is None else f", accuracy {last.accuracy:.1%}"
        loss = "" if last is None else f", loss {last.loss:.4g}"
        agents, steps = self.training.graph.agents, self.training.step_number
        return f"<Result of {agents} agents: {self.ended} after {steps} steps{loss}{accuracy}>"


class FitListener:
    """Keeps a run's records, shows a progress bar on a terminal or in a notebook, and calls the user's functions."""

    def __init__(
        self,
        training: Training,
        progress: bool | None,
        on_step: Callable[[Training], Any] | None,
        on_record: Callable[[Record], Any] | None,
    ) -> None:
        self.training, self.on_step, self.on_record = training, on_step, on_record
        self.records: list[Record] = []
        self.bar: Any = None
        if (progress is None or progress) and _in_notebook():
            self.bar = NotebookBar(training.total_steps)
        elif progress or (progress is None and sys.stderr.isatty()):
            from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

            columns = (BarColumn(), MofNCompleteColumn(), TimeRemainingColumn(), TextColumn("{task.description}"))
            self.bar = Progress(*columns)
            self.bar.update = partial(self.bar.update, self.bar.add_task("", total=training.total_steps))

    def __enter__(self) -> "FitListener":
        if self.bar is not None:
            self.bar.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        if self.bar is not None:
            self.bar.stop()

    def step(self) -> None:
        if self.bar is not None:
            self.bar.update(completed=self.training.step_number)
        if self.on_step is not None:
            self.on_step(self.training)

    def record(self, record: Record) -> None:
        self.records.append(record)
        if self.bar is not None:
            accuracy = "" if record.accuracy is None else f"  accuracy {record.accuracy:.1%}"
            self.bar.update(description=f"loss {record.loss:.3f}{accuracy}")
        if self.on_record is not None:
            self.on_record(record)

    def paused(self, problem: str) -> None:
        sys.stderr.write(f"Paused: {problem}. The run goes on as soon as it can be written.\n")


def _in_notebook() -> bool:
    """Whether output goes to a notebook."""
    return "ipykernel" in sys.modules and "IPython" in sys.modules
