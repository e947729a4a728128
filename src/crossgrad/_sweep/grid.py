"""A grid of experiments as a TOML file: one experiment, and axes along which it changes.

name = "digits"

[experiment]                     # as for `crossgrad run`
model = "mlp"
partition = "class"
algorithm = "cga"
training = { steps = 300 }

[axes]
graph = ["ring", "fully-connected"]
"algorithm.momentum" = [0.9, 0.98]
seed = [0, 1, 2]

[axes.split]                     # a table where points have names, or change several settings
IID = { partition = "iid" }
non-IID = { partition = "class" }
"""

import copy
import hashlib
import itertools
import re
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from crossgrad.experiments.config import ConfigError, fields_of, nearest
from crossgrad.experiments.experiment import Experiment
from crossgrad.experiments.files import REQUIRED, apply_change, from_table, set_key, to_toml
from crossgrad.experiments.toml import load_toml, read_file

MAX_CELLS = 100_000
FOLDER_NAME = re.compile(r"[\w-][\w .-]{0,119}")  # of a grid: it names a folder within --out
MAX_CELL_NAME_CHARACTERS = 120  # of a cell's folder, before its key


@dataclass(frozen=True)
class Cell:
    """One experiment of a grid; its labels are its point on each axis."""

    labels: dict[str, str]
    experiment: Experiment

    @property
    def name(self) -> str:
        """Name of its folder: its labels, and a hash of its experiment."""
        words = re.sub(r"[^A-Za-z0-9.]+", "-", "-".join(self.labels.values())).strip("-.").lower()
        key = hashlib.sha256(to_toml(replace(self.experiment, name="")).encode()).hexdigest()[:10]
        return f"{words[:MAX_CELL_NAME_CHARACTERS]}-{key}" if words else key


@dataclass(frozen=True)
class GridFile:
    """The keys of a grid's file."""

    axes: dict[str, Any]
    experiment: dict[str, Any]
    name: str = "grid"


@dataclass(frozen=True)
class Grid:
    """All cells of a grid."""

    name: str
    cells: tuple[Cell, ...]


def read_grid(path: str | Path, changes: list[str] | None = None) -> Grid:
    """The grid of a file; `key=value` changes are made to every cell's experiment."""
    return read_file(path, "a grid", lambda text: parse_grid(text, changes))


def parse_grid(text: str, changes: list[str] | None = None) -> Grid:
    """The grid that a TOML text describes.

    >>> base = 'model = "mlp"\\ngraph = "ring"\\npartition = "class"\\nalgorithm = "cga"\\ntraining.steps = 10'
    >>> grid = parse_grid(f"[axes]\\nagents = [5, 10]\\nseed = [0, 1]\\n[experiment]\\n{base}")
    >>> [cell.labels for cell in grid.cells][1:3]
    [{'agents': '5', 'seed': '1'}, {'agents': '10', 'seed': '0'}]
    """
    file = as_grid_file(load_toml(text), "sweep")
    return Grid(file.name, cells_of(file.experiment, file.axes, changes or []))


def as_grid_file(table: dict[str, Any], command: str) -> GridFile:
    """Check the keys of a grid's table; `command` is the one whose help shows a complete grid."""
    for key in ("experiment", "axes"):
        if not isinstance(table.get(key), dict) or not table[key]:
            raise ConfigError(f"a grid has a table [{key}]; this one has none. `crossgrad {command} --help` shows one.")
    file = GridFile(**fields_of(GridFile, table, "", {}, "a grid"))
    check_grid_name(file.name)
    return file


def check_grid_name(name: str) -> None:
    """Raise unless a grid can have this name."""
    if not FOLDER_NAME.fullmatch(name):
        raise ConfigError(
            f"name must be the name of one folder: letters, digits, spaces, '.', '_' and '-', at most "
            f"{MAX_CELL_NAME_CHARACTERS}, and no '.' at the start; found {name!r}."
        )


def cells_of(experiment: dict[str, Any], axes: dict[str, Any], changes: list[str]) -> tuple[Cell, ...]:
    """A cell for every combination of the axes' points; the last axis changes fastest."""
    cells = []
    for labels, table in tables_of(experiment, axes):
        for change in changes:
            apply_change(table, change)
        table["name"] = ", ".join(labels.values())
        cells.append(Cell(labels, experiment_of(table)))
    return tuple(cells)


def experiment_of(table: dict[str, Any]) -> Experiment:
    """The experiment of one combination of an axes' points; errors begin with the name in the table."""
    if missing := [key for key in REQUIRED if key not in table]:
        raise ConfigError(
            f"[experiment] or an axis must say which {' or '.join(missing)} to use; found neither. Add a line such as "
            f'{missing[0]} = "{min(REQUIRED[missing[0]])}" to [experiment].'
        )
    try:
        return from_table(table)
    except ConfigError as error:
        raise ConfigError(f"the cell {table['name']}: {error}") from None


def tables_of(experiment: dict[str, Any], axes: dict[str, Any]) -> list[tuple[dict[str, str], dict[str, Any]]]:
    """The labels and the experiment, as tables, of every combination of the axes' points."""
    points = [_points(axis, values, experiment) for axis, values in axes.items()]
    count = 1
    for axis_points in points:
        count *= len(axis_points)
    if count > MAX_CELLS:
        raise ConfigError(
            f"a grid must have at most {MAX_CELLS:,} cells; this one has {count:,}. Leave out points or split it."
        )
    found = []
    for combination in itertools.product(*points):
        table = copy.deepcopy(experiment)
        for _, settings in combination:
            for key, value in settings.items():
                set_key(table, key, copy.deepcopy(value))
        found.append((dict(zip(axes, (label for label, _ in combination), strict=True)), table))
    return found


def _points(axis: str, values: Any, experiment: dict[str, Any]) -> list[tuple[str, dict[str, Any]]]:
    """The points of an axis: their labels, and the settings that each of them changes."""
    if isinstance(values, dict) and values:
        for label, settings in values.items():
            if not isinstance(settings, dict) or not settings:
                raise ConfigError(
                    f"axes.{axis}.{label} must be a table of settings, such as {{ seed = 1 }}; found {settings!r}."
                )
        return list(values.items())
    if not isinstance(values, list) or not values:
        raise ConfigError(
            f"axes.{axis} must be a list of values, or a table with settings for each label; found {values!r}."
        )
    if axis.split(".")[0] not in (known := Experiment.__dataclass_fields__):
        raise ConfigError(f"axes.{axis}: an experiment has no key {axis.split('.')[0]!r}. {nearest(axis, known)}")
    points = [(_label(value), {axis: value}) for value in values]
    labels = [label for label, _ in points]
    if len(set(labels)) < len(labels):
        raise ConfigError(
            f"axes.{axis} must have every point once; {_twice(labels)!r} is there twice. Remove one, or give both a "
            f"label: [axes.{axis}] with a line such as 'one name' = {{ {axis} = ... }} for each."
        )
    return points


def _label(value: Any) -> str:
    if isinstance(value, dict) and "name" in value:
        options = [f"{key} {part}" for key, part in value.items() if key != "name"]
        return " ".join([str(value["name"]), *options])
    return str(value)


def _twice(labels: list[str]) -> str:
    return next(label for label in labels if labels.count(label) > 1)
