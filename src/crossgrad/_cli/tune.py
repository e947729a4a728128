"""`crossgrad tune`: settings picked on validation data, then the test data over several seeds."""

import sys
from pathlib import Path
from typing import Annotated

import typer

from crossgrad._cli.app import app, examples
from crossgrad._cli.options import Changes, SweepOptions, takes

SHORT_FILE = """name = "ring"
[experiment]
partition = "class"
model = "mlp"
graph = "ring"
training = { steps = 300 }
[axes]
algorithm = ["edm", "cga", "dpmsgd"]
[tune]
trials = 8
lr = [0.01, 0.1, 1.0]
momentum = [0.0, 0.9]
seeds = [1, 2, 3]"""


@app.command(
    epilog=examples(
        "crossgrad tune examples/digits-tune.toml",
        "crossgrad tune examples/digits-tune.toml training.steps=100 tune.trials=12 -j 4",
        r"A complete file; \[experiment] and \[axes] are as for `crossgrad sweep`:",
        *SHORT_FILE.replace("[", r"\[").splitlines(),
    )
)
@takes(SweepOptions)
def tune(
    grid: Annotated[
        Path, typer.Argument(metavar="GRID.toml", help="The file that says what is compared and how it is tuned.")
    ],
    options: SweepOptions,
    changes: Changes = None,
    out: Annotated[
        Path, typer.Option("--out", metavar="DIR", help="The folder in which the grid's own folder is made.")
    ] = Path("tuned"),
) -> None:
    """Pick step size and momentum of each method on validation data, then test them with other seeds.

    Every method gets the same number of runs. Finished runs are not repeated; stopped ones resume.
    """
    from crossgrad._cli.tuned_runs import run_tuning
    from crossgrad._storage import atomic
    from crossgrad._tuning.file import read_tuning

    tuning = read_tuning(grid, changes or [])
    folder = out / tuning.name
    folder.mkdir(parents=True, exist_ok=True)
    atomic.write(folder / "grid.toml", [grid.read_bytes()])
    if not run_tuning(tuning, folder, options):
        sys.exit(1)
