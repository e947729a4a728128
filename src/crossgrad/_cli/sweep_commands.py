"""Commands that run many experiments, and that show what came out: their options and their help."""

from pathlib import Path
from typing import Annotated

import typer

from crossgrad._cli.app import Cluster, ClusterOption, Every, Jobs, Tuning, app, examples

SHORT_GRID = """name = "momentum"
[experiment]
partition = "class"
model = "mlp"
graph = "ring"
training = { steps = 300 }
[axes]
algorithm = ["cga", "dpmsgd"]
algorithm.momentum = [0.9, 0.98]
seed = [0, 1, 2]""".replace("algorithm.momentum", '"algorithm.momentum"')


@app.command(
    epilog=examples(
        "crossgrad sweep examples/digits-grid.toml",
        "crossgrad sweep examples/digits-grid.toml training.steps=100 --jobs 4 --out /tmp/sweeps",
        "crossgrad sweep examples/digits-grid.toml --cluster slurm --option slurm_partition=short",
        r"A whole grid; \[experiment] is as for `crossgrad run`, and every combination of the axes is a cell:",
        *SHORT_GRID.replace("[", r"\[").splitlines(),
    )
)
def sweep(
    grid: Annotated[Path, typer.Argument(metavar="GRID.toml", help="The grid's file.")],
    changes: Annotated[list[str] | None, typer.Argument(metavar="KEY=VALUE", help="Settings of all cells.")] = None,
    out: Annotated[Path, typer.Option("--out", metavar="DIR", help="The grid has a folder of its name in here.")] = (
        Path("sweeps")
    ),
    jobs: Jobs = None,
    checkpoint_every: Every = 60.0,
    cluster: Cluster = None,
    option: ClusterOption = None,
    tuning: Tuning = True,
) -> None:
    """Run a grid of experiments. Cells that have ended are not run again; those that were stopped go on.

    Ctrl-C saves what is at work; the same command goes on. Several may work on the same grid at once.
    """
    from crossgrad._cli.sweep import SweepOptions, run_sweep

    run_sweep(grid, changes or [], out, SweepOptions(jobs, checkpoint_every, cluster, tuple(option or ()), tuning))


@app.command(
    epilog=examples(
        "crossgrad query sweeps/digits 'SELECT * FROM cells'",
        "crossgrad query sweeps/digits 'SELECT method, avg(accuracy) FROM cells GROUP BY method'",
    )
)
def query(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="The folder of a sweep.")],
    sql: Annotated[str, typer.Argument(metavar="SQL", help="A query of its tables, cells and records.")],
) -> None:
    """Ask for results of a sweep, in SQL."""
    from crossgrad._cli.sweep import show_query

    show_query(folder, sql)


@app.command(
    epilog=examples(
        "crossgrad pack sweeps/digits results/digits",
        "crossgrad pack reproductions/cifar10-cnn-digits /tmp/packed",
    )
)
def pack(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="The folder of a sweep.")],
    out: Annotated[Path, typer.Argument(metavar="NEW", help="A new folder.")],
) -> None:
    """Keep a sweep's settings and records, without its models, in one small file."""
    from crossgrad._cli.sweep import pack_sweep

    pack_sweep(folder, out)


@app.command(
    "reproduce",
    epilog=examples(
        "crossgrad reproduce --list",
        "crossgrad reproduce cifar10-cnn --scale digits",
        "crossgrad reproduce cifar10-cnn-noniid --agents 5 --graph ring --algorithm cga --epochs 20",
        "crossgrad reproduce table1 --graph ring --agents 10",
        "crossgrad reproduce mnist-cnn-noniid --agents 5 --algorithm cga --algorithm cga:released --seeds 3",
    ),
)
def reproduce_(
    table: Annotated[
        str | None, typer.Argument(metavar="TABLE", help="A table of --list, or cifar10-cnn and so on for both splits.")
    ] = None,
    list_tables: Annotated[bool, typer.Option("--list", help="Show the paper's tables.")] = False,
    agents: Annotated[list[int] | None, typer.Option("--agents", "-n", help="5, 10 or 40; else all.")] = None,
    graph: Annotated[list[str] | None, typer.Option(help="fully-connected, ring or bipartite; else all.")] = None,
    algorithm: Annotated[
        list[str] | None, typer.Option(help="Such as cga or cga:released; else those of the table.")
    ] = None,
    epochs: Annotated[float | None, typer.Option(min=0.0, help="Of the local data; else 150.")] = None,
    scale: Annotated[
        str, typer.Option(help="paper; half: images of half the side; digits: the pattern in minutes.")
    ] = "paper",
    seeds: Annotated[int, typer.Option(min=1, help="Runs of each cell.")] = 1,
    evaluations: Annotated[int, typer.Option(min=1, help="Of each run.")] = 20,
    out: Annotated[
        Path, typer.Option("--out", metavar="DIR", help="Each table has a folder of its name in here.")
    ] = Path("reproductions"),
    jobs: Jobs = None,
    checkpoint_every: Every = 60.0,
    cluster: Cluster = None,
    option: ClusterOption = None,
    tuning: Tuning = True,
) -> None:
    """Run cells of the paper's tables and set the results beside the paper's numbers.

    Cells that have ended are not run again; those that were stopped go on.
    """
    from crossgrad._cli.reproduce import list_all, reproduce, reproduce_table1
    from crossgrad._cli.sweep import SweepOptions
    from crossgrad._paper.reproduction import Choice
    from crossgrad._paper.tables import AGENTS, GRAPHS

    if list_tables or table is None:
        list_all()
        return
    if table == "table1":
        reproduce_table1(tuple(agents or (10,)), tuple(graph or ("ring",)), out)
        return
    choice = Choice(
        table,
        tuple(agents or AGENTS),
        tuple(graph or GRAPHS),
        tuple(algorithm or ()),
        scale,
        epochs,
        seeds,
        evaluations,
    )
    reproduce(choice, out, SweepOptions(jobs, checkpoint_every, cluster, tuple(option or ()), tuning))


@app.command(
    epilog=examples(
        "crossgrad report runs/2026-01-31_12-00-00-digits-ring",
        "crossgrad report sweeps/digits --out digits.html",
        "crossgrad report sweeps/digits --serve",
    )
)
def report(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="The folder of a run, a sweep or a reproduction.")],
    out: Annotated[Path | None, typer.Option(metavar="FILE.html", help="The page; else DIR/report.html.")] = None,
    serve: Annotated[bool, typer.Option("--serve", help="Show it live on this machine instead of writing it.")] = False,
    port: Annotated[int, typer.Option(min=0, max=65535, help="Of --serve; 0 is any that is free.")] = 8321,
) -> None:
    """Write one HTML file with tables, curves, graph and settings that opens in any browser, offline."""
    from crossgrad._cli.report import serve_report, write_report

    if serve and out is not None:
        raise ValueError("--serve writes no file, so it goes without --out. Leave one of them out.")
    if serve:
        serve_report(folder, port)
    else:
        write_report(folder, out)
