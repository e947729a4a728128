"""`crossgrad list`: everything that can be named in an experiment file."""

from typing import Annotated, Any

import typer

from crossgrad._cli.app import app, examples


@app.command("list", epilog=examples("crossgrad list", "crossgrad list algorithms"))
def list_(
    what: Annotated[
        str | None, typer.Argument(help="algorithms, graphs, data, models, partitions or schedules.")
    ] = None,
) -> None:
    """List algorithms, graphs, data sets, models, partitions and schedules, each with one line."""
    from rich.console import Console
    from rich.table import Table

    from crossgrad.data import DATASETS
    from crossgrad.experiments.config import ConfigError, nearest
    from crossgrad.experiments.experiment import CHOICES

    groups: dict[str, Any] = {
        "algorithms": CHOICES["algorithm"],
        "graphs": CHOICES["graph"],
        "data": DATASETS,
        "models": CHOICES["model"],
        "partitions": CHOICES["partition"],
        "schedules": CHOICES["schedule"],
    }
    if what is not None and what not in groups:
        raise ConfigError(f"there is no list of {what!r}. {nearest(what, groups)}")
    console = Console()
    for group, entries in groups.items():
        if what in (None, group):
            table = Table(title=group, title_justify="left", box=None, show_header=False, pad_edge=False)
            table.add_column(style="bold", no_wrap=True)
            table.add_column()
            for name, entry in entries.items():
                table.add_row(name, _first_line(entry))
            console.print(table)
            console.print()


def _first_line(entry: Any) -> str:
    import inspect

    text = getattr(entry, "description", None) or inspect.getdoc(entry) or ""
    return str(text).splitlines()[0]
