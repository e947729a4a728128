"""Commands, their options and their help. What they do is imported only when they run."""

import os
import sys
from pathlib import Path
from typing import Annotated

import typer

SHORTEST = """partition = "class"
model = "mlp"
graph = "ring"
algorithm = "cga"
training = { steps = 300 }"""


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


def _examples(*lines: str) -> str:
    """Help that ends with examples, each on a line of its own."""
    return "\n\n".join(["Examples:", *lines])


app = typer.Typer(
    name="crossgrad",
    help="Decentralised deep learning: agents with data of their own learn one model, talking only to neighbours.",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode="rich",
    pretty_exceptions_enable=False,
    epilog=_examples("crossgrad demo", "crossgrad run examples/digits-ring.toml", "crossgrad list"),
)
data_app = typer.Typer(
    no_args_is_help=True,
    help="Get data sets, or see where they are looked for.",
    epilog=_examples("crossgrad data where", "crossgrad data fetch mnist"),
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
Jobs = Annotated[int | None, typer.Option("--jobs", "-j", min=1, help="Processes at a time; else one for each core.")]
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


@app.command(
    epilog=_examples(
        "crossgrad run examples/digits-ring.toml",
        "crossgrad run examples/digits-ring.toml algorithm.momentum=0.9 seed=1",
        "crossgrad run examples/digits-ring.toml algorithm=dpmsgd --out /tmp/runs",
        "crossgrad run examples/digits-ring.toml model=vgg11 agents=100 --dry-run",
        "A whole experiment; what it leaves out has a default:",
        *SHORTEST.splitlines(),
    )
)
def run(
    experiment: Annotated[Path, typer.Argument(metavar="EXPERIMENT.toml", help="The experiment's file.")],
    changes: Annotated[list[str] | None, typer.Argument(metavar="KEY=VALUE", help="Settings to change.")] = None,
    out: Out = Path("runs"),
    quiet: Quiet = False,
    json: Json = False,
    checkpoint_every: Every = 60.0,
    keep_state: KeepState = False,
    lost_after: LostAfter = 30.0,
    verbose: Verbose = False,
    tuning: Tuning = True,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only print what it would take.")] = False,
) -> None:
    """Run an experiment and keep its records, model and settings in a new folder.

    Ctrl-C ends the step, saves, and says how to go on; a second one does not wait.
    """
    if dry_run:
        from crossgrad.cli import dry_run as only

        only.dry_run(experiment, changes or [])
        return
    from crossgrad.cli.progress import Wishes
    from crossgrad.cli.run import run_experiment

    _tune(tuning, verbose)
    run_experiment(
        experiment, changes or [], out, Wishes(quiet, json, checkpoint_every, keep_state, lost_after, verbose)
    )


@app.command(
    epilog=_examples(
        "crossgrad resume runs/2026-01-31_12-00-00-digits-ring",
        "crossgrad resume runs/2026-01-31_12-00-00-digits-ring --checkpoint-every 600",
        "torchrun --nproc-per-node 3 -m crossgrad resume runs/2026-01-31_12-00-00-digits-ring",
    )
)
def resume(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="The folder of the run.")],
    quiet: Quiet = False,
    json: Json = False,
    checkpoint_every: Every = 60.0,
    keep_state: KeepState = False,
    lost_after: LostAfter = 30.0,
    verbose: Verbose = False,
    tuning: Tuning = True,
) -> None:
    """Go on with a run that was stopped, from its newest checkpoint, as if it had never stopped."""
    from crossgrad.cli.progress import Wishes
    from crossgrad.cli.run import resume_run

    _tune(tuning, verbose)
    resume_run(folder, Wishes(quiet, json, checkpoint_every, keep_state, lost_after, verbose))


@app.command(
    epilog=_examples(
        "crossgrad sweep examples/digits-grid.toml",
        "crossgrad sweep examples/digits-grid.toml training.steps=100 --jobs 4 --out /tmp/sweeps",
        "crossgrad sweep examples/digits-grid.toml --cluster slurm --option slurm_partition=short",
        "A whole grid; [experiment] is as for `crossgrad run`, and every combination of the axes is a cell:",
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
    from crossgrad.cli.sweep import Means, run_sweep

    run_sweep(grid, changes or [], out, Means(jobs, checkpoint_every, cluster, tuple(option or ()), tuning))


@app.command(
    epilog=_examples(
        "crossgrad query sweeps/digits 'SELECT * FROM cells'",
        "crossgrad query sweeps/digits 'SELECT method, avg(accuracy) FROM cells GROUP BY method'",
    )
)
def query(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="The folder of a sweep.")],
    sql: Annotated[str, typer.Argument(metavar="SQL", help="A query of its tables, cells and records.")],
) -> None:
    """Ask for results of a sweep, in SQL."""
    from crossgrad.cli.sweep import show_query

    show_query(folder, sql)


@app.command(
    epilog=_examples(
        "crossgrad pack sweeps/digits results/digits",
        "crossgrad pack reproductions/cifar10-cnn-digits /tmp/packed",
    )
)
def pack(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="The folder of a sweep.")],
    out: Annotated[Path, typer.Argument(metavar="NEW", help="A new folder.")],
) -> None:
    """Keep a sweep's settings and records, without its models, in one small file."""
    from crossgrad.cli.sweep import pack_sweep

    pack_sweep(folder, out)


