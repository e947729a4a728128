"""Commands that run one experiment: their options and their help."""

import os
from pathlib import Path
from typing import Annotated

import typer

from crossgrad._cli.app import Agents, Every, Json, KeepState, LostAfter, Out, Quiet, Tuning, Verbose, app, examples

SHORTEST = """partition = "class"
model = "mlp"
graph = "ring"
algorithm = "cga"
training = { steps = 300 }"""


@app.command(
    epilog=examples(
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
        from crossgrad._cli import dry_run as only

        only.dry_run(experiment, changes or [])
        return
    from crossgrad._cli.progress import RunOptions
    from crossgrad._cli.run import run_experiment

    _tune(tuning, verbose)
    run_experiment(
        experiment, changes or [], out, RunOptions(quiet, json, checkpoint_every, keep_state, lost_after, verbose)
    )


@app.command(
    epilog=examples(
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
    from crossgrad._cli.progress import RunOptions
    from crossgrad._cli.run import resume_run

    _tune(tuning, verbose)
    resume_run(folder, RunOptions(quiet, json, checkpoint_every, keep_state, lost_after, verbose))


@app.command(
    epilog=examples(
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
    from crossgrad._cli.demo import run_demo

    run_demo(out, steps, seeds, graph, agents, jobs)


def _tune(wanted: bool, verbose: bool) -> None:
    from crossgrad._cli.tuning import tune

    done = tune() if wanted else "memory: the system's own settings, as --no-tuning was given."
    if verbose and os.environ.get("RANK", "0") == "0":
        typer.echo(done, err=True)
