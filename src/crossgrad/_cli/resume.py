"""`crossgrad resume`: go on with a run that was stopped, in any number of processes."""

from pathlib import Path
from typing import Annotated

import typer

from crossgrad._cli.app import app, examples
from crossgrad._cli.options import RunOptions, takes


@app.command(
    epilog=examples(
        "crossgrad resume runs/2026-01-31_12-00-00-digits-ring",
        "crossgrad resume runs/2026-01-31_12-00-00-digits-ring --checkpoint-every 600",
        "crossgrad resume runs/2026-01-31_12-00-00-digits-ring --processes 2",
        "torchrun --nproc-per-node 3 -m crossgrad resume runs/2026-01-31_12-00-00-digits-ring",
    )
)
@takes(RunOptions)
def resume(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="The folder of the run.")], options: RunOptions
) -> None:
    """Continue a run from its newest checkpoint; the results are those of a run that never stopped."""
    from crossgrad._cli.execution import execute, processes_of
    from crossgrad._cli.freed_memory import set_up_memory
    from crossgrad._cli.processes import run_in_processes
    from crossgrad._runs.folder import RunFolder

    set_up_memory(options.keep_memory, options.verbose and options.processes is None)
    run_folder = RunFolder.existing(folder)
    experiment = run_folder.experiment()
    if options.processes is not None:
        run_in_processes(experiment, options, str(folder))
        return
    with processes_of(experiment, options) as group:
        if ended := run_folder.ended:
            raise ValueError(
                f"`crossgrad resume` goes on with a run that was stopped; {folder} has {ended}. Start a new one with "
                "`crossgrad run`."
            )
        execute(experiment, run_folder, folder, options, group, str(run_folder.path))