@app.command(
    "reproduce",
    epilog=_examples(
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
    scale: Annotated[str, typer.Option(help="paper, or digits for the table's pattern in minutes.")] = "paper",
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
    from crossgrad.cli.reproduce import list_all, reproduce, reproduce_table1
    from crossgrad.cli.sweep import Means
    from crossgrad.paper.tables import AGENTS, GRAPHS
    from crossgrad.reproduction import Choice

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
    reproduce(choice, out, Means(jobs, checkpoint_every, cluster, tuple(option or ()), tuning))


@app.command(
    epilog=_examples(
        "crossgrad demo",
        "crossgrad demo --steps 100 --seeds 1 --out /tmp/demo",
    )
)
def demo(
    out: Out = Path("runs"),
    steps: Annotated[int, typer.Option(min=1, help="Steps of every run.")] = 300,
    seeds: Annotated[int, typer.Option(min=1, help="Runs of every method, each with a seed of its own.")] = 3,
    graph: Annotated[str, typer.Option(help="The graph, such as ring, fully-connected or bipartite.")] = "ring",
    agents: Agents = 10,
    jobs: Annotated[int, typer.Option(min=1, help="Processes; each uses one core.")] = 2,
) -> None:
    """Compare the algorithms on digits, with data alike and with one class per agent: table, picture, meaning."""
    from crossgrad.cli.demo import run_demo

    run_demo(out, steps, seeds, graph, agents, jobs)


@app.command(
    epilog=_examples(
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
    from crossgrad.cli.report import serve_report, write_report

    if serve and out is not None:
        raise ValueError("--serve writes no file, so it goes without --out. Leave one of them out.")
    if serve:
        serve_report(folder, port)
    else:
        write_report(folder, out)


@app.command(
    "list",
    epilog=_examples(
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
    from crossgrad.cli.show import show_list

    show_list(what)


@app.command(
    epilog=_examples(
        "crossgrad graph ring --agents 10",
        "crossgrad graph erdos-renyi --agents 40 probability=0.2 --seed 3",
        "crossgrad graph edge-list path=hospitals.txt --agents 7",
    )
)
def graph(
    name: Annotated[str, typer.Argument(help="A graph of `crossgrad list graphs`.")],
    options: Annotated[list[str] | None, typer.Argument(metavar="KEY=VALUE", help="Its options.")] = None,
    agents: Agents = 10,
    seed: Seed = 0,
) -> None:
    """A graph's weights, spectrum and messages per step, and what to beware of."""
    from crossgrad.cli.show import show_graph

    show_graph(name, options or [], agents, seed)


@app.command(
    epilog=_examples(
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
    from crossgrad.cli.show import show_partition

    show_partition(name, options or [], agents, seed, data, root, picture)


@app.command(
    epilog=_examples(
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
    from crossgrad.cli.theory import show_theory

    show_theory(experiment, changes or [], steps, seconds, json)


@data_app.command(
    epilog=_examples(
        "crossgrad data fetch mnist",
        "crossgrad data fetch cifar10 --into /data/cifar10",
    )
)
def fetch(
    name: Annotated[str, typer.Argument(help="mnist, fashion-mnist or cifar10.")],
    into: Annotated[Path | None, typer.Option(metavar="DIR", help="Where to; else the user's cache.")] = None,
) -> None:
    """Download a data set, checked by its published checksum; what was broken off goes on."""
    from crossgrad.cli.data import fetch_data

    fetch_data(name, into)


@data_app.command(
    epilog=_examples(
        "crossgrad data where",
        "crossgrad data where mnist",
    )
)
def where(
    name: Annotated[str | None, typer.Argument(help="A data set; all where it is left out.")] = None,
    root: Annotated[Path | None, typer.Option(metavar="DIR", help="A folder to look in first.")] = None,
) -> None:
    """Where data sets are looked for, and which of them are there."""
    from crossgrad.cli.data import show_where

    show_where(name, root)


def _tune(wanted: bool, verbose: bool) -> None:
    from crossgrad.cli.tuning import tune

    done = tune() if wanted else "memory: the system's own settings, as --no-tuning was given."
    if verbose and os.environ.get("RANK", "0") == "0":
        typer.echo(done, err=True)


def main() -> None:
    """Run the command; a user's mistake ends in one sentence and status 2."""
    try:
        app()
    except (ValueError, OSError, MemoryError, RuntimeError) as error:
        if isinstance(error, RuntimeError) and "memory" not in str(error):  # PyTorch's own kind of MemoryError
            raise
        if os.environ.get("LOCAL_RANK", "0") == "0":  # of several processes on a machine one says it
            typer.echo(f"crossgrad: {_sentence(error)}", err=True)
        sys.exit(2)


def _sentence(error: Exception) -> str:
    from crossgrad.config import tidy

    if isinstance(error, MemoryError | RuntimeError):
        return "there is not enough memory for this. Use a smaller model, fewer agents or a sparser graph."
    if isinstance(error, OSError) and error.strerror:
        return tidy(f"{error.filename or 'the disk'}: {error.strerror}.")
    return tidy(str(error))
