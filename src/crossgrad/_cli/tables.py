"""The paper's tables on a terminal, beside our measurements, within 80 columns."""

from collections.abc import Sequence

from rich.console import Group
from rich.table import Table
from rich.text import Text

from crossgrad._cli.console import printable
from crossgrad._paper.beside import Row
from crossgrad._paper.table1 import RateRow

COLUMN_WIDTHS = {
    "agents": 6,
    "paper": 8,
    "averaged": 11,
    "mean": 5,
    "worst": 5,
    "differs": 7,
    "epochs": 6,
    "status": None,
}
TEXT_COLUMNS = ("method", "rate", "per mini-batch", "per step here")


def accuracy_table(rows: Sequence[Row], title: str) -> Group:
    """Our runs beside the paper's numbers, by method and graph: averaged model, mean agent and worst agent."""
    parts: list[Table | Text] = [_accuracy_table(title)]
    place = None
    for row in rows:
        if (row.name, row.graph) != place:
            place = (row.name, row.graph)
            parts += [Text(printable(", ".join(place)), style="italic"), _accuracy_table()]
        _, _, *numbers, _, status = row.cells()
        last = parts[-1]
        assert isinstance(last, Table)
        last.add_row(*numbers, Text(printable(status)))
    return Group(*parts)


def _accuracy_table(title: str | None = None) -> Table:
    """A part of the table, as wide as the others; the one with the title has the headings."""
    table = Table(title=title, title_justify="left", show_header=title is not None, box=None, pad_edge=False)
    for heading, width in COLUMN_WIDTHS.items():
        table.add_column(heading, width=width, justify="left" if width is None else "right", no_wrap=width is not None)
    return table


def rates_table(rows: Sequence[RateRow], title: str) -> Group:
    """Table 1: the paper's statements, and below them the bytes."""
    stated = _text_table(title, ("method", "rate", "per mini-batch"))
    measured = _text_table("kB of all agents", ("method", "per step here", "formula", "sent", "per batch", "share"))
    for row in rows:
        method, rate, formula, *numbers, sent = row.cells()
        stated.add_row(method, rate, formula)
        measured.add_row(method, sent, *numbers)
    return Group(stated, "", measured)


def _text_table(title: str, headings: Sequence[str]) -> Table:
    table = Table(title=title, title_justify="left", box=None, padding=(0, 2, 0, 0), pad_edge=False)
    for heading in headings:
        table.add_column(heading, justify="left" if heading in TEXT_COLUMNS else "right", no_wrap=True)
    return table
