"""The command itself, and the options that several commands have."""

from pathlib import Path
from typing import Annotated

import typer


def examples(*lines: str) -> str:
    """Help that ends with examples, each on a line of its own."""
    return "\n\n".join(["Examples:", *lines])


app = typer.Typer(
    name="crossgrad",
    help="Decentralised deep learning: agents with data of their own learn one model, talking only to neighbours.",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode="rich",
    pretty_exceptions_enable=False,
    epilog=examples("crossgrad demo", "crossgrad run examples/digits-ring.toml", "crossgrad list"),
)
data_app = typer.Typer(
    no_args_is_help=True,
    help="Get data sets, or see where they are looked for.",
    epilog=examples("crossgrad data where", "crossgrad data fetch mnist"),
)
app.add_typer(data_app, name="data")

Out = Annotated[Path, typer.Option("--out", metavar="DIR", help="Every run makes a new folder of its own in here.")]
Agents = Annotated[int, typer.Option("--agents", "-n", help="Number of agents.")]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="Print only the run's folder.")]
Json = Annotated[bool, typer.Option("--json", help="Print records as JSON lines.")]
Every = Annotated[
    float,
    typer.Option("--checkpoint-every", min=0, metavar="SECONDS", help="Time between checkpoints; 0: after every step."),
]
KeepState = Annotated[
    bool, typer.Option("--keep-state", help="Leave the last checkpoint, with all agents' own models, at the end.")
]
LostAfter = Annotated[
    float,
    typer.Option("--lost-after", min=1, metavar="SECONDS", help="Silence after which another process counts as lost."),
]
Verbose = Annotated[bool, typer.Option("--verbose", "-v", help="Say on stderr how memory and gradients are handled.")]
Tuning = Annotated[bool, typer.Option(help="Let this process keep its memory; also CROSSGRAD_TUNING=off.")]
Jobs = Annotated[int | None, typer.Option("--jobs", "-j", min=1, help="Processes at most; else one for each core.")]
Cluster = Annotated[
    str | None, typer.Option(metavar="ENGINE", help="Hand cells to slurm, or to local processes like it, by submitit.")
]
ClusterOption = Annotated[
    list[str] | None, typer.Option("--option", metavar="KEY=VALUE", help="For the cluster, such as timeout_min=60.")
]
Seed = Annotated[int, typer.Option("--seed", min=0, help="Decides everything that is random.")]


def _version(wanted: bool) -> None:
    if wanted:
        from crossgrad import __version__

        typer.echo(f"crossgrad {__version__}")
        raise typer.Exit


@app.callback()
def _main(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    pass
