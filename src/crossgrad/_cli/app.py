"""The command-line app, to which other modules add their commands."""

from typing import Annotated

import typer


def examples(*lines: str) -> str:
    """The end of a help text: examples, each on a line of its own."""
    return "\n\n".join(["Examples:", *lines])


app = typer.Typer(
    name="crossgrad",
    help="Decentralised deep learning: agents keep their own data, exchange messages with neighbours in a graph only, "
    "and train one model together.",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode="rich",
    pretty_exceptions_enable=False,
    epilog=examples("crossgrad demo", "crossgrad run examples/digits-ring.toml", "crossgrad list"),
)


def _print_version(wanted: bool) -> None:
    if wanted:
        from crossgrad import __version__

        typer.echo(f"crossgrad {__version__}")
        raise typer.Exit


@app.callback()
def _main(
    version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    pass
