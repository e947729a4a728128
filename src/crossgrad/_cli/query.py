"""`crossgrad query`: the results of a sweep, by SQL."""

from typing import Annotated, Any

import typer

from crossgrad._cli.app import app, examples
from crossgrad._cli.options import SweepFolder


@app.command(
    epilog=examples(
        "crossgrad query sweeps/digits 'SELECT * FROM cells'",
        "crossgrad query sweeps/digits 'SELECT method, avg(accuracy) FROM cells GROUP BY method'",
    )
)
def query(
    folder: SweepFolder,
    sql: Annotated[str, typer.Argument(metavar="SQL", help="A query of the tables cells and records.")],
) -> None:
    """Query the results of a sweep by SQL."""
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    from crossgrad._cli.console import say
    from crossgrad._sweep.store import Store

    store = Store(folder)
    columns, rows = store.query(sql)
    console = Console()
    if left_out := sorted(store.missing()):
        more = f" and {len(left_out) - 1} more" if len(left_out) > 1 else ""
        are = "are" if more else "is"
        say(Console(stderr=True), f"Warning: {left_out[0]}{more} {are} left out; the same sweep adds them or says why.")
    if not console.is_terminal:
        for row in [tuple(columns), *rows]:
            print("\t".join(_text_of_cell(value) for value in row))
        return
    table = Table(box=None, pad_edge=False)
    for column in columns:
        table.add_column(Text(_text_of_cell(column)))
    for row in rows:
        table.add_row(*(Text(_text_of_cell(value)) for value in row))
    console.print(table)
    say(console, f"{len(rows)} rows")


def _text_of_cell(value: Any) -> str:
    from crossgrad._cli.console import printable

    return "" if value is None else printable(str(value)).replace("\n", "\\n")
