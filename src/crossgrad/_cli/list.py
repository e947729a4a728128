"""`crossgrad list`: everything that can be named in an experiment file."""

from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.markup import escape

from crossgrad._cli.app import app, examples
from crossgrad._cli.options import Plugins

if TYPE_CHECKING:
    from crossgrad._registry.registry import Registry


@app.command("list", epilog=examples("crossgrad list", "crossgrad list algorithms", "crossgrad list edm"))
def list_(
    what: Annotated[
        str | None,
        typer.Argument(help="A list, such as algorithms, graphs, data, models or tasks; or the name of one entry."),
    ] = None,
    plugin: Plugins = None,
) -> None:
    """List algorithms, graphs, data sets and everything else that has a name, or describe one of them.

    The description of an algorithm has its rule, reference, needs, cost per step and options.
    """
    from rich.console import Console
    from rich.table import Table

    from crossgrad._cli.describe import describe
    from crossgrad.algorithms import FAMILIES
    from crossgrad.experiments.config import ConfigError, nearest
    from crossgrad.plugins import KINDS

    groups = {kind if kind == "data" else f"{kind}s": entries for kind, entries in KINDS.items()}
    named = {name: entries for entries in groups.values() for name in entries.names()}
    if what is not None and what in named and what not in groups:
        print(describe(what, named[what][what]))
        return
    if what is not None and what not in groups:
        hint = nearest(what, groups)
        other = "" if hint.startswith("Did") else nearest(what, named).partition("Valid")[0]
        raise ConfigError(f"there is no list and nothing else called {what!r}. {other}{hint}")
    console = Console()
    for group, entries in groups.items():
        if what == group and not entries.names():
            print(f"{group}\nnone so far: they come from plug-ins only")
        elif what in (None, group) and entries.names():
            table = Table(title=group, title_justify="left", box=None, show_header=False, pad_edge=False)
            table.add_column(style="bold", no_wrap=True)
            table.add_column()
            families = by_family(built_in(entries), FAMILIES if group == "algorithms" else {})
            for family, names in (families | {"from plug-ins": tuple(added(entries))}).items():
                if family and names:
                    table.add_row(f"[italic]{family}[/]")
                for name in names:
                    table.add_row(name, _first_line(entries, name))
            console.print(table)
            console.print()


def by_family(names: list[str], families: dict[str, tuple[str, ...]]) -> dict[str, tuple[str, ...]]:
    """All names by family; those in none come last, so that none is left out.

    >>> by_family(["a", "b", "c"], {"gossip": ("c", "a")})
    {'gossip': ('c', 'a'), 'others': ('b',)}
    """
    rest = tuple(name for name in names if not any(name in family for family in families.values()))
    return dict(families) | ({"others" if families else "": rest} if rest else {})


def built_in(entries: "Registry[Any]") -> list[str]:
    """The names that crossgrad itself has."""
    return [name for name in entries if name not in entries.origins]


def added(entries: "Registry[Any]") -> list[str]:
    """The names that plug-ins have added, or offer."""
    return sorted(entries.names() - set(built_in(entries)))


def _first_line(entries: "Registry[Any]", name: str) -> str:
    """A line that says what an entry is, and where it comes from if it is not built in."""
    import inspect

    try:
        entry = entries[name]
    except ValueError as error:  # of a package that cannot be imported
        return str(error)
    text = getattr(entry, "description", None) or getattr(entry, "label", None) or inspect.getdoc(entry) or ""
    lines = [str(text).strip().partition("\n")[0], f"({entries.origins[name]})" if name in entries.origins else ""]
    return escape(" ".join(line for line in lines if line))
