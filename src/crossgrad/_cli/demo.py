"""`crossgrad demo`: compare decentralised methods on digits in a few minutes."""

import sys
import time
from pathlib import Path
from typing import Annotated

import typer

from crossgrad._cli.app import app, examples
from crossgrad._cli.options import Agents, Out


@app.command(epilog=examples("crossgrad demo", "crossgrad demo --steps 100 --seeds 1 --out /tmp/demo"))
def demo(
    out: Out = Path("runs"),
    steps: Annotated[int, typer.Option(min=1, help="Steps of every run.")] = 300,
    seeds: Annotated[int, typer.Option(min=1, help="Runs of every method, each with its own seed.")] = 3,
    graph: Annotated[str, typer.Option(help="The graph, such as ring, fully-connected or bipartite.")] = "ring",
    agents: Agents = 10,
    jobs: Annotated[int, typer.Option(min=1, help="Processes; each uses one core.")] = 2,
) -> None:
    """Compare methods on digits, with IID data and with one class per agent: a table, curves, conclusions."""
    from rich.console import Console

    from crossgrad._cli import demo_output
    from crossgrad._cli.console import say
    from crossgrad._report.curves import draw_comparison
    from crossgrad._runs.new_folder import make_folder
    from crossgrad.experiments import comparison
    from crossgrad.experiments.config import choose
    from crossgrad.graphs import GRAPHS

    spec = choose(GRAPHS, graph, "graph", {})
    tasks = [(run, comparison.experiment(run, spec, agents, steps)) for run in comparison.runs(seeds)]
    comparison.check_tasks(tasks)  # raises before any process starts
    folder = make_folder(out, "demo")
    console = Console()
    of_seeds = "1 seed" if seeds == 1 else f"{seeds} seeds"
    say(
        console,
        f"{len(comparison.DEMO_METHODS)} methods, IID data and one class per agent, {of_seeds}: digits, MLP 64-32-10, "
        f"{agents} agents ({graph}), {steps} steps of batch 16, lr {comparison.LR}, momentum {comparison.MOMENTUM}.",
    )
    began = time.monotonic()
    results = demo_output.run_all(tasks, folder, jobs, console)
    if len(results) < len(tasks):
        say(console, f"Interrupted after {len(results)} of {len(tasks)} runs; they are kept in {folder}.")
        sys.exit(130)
    summaries = comparison.summarise(results)
    console.print(demo_output.summary_table(summaries))
    title = f"Accuracy on digits, {agents} agents, {graph}"
    title += "" if seeds == 1 else f": mean over {seeds} seeds, shaded from worst to best"
    metrics = {"accuracy": "averaged model, %", "mean_agent": "mean agent, %"}
    draw_comparison(demo_output.panels_of(results), metrics, folder / "curves.png", title)
    sentences = comparison.conclusions(summaries)
    for sentence in sentences:
        say(console, f"- {sentence}")
    demo_output.write_files(folder, tasks, summaries, sentences)
    print(f"Curves: {folder / 'curves.png'}")
    print(f"Table, records, settings: {folder} ({time.monotonic() - began:.0f} s)")
