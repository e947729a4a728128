"""The paper's tables on a terminal, with what was measured beside them."""

from collections.abc import Sequence

from rich.table import Table

from crossgrad.paper.beside import Row

HEADINGS = ("graph", "agents", "paper", "averaged", "mean", "worst", "differs", "epochs", "status")


def accuracy_table(rows: Sequence[Row], title: str) -> Table:
    """Our runs beside the paper's numbers, method by method: averaged model, mean agent and worst agent."""
    table = Table(title=title, title_justify="left", box=None, padding=(0, 1, 0, 0), pad_edge=False)  # fits 80 columns
    for heading in HEADINGS:
        left = heading in ("graph", "status")
        table.add_column(heading, justify="left" if left else "right", no_wrap=heading != "status")
    name = ""
    for row in rows:
        if row.name != name:
            table.add_row(row.name, style="italic")
        name = row.name
        _, *numbers, _, status = row.cells()
        table.add_row(*numbers, status)
    return table
