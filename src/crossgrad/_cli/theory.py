"""`crossgrad theory`: what the paper's theory says about an experiment, and which of its conditions are violated."""

import json as json_format
from typing import Annotated

import typer

from crossgrad._cli.app import app, examples
from crossgrad._cli.options import Changes, ExperimentFile, Plugins


@app.command(
    epilog=examples(
        "crossgrad theory examples/digits-ring.toml",
        "crossgrad theory examples/digits-ring.toml algorithm.momentum=0.5",
        "crossgrad theory examples/digits-ring.toml algorithm=dpsgd --json",
    )
)
def theory(
    experiment: ExperimentFile,
    changes: Changes = None,
    steps: Annotated[int, typer.Option(min=1, help="Steps of the run on which constants are estimated.")] = 40,
    seconds: Annotated[float, typer.Option(min=0, help="Time limit; at least one step is taken.")] = 60.0,
    json: Annotated[bool, typer.Option("--json", help="Print everything as JSON.")] = False,
    plugin: Plugins = None,
) -> None:
    """Evaluate the paper's theorem for an experiment, as printed and corrected, and say which conditions are violated.

    L, sigma, delta and epsilon are estimated on a short run, which leaves no files.
    """
    import torch
    from rich.console import Console

    from crossgrad._cli.theory_tables import estimate_with_progress, show_verdict
    from crossgrad.experiments.config import ConfigError
    from crossgrad.experiments.files import read, to_table
    from crossgrad.theory import check_theory, verdict

    chosen = read(experiment, changes or [])
    if chosen.training.threads is not None:
        torch.set_num_threads(chosen.training.threads)
    try:
        training = chosen.start()
        check_theory(training)
        found = estimate_with_progress(training, steps, seconds)
    except ValueError as error:
        raise ConfigError(f"{experiment}: {error}") from None
    result, algorithm = verdict(training, found), to_table(chosen)["algorithm"]["name"]
    if json:
        print(json_format.dumps({"experiment": chosen.name, "name": algorithm, **result.as_json()}, indent=2))
        return
    graph = training.graph
    title = f"{chosen.name}: {algorithm}, {graph.name} of {graph.agents}, K = {training.total_steps:,}"
    show_verdict(Console(highlight=False, markup=False), title, result)
