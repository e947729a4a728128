"""The accuracy tables of the paper and its settings; the numbers are in tables.toml."""

import tomllib
from dataclasses import dataclass
from importlib.resources import files
from typing import Any

from crossgrad.experiments.config import ConfigError, nearest

PAPER_METHODS = ("DPSGD", "DPMSGD", "SGP", "SwarmSGD", "CGA", "CompCGA")
PAPER_GRAPHS = ("fully-connected", "ring", "bipartite")
PAPER_AGENTS = (5, 10, 40)
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


def cells(table: str) -> tuple[PaperCell, ...]:
    """All cells of one table."""
    return paper_table(table).cells


def cell(table: str, method: str, graph: str, agents: int) -> PaperCell | None:
    """One cell, or None where the paper has no such number.

    >>> cell("cifar10-cnn-noniid", "DPMSGD", "ring", 5)
    PaperCell(table='cifar10-cnn-noniid', method='DPMSGD', graph='ring', agents=5, accuracy=None, diverges=True)
    >>> print(cell("mnist-cnn-iid", "CompCGA", "ring", 5))
    None
    """
    return _CELLS.get((paper_table(table).name, method, graph, agents))


def paper_table(table: str) -> PaperTable:
    """The table of that name."""
    if table not in PAPER_TABLES:
        raise ConfigError(f"the paper has no table {table!r}. {nearest(table, PAPER_TABLES)}")
    return PAPER_TABLES[table]


def _read_tables() -> dict[str, PaperTable]:
    content = tomllib.loads(files("crossgrad._paper").joinpath("tables.toml").read_text(encoding="utf-8"))
    return {name: _table_of_part(name, part) for name, part in content["tables"].items()}


def _table_of_part(name: str, part: dict[str, Any]) -> PaperTable:
    found = tuple(
        PaperCell(name, method, graph, agents, None if value == DIVERGES else float(value), value == DIVERGES)
        for method, graphs in part["accuracy"].items()
        for graph, values in graphs.items()
        for agents, value in zip(PAPER_AGENTS, values, strict=True)
    )
    return PaperTable(name, part["title"], part["label"], part["data"], part["model"], part["split"], found)


PAPER_TABLES = _read_tables()
_CELLS = {(c.table, c.method, c.graph, c.agents): c for table in PAPER_TABLES.values() for c in table.cells}
