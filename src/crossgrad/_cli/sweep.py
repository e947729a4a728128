"""`crossgrad sweep`: run the experiments of a grid."""

import sys
from pathlib import Path
from typing import Annotated

import typer

from crossgrad._cli.app import app, examples
from crossgrad._cli.options import Changes, SweepOptions, takes

SHORT_GRID = """name = "momentum"
[experiment]
partition = "class"
model = "mlp"
graph = "ring"
training = { steps = 300 }
[axes]
algorithm = ["cga", "dpmsgd"]
"algorithm.momentum" = [0.9, 0.98]
seed = [0, 1, 2]"""


@app.command(
    epilog=examples(
        "crossgrad sweep examples/digits-grid.toml",
        "crossgrad sweep examples/digits-grid.toml training.steps=100 --jobs 4 --out /tmp/sweeps",
        "crossgrad sweep examples/digits-grid.toml --cluster slurm --option slurm_partition=short",
        r"A complete grid; \[experiment] is as for `crossgrad run`, and every combination of the axes is a cell:",
        *SHORT_GRID.replace("[", r"\[").splitlines(),
    )
)
@takes(SweepOptions)
def sweep(
    grid: Annotated[Path, typer.Argument(metavar="GRID.toml", help="The grid's file.")],
    options: SweepOptions,
    changes: Changes = None,
    out: Annotated[
        Path, typer.Option("--out", metavar="DIR", help="The folder in which the grid's own folder is made.")
    ] = Path("sweeps"),
) -> None:
    """Run a grid of experiments. Finished cells are not run again; stopped ones resume.

    Ctrl-C saves the cells that are running; the same command resumes them. Several commands can
    work on one grid at the same time.
    """
    from crossgrad._cli.workers import run_cells
    from crossgrad._storage import atomic
    from crossgrad._sweep.grid import read_grid

    cells = read_grid(grid, changes or [])
    folder = out / cells.name
    folder.mkdir(parents=True, exist_ok=True)
    atomic.write(folder / "grid.toml", [grid.read_bytes()])
    complete = run_cells(folder, cells, options)
    print(f"Results: {folder} (query them: crossgrad query {folder} 'SELECT * FROM cells')")
    if not complete:
        sys.exit(1)
