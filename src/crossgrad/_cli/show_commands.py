"""Commands that show what there is: their options and their help."""

from pathlib import Path
from typing import Annotated

import typer

from crossgrad._cli.app import Agents, Seed, app, data_app, examples


@app.command(
    "list",
    epilog=examples(
        "crossgrad list",
        "crossgrad list algorithms",
    ),
)
def list_(
    what: Annotated[
        str | None, typer.Argument(help="algorithms, graphs, data, models, partitions or schedules.")
    ] = None,
) -> None:
    """What there is to choose from, each with one line."""
    from crossgrad._cli.show import show_list

    show_list(what)


@app.command(
    epilog=examples(
        "crossgrad graph ring --agents 10",
        "crossgrad graph erdos-renyi --agents 40 probability=0.2 --seed 3",
        "crossgrad graph edge-list path=hospitals.txt --agents 7",
        "crossgrad graph base-graph neighbours=2 --picture base.png",
    )
)
def graph(
    name: Annotated[str, typer.Argument(help="A graph of `crossgrad list graphs`.")],
    options: Annotated[list[str] | None, typer.Argument(metavar="KEY=VALUE", help="Its options.")] = None,
    agents: Agents = 10,
    seed: Seed = 0,
    picture: Annotated[Path | None, typer.Option(metavar="FILE", help="Draw it: .png, .svg or .pdf.")] = None,
) -> None:
    """A graph's weights, spectrum, messages per step and when the mean is exact, and what to beware of."""
    from crossgrad._cli.show import show_graph

    show_graph(name, options or [], agents, seed, picture)


@app.command(
    epilog=examples(
        "crossgrad partition class --agents 10",
        "crossgrad partition dirichlet alpha=0.1 --data mnist --picture split.png",
    )
)
def partition(
    name: Annotated[str, typer.Argument(help="A partition of `crossgrad list partitions`.")],
    options: Annotated[list[str] | None, typer.Argument(metavar="KEY=VALUE", help="Its options.")] = None,
    agents: Agents = 10,
    seed: Seed = 0,
    data: Annotated[str, typer.Option(help="The data set.")] = "digits",
    root: Annotated[Path | None, typer.Option(metavar="DIR", help="The data set's folder.")] = None,
    picture: Annotated[Path | None, typer.Option(metavar="FILE", help="Draw it: .png, .svg or .pdf.")] = None,
) -> None:
    """Who holds how much of which class."""
    from crossgrad._cli.show import show_partition

    show_partition(name, options or [], agents, seed, data, root, picture)


@app.command(
    epilog=examples(
        "crossgrad theory examples/digits-ring.toml",
        "crossgrad theory examples/digits-ring.toml algorithm.momentum=0.5",
        "crossgrad theory examples/digits-ring.toml algorithm=dpsgd --json",
    )
)
def theory(
    experiment: Annotated[Path, typer.Argument(metavar="EXPERIMENT.toml", help="The experiment's file.")],
    changes: Annotated[list[str] | None, typer.Argument(metavar="KEY=VALUE", help="Settings to change.")] = None,
    steps: Annotated[int, typer.Option(min=1, help="Steps of the run on which constants are estimated.")] = 40,
    seconds: Annotated[float, typer.Option(min=0, help="Time for it; one step is always made.")] = 60.0,
    json: Annotated[bool, typer.Option("--json", help="Print everything as JSON.")] = False,
) -> None:
    """What the paper's theory says of an experiment, printed and corrected, and which condition it violates.

    L, sigma, delta and epsilon are estimated on a short run, of which nothing is kept.
    """
    from crossgrad._cli.theory import show_theory

    show_theory(experiment, changes or [], steps, seconds, json)


@data_app.command(
    epilog=examples(
        "crossgrad data fetch mnist",
        "crossgrad data fetch cifar10 --into /data/cifar10",
    )
)
def fetch(
    name: Annotated[str, typer.Argument(help="mnist, fashion-mnist or cifar10.")],
    into: Annotated[Path | None, typer.Option(metavar="DIR", help="Where to; else the user's cache.")] = None,
) -> None:
    """Download a data set, checked by its published checksum; what was broken off goes on."""
    from crossgrad._cli.data import fetch_data

    fetch_data(name, into)


@data_app.command(
    epilog=examples(
        "crossgrad data where",
        "crossgrad data where mnist",
    )
)
def where(
    name: Annotated[str | None, typer.Argument(help="A data set; all where it is left out.")] = None,
    root: Annotated[Path | None, typer.Option(metavar="DIR", help="A folder to look in first.")] = None,
) -> None:
    """Where data sets are looked for, and which of them are there."""
    from crossgrad._cli.data import show_where

    show_where(name, root)
