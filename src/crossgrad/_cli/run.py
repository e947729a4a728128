"""`crossgrad run`: run an experiment, in one process or in all that torchrun started."""

from pathlib import Path
from typing import Annotated

import typer

from crossgrad._cli.app import app, examples
from crossgrad._cli.options import Changes, ExperimentFile, Out, RunOptions, takes

SHORTEST_EXPERIMENT = """partition = "class"
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
        "crossgrad run examples/digits-ring.toml data=mnist model=cnn --processes auto",
        "A complete experiment; whatever it does not set has a default:",
        *SHORTEST_EXPERIMENT.splitlines(),
    )
)
@takes(RunOptions)
def run(
    experiment: ExperimentFile,
    options: RunOptions,
    changes: Changes = None,
    out: Out = Path("runs"),
    dry_run: Annotated[
        bool,
        typer.Option(
            "--dry-run", help="Print how many gradients, bytes and how much memory the run needs; do not start it."
        ),
    ] = False,
) -> None:
    """Run an experiment and write its records, model and settings into a new folder.

    Ctrl-C stops after the current step, saves, and says how to resume; a second one stops at once.
    """
    if dry_run:
        from crossgrad._cli.dry_run import print_dry_run

        print_dry_run(experiment, changes or [])
        return
    from crossgrad._cli.execution import execute, processes_of
    from crossgrad._cli.freed_memory import set_up_memory
    from crossgrad._cli.processes import run_in_processes
    from crossgrad._runs.folder import RunFolder
    from crossgrad.experiments.files import read

    set_up_memory(options.keep_memory, options.verbose and options.processes is None)
    chosen = read(experiment, changes or [])
    if options.processes is not None:
        run_in_processes(chosen, options, str(experiment))
        return
    with processes_of(chosen, options) as group:
        earlier = group.kept_text()  # torchrun restarted all processes because one was lost: resume their run
        folder = RunFolder(Path(earlier)) if earlier else None
        if folder is None or not folder.ended:
            execute(chosen, folder, out, options, group, str(experiment))
