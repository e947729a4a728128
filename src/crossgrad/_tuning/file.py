"""The file of `crossgrad tune`: a grid whose cells are what is compared, with a table [tune].

name = "ring"

[experiment]                     # as for `crossgrad run`
model = "mlp"
graph = "ring"
partition = "class"
training = { steps = 300 }

[axes]                           # as for `crossgrad sweep`; every combination is tuned for itself
algorithm = ["edm", "cga", "dpmsgd"]

[tune]
trials = 8
"""

from pathlib import Path

from crossgrad._sweep.grid import as_grid_file, experiment_of, tables_of
from crossgrad._tuning.plan import TuneChoice, TunedEntry, Tuning
from crossgrad.experiments.config import ConfigError, fields_of
from crossgrad.experiments.files import apply_change
from crossgrad.experiments.toml import load_toml, read_file

TUNED = ("schedule.lr", "algorithm.momentum", "seed")  # which no axis may set


def read_tuning(path: str | Path, changes: list[str] | None = None) -> Tuning:
    """Read a file. `key=value` changes are made to every experiment, `tune.key=value` changes to the table [tune]."""
    return read_file(path, "a grid", lambda text: parse_tuning(text, changes))


def parse_tuning(text: str, changes: list[str] | None = None) -> Tuning:
    """The tuning that a TOML text describes.

    >>> base = 'model = "mlp"\\ngraph = "ring"\\npartition = "class"\\ntraining.steps = 10'
    >>> tuning = parse_tuning(f"[axes]\\nalgorithm = ['edm', 'd2']\\n[experiment]\\n{base}\\n[tune]\\ntrials = 9")
    >>> [entry.labels for entry in tuning.entries], tuning.choice.trials
    ([{'algorithm': 'edm'}, {'algorithm': 'd2'}], 9)
    """
    table = load_toml(text)
    changes = changes or []
    for change in (change for change in changes if change.startswith("tune.")):
        apply_change(table, change)
    tune = table.pop("tune", {})
    if not isinstance(tune, dict):
        raise ConfigError(f"tune must be a table; found {tune!r}.")
    try:
        choice = TuneChoice(**fields_of(TuneChoice, tune, "tune", {}, "tune"))
    except ConfigError:
        raise
    except ValueError as error:
        raise ConfigError(f"tune: {error}") from None
    file = as_grid_file(table, "tune")
    for key in [*file.axes, *(key for axis in file.axes.values() for key in _keys(axis))]:
        if key in TUNED:
            raise ConfigError(
                f"axes must leave {', '.join(TUNED)} to tuning; found {key}, and no axis can set it. Remove it."
            )
    entries = []
    for labels, experiment in tables_of(file.experiment, file.axes):
        for change in (change for change in changes if not change.startswith("tune.")):
            apply_change(experiment, change)
        experiment_of({**experiment, "name": ", ".join(labels.values())})
        entries.append(TunedEntry(labels, experiment))
    return Tuning(file.name, tuple(entries), choice)


def _keys(axis: object) -> list[str]:
    """The settings that the points of an axis change, where they have names."""
    points = axis.values() if isinstance(axis, dict) else ()
    return [key for settings in points if isinstance(settings, dict) for key in settings]
