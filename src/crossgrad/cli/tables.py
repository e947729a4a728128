"""The paper's tables on a terminal, with what was measured beside them; all fit 80 columns."""

from collections.abc import Sequence

from rich.console import Group
from rich.table import Table

from crossgrad.paper.beside import Row
from crossgrad.paper.table1 import RateRow

TEXT = ("graph", "status", "method", "rate", "per mini-batch", "per step here")  # headings of columns without numbers


def accuracy_table(rows: Sequence[Row], title: str) -> Table:
    """Our runs beside the paper's numbers, method by method: averaged model, mean agent and worst agent."""
    headings = ("graph", "agents", "paper", "averaged", "mean", "worst", "differs", "epochs", "status")
    table = _table(title, headings, gap=1)
    name = ""
    for row in rows:
        if row.name != name:
            table.add_row(row.name, style="italic")
        name = row.name
        _, *numbers, _, status = row.cells()
        table.add_row(*numbers, status)
    return table


def rates_table(rows: Sequence[RateRow], title: str) -> Group:
    """Table 1: what the paper states, and below it the bytes."""
    stated = _table(title, ("method", "rate", "per mini-batch"), gap=2)
    measured = _table("kB of all agents", ("method", "per step here", "formula", "sent", "per batch", "share"), gap=2)
    for row in rows:
        method, rate, formula, *numbers, sent = row.cells()
        stated.add_row(method, rate, formula)
        measured.add_row(method, sent, *numbers)
    return Group(stated, "", measured)


def _table(title: str, headings: Sequence[str], gap: int) -> Table:
    table = Table(title=title, title_justify="left", box=None, padding=(0, gap, 0, 0), pad_edge=False)
    for heading in headings:
        table.add_column(heading, justify="left" if heading in TEXT else "right", no_wrap=heading != "status")
    return table
