"""`crossgrad list`: everything that can be named in an experiment file."""

from typing import Annotated, Any

import typer

from crossgrad._cli.app import app, examples


@app.command("list", epilog=examples("crossgrad list", "crossgrad list algorithms", "crossgrad list edm"))
def list_(
    what: Annotated[
        str | None,
        typer.Argument(help="algorithms, graphs, data, models, partitions, schedules or codecs; or one name of these."),
    ] = None,
) -> None:
    """List algorithms, graphs, data sets and whatever else has a name, each with one line; or describe one of them.

    Of an algorithm: its rule, reference, needs, cost per step and options.
    """
    from rich.console import Console
    from rich.table import Table

    from crossgrad._cli.describe import describe
    from crossgrad.algorithms import FAMILIES
    from crossgrad.codecs import CODECS
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
        "codecs": CODECS,
    }
    named = {name: entry for entries in groups.values() for name, entry in entries.items()}
    if what is not None and what in named and what not in groups:
        print(describe(what, named[what]))
        return
    if what is not None and what not in groups:
        hint = nearest(what, groups)
        other = "" if hint.startswith("Did") else nearest(what, named).partition("Valid")[0]
        raise ConfigError(f"there is no list and nothing else called {what!r}. {other}{hint}")
    console = Console()
    for group, entries in groups.items():
        if what in (None, group):
            table = Table(title=group, title_justify="left", box=None, show_header=False, pad_edge=False)
            table.add_column(style="bold", no_wrap=True)
            table.add_column()
            families = FAMILIES if group == "algorithms" else {"": entries}
            for family, names in families.items():
                if family:
                    table.add_row(f"[italic]{family}[/]")
                for name in names:
                    table.add_row(name, _first_line(entries[name]))
            console.print(table)
            console.print()


def _first_line(entry: Any) -> str:
    import inspect

    text = getattr(entry, "description", None) or inspect.getdoc(entry) or ""
    return str(text).splitlines()[0]
