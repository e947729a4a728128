"""What a logger is, and the loggers by name."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any, NamedTuple, Protocol


@dataclass(frozen=True)
class RunAbout:
    """What a logger is told about a run before its first record.

    Args:
        name: of the run.
        settings: all settings, as `{"algorithm.momentum": 0.9}`.
        folder: the run's own; None if it has none.
        go_on_after: the step after which records follow; None at the start of a run. Records of later steps that were
            logged before an interruption come again.
    """

    name: str
    settings: Mapping[str, Any]
    folder: Path | None = None
    go_on_after: int | None = None


class Logger(Protocol):
    """Receives the numbers of every record; `fit(log=...)` takes one's own."""

    def begin(self, about: RunAbout) -> None:
        """A run begins, or goes on."""

    def record(self, step: int, numbers: Mapping[str, float]) -> None:
        """The numbers of a record by name: those that all records have, metrics and diagnostics."""

    def end(self, ended: str) -> None:
        """The run has ended: finished, diverged, interrupted or failed."""


class _Known(NamedTuple):
    module: str  # within `_logging`
    kind: str  # the class
    package: str  # that must be installed, and the extra that installs it
    needs_folder: bool


LOGGERS = {
    "tensorboard": _Known("tensorboard", "TensorBoardLogger", "tensorboard", True),
    "mlflow": _Known("mlflow", "MlflowLogger", "mlflow", False),
    "wandb": _Known("wandb", "WandbLogger", "wandb", False),
    "csv": _Known("csv", "CsvLogger", "", True),
}


def check_loggers(log: Any, has_folder: bool = True) -> tuple[str | Logger, ...]:
    """The names and objects of `log`, once all of them can be used.

    Args:
        log: a name, a logger, or several of these; or None.
        has_folder: whether the run writes a folder.

    Raises:
        ValueError: a name is not known, a package is not installed, or a logger needs a folder.

    >>> check_loggers("csv")
    ('csv',)
    """
    several = isinstance(log, Sequence | set | frozenset) and not isinstance(log, str)
    chosen: Iterable[Any] = () if log is None else log if several else (log,)
    checked = tuple(dict.fromkeys(chosen))
    for one in checked:
        if not isinstance(one, str):
            if not all(callable(getattr(one, name, None)) for name in ("begin", "record", "end")):
                raise ValueError(f"a logger must have the methods begin, record and end; found a {type(one).__name__}.")
            continue
        if one not in LOGGERS:
            raise ValueError(f"log must be one of {', '.join(LOGGERS)}; found {one!r}.")
        package = LOGGERS[one].package
        if package and find_spec(package) is None:
            raise ValueError(
                f"log {one} needs the package {package}; it is not installed. Install it by `pip install "
                f"'crossgrad[{one}]'`."
            )
        if LOGGERS[one].needs_folder and not has_folder:
            raise ValueError(f"log {one} writes into the run's folder; there is none. Name one: fit(..., out=DIR).")
    return checked


def made(one: str | Logger) -> Logger:
    """The logger of this name, or the user's own object as it is."""
    if not isinstance(one, str):
        return one
    logger: Logger = getattr(import_module(f"crossgrad._logging.{LOGGERS[one].module}"), LOGGERS[one].kind)()
    return logger


def flat_settings(settings: Mapping[str, Any], before: str = "") -> dict[str, Any]:
    """Nested tables as one, with names joined by dots.

    >>> flat_settings({"seed": 0, "graph": {"name": "ring"}})
    {'seed': 0, 'graph.name': 'ring'}
    """
    flat: dict[str, Any] = {}
    for name, value in settings.items():
        flat |= flat_settings(value, f"{before}{name}.") if isinstance(value, Mapping) else {f"{before}{name}": value}
    return flat
