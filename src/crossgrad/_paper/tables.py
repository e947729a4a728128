"""The accuracy tables of the paper and its settings; the numbers are in tables.toml."""

import tomllib
from dataclasses import dataclass
from importlib.resources import files
from typing import Any

from crossgrad.experiments.config import ConfigError, nearest

METHODS = ("DPSGD", "DPMSGD", "SGP", "SwarmSGD", "CGA", "CompCGA")
GRAPHS = ("fully-connected", "ring", "bipartite")
AGENTS = (5, 10, 40)
DIVERGES = "diverges"


@dataclass(frozen=True)
class PaperCell:
    """One number of the paper: an accuracy, or that the method diverges."""

    table: str
    method: str
    graph: str
    agents: int
    accuracy: float | None  # percent
    diverges: bool

    def __str__(self) -> str:
        return DIVERGES if self.diverges else f"{self.accuracy:.1f}"


@dataclass(frozen=True)
class PaperTable:
    """One accuracy table: what was trained on what, and its cells."""

    name: str
    title: str
    label: str  # in the paper's source
    data: str
    model: str
    split: str  # IID or non-IID
    cells: tuple[PaperCell, ...]

    @property
    def methods(self) -> tuple[str, ...]:
        """The methods it compares, in the paper's order."""
        return tuple(dict.fromkeys(cell.method for cell in self.cells))


@dataclass(frozen=True)
class PaperSetting:
    """What the paper says about one setting, in its own words, and our choice where it leaves something open."""

    name: str
    value: str | None = None
    words: str | None = None
    section: str | None = None  # of the paper, where the words stand
    open: str | None = None
    taken: str | None = None


def cells(table: str) -> tuple[PaperCell, ...]:
    """All cells of one table."""
    return find(table).cells


def cell(table: str, method: str, graph: str, agents: int) -> PaperCell | None:
    """One cell, or None where the paper has no such number.

    >>> cell("cifar10-cnn-noniid", "DPMSGD", "ring", 5)
    PaperCell(table='cifar10-cnn-noniid', method='DPMSGD', graph='ring', agents=5, accuracy=None, diverges=True)
    >>> print(cell("mnist-cnn-iid", "CompCGA", "ring", 5))
    None
    """
    return _CELLS.get((find(table).name, method, graph, agents))


def find(table: str) -> PaperTable:
    """The table of that name."""
    if table not in TABLES:
        raise ConfigError(f"the paper has no table {table!r}. {nearest(table, TABLES)}")
    return TABLES[table]


def _read() -> tuple[dict[str, PaperTable], dict[str, PaperSetting]]:
    content = tomllib.loads(files("crossgrad._paper").joinpath("tables.toml").read_text(encoding="utf-8"))
    tables = {name: _table(name, part) for name, part in content["tables"].items()}
    return tables, {name: PaperSetting(name, **part) for name, part in content["settings"].items()}


def _table(name: str, part: dict[str, Any]) -> PaperTable:
    found = tuple(
        PaperCell(name, method, graph, agents, None if value == DIVERGES else float(value), value == DIVERGES)
        for method, graphs in part["accuracy"].items()
        for graph, values in graphs.items()
        for agents, value in zip(AGENTS, values, strict=True)
    )
    return PaperTable(name, part["title"], part["label"], part["data"], part["model"], part["split"], found)


TABLES, SETTINGS = _read()
_CELLS = {(c.table, c.method, c.graph, c.agents): c for table in TABLES.values() for c in table.cells}
