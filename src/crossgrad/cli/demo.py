"""`crossgrad demo`: the algorithms side by side on digits, in a minute or two."""

import json
import multiprocessing
import sys
import time
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
from rich.table import Table

from crossgrad import comparison
from crossgrad.comparison import METHODS, SPLITS, Cell, Summary
from crossgrad.config import choose
from crossgrad.experiment import CHOICES, to_toml
from crossgrad.report.curves import draw_curves
from crossgrad.rundir import make_folder, versions, write_json

Results = dict[Cell, list[dict[str, Any]]]


def run_demo(out: Path, steps: int, seeds: int, graph: str, agents: int, jobs: int) -> None:
    """Run every method on both splits with every seed; then the table, the picture and what they mean."""
    spec = choose(CHOICES["graph"], graph, "graph", {})
    tasks = [(cell, comparison.experiment(cell, spec, agents, steps)) for cell in comparison.cells(seeds)]
    tasks[0][1].start()  # what cannot work says so before any process starts
    folder = make_folder(out, "demo")
    console = Console()
    console.print(
        f"{len(METHODS)} methods, data alike and one class per agent, {seeds} seeds: digits, MLP 64-32-10, {agents} "
        f"agents ({graph}), {steps} steps of batch 16, lr {comparison.LR}, momentum {comparison.MOMENTUM}.",
        highlight=False, soft_wrap=True,
    )  # fmt: skip
    began = time.monotonic()
    results = _run(tasks, folder, jobs, console)
    if len(results) < len(tasks):
        console.print(f"Interrupted after {len(results)} of {len(tasks)} runs; they are kept in {folder}.")
        sys.exit(130)
    summaries = comparison.summarise(results)
    console.print(_table(summaries))
    title = f"digits, {agents} agents, {graph}: mean over {seeds} seeds, shaded from worst to best"
    metrics = {"accuracy": "averaged model, %", "mean_agent": "mean agent, %"}
    draw_curves(_panels(results), metrics, folder / "curves.png", title)
    sentences = comparison.meaning(summaries)
    for sentence in sentences:
        console.print(f"- {sentence}", highlight=False, soft_wrap=True)
    _keep(folder, tasks, summaries, sentences)
    seconds = time.monotonic() - began
    console.print(f"Curves: {folder / 'curves.png'}", highlight=False, soft_wrap=True)
    console.print(f"Table, records, settings: {folder} ({seconds:.0f} s)", highlight=False, soft_wrap=True)


def _run(tasks: list[Any], folder: Path, jobs: int, console: Console) -> Results:
    """All runs, each written down when it is done; Ctrl-C ends with those that are."""
    results: Results = {}
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TextColumn("runs, time left"))
    bar = Progress(*columns, TimeRemainingColumn(), console=console, disable=not console.is_terminal)
    context = multiprocessing.get_context("spawn")
    with (folder / "records.jsonl").open("x") as lines, bar, ProcessPoolExecutor(jobs, mp_context=context) as pool:
        task = bar.add_task("starting", total=len(tasks))
        waiting: set[Future[tuple[Cell, list[dict[str, Any]]]]] = {
            pool.submit(comparison.run_cell, one) for one in tasks
        }
        try:
            while waiting:
                ready, waiting = wait(waiting, return_when=FIRST_COMPLETED)
                for future in ready:
                    cell, records = future.result()
                    results[cell] = records
                    for record in records:
                        lines.write(json.dumps({**cell._asdict(), **record}) + "\n")
                    lines.flush()
                    bar.update(task, advance=1, description=cell.method)
                    if not console.is_terminal:
                        last = records[-1]
                        print(
                            f"{len(results)}/{len(tasks)}  {cell.method}, {cell.split}, seed {cell.seed}: averaged "
                            f"{last['accuracy']:.1%}, mean agent {last['mean_agent']:.1%}", flush=True,
                        )  # fmt: skip
        except KeyboardInterrupt:
            pool.shutdown(wait=False, cancel_futures=True)
    return results


def _table(summaries: dict[tuple[str, str], Summary]) -> Table:
    table = Table(title="Accuracy on the test set, % (mean and deviation over seeds)", title_justify="left")
    table.add_column("split")
    table.add_column("method", no_wrap=True)
    for heading in ("averaged", "mean agent", "worst agent", "MB/agent"):
        table.add_column(heading, justify="right", no_wrap=True)
    for split in SPLITS:
        for number, method in enumerate(METHODS):
            table.add_row(split if number == 0 else "", *_row(method, summaries[method, split]))
        table.add_section()
    return table


def _row(method: str, s: Summary) -> tuple[str, ...]:
    name = method + (f" ({s.diverged} diverged)" if s.diverged else "")
    spreads = [f"{value:.1f} ± {deviation:.1f}" for value, deviation in (s.averaged, s.mean_agent, s.worst_agent)]
    return name, *spreads, f"{s.megabytes:.2f}"


def _panels(results: Results) -> dict[str, dict[str, list[list[dict[str, Any]]]]]:
    panels: dict[str, dict[str, list[list[dict[str, Any]]]]] = {
        split: {method: [] for method in METHODS} for split in SPLITS
    }
    for cell, records in results.items():
        panels[cell.split][cell.method].append(records)
    return panels


def _keep(folder: Path, tasks: list[Any], summaries: dict[tuple[str, str], Summary], sentences: list[str]) -> None:
    """The table as Markdown, and every setting."""
    lines = ["| split | method | averaged | mean agent | worst agent | MB/agent |", "|---|---|---|---|---|---|"]
    for split in SPLITS:
        lines += [f"| {split} | {' | '.join(_row(method, summaries[method, split]))} |" for method in METHODS]
    (folder / "table.md").write_text("\n".join([*lines, "", *sentences]) + "\n")
    (folder / "experiments").mkdir()
    for cell, experiment in tasks:
        name = f"{cell.method}-{cell.split}-{cell.seed}".lower()
        safe = "".join(c if c.isalnum() else "-" for c in name)
        (folder / "experiments" / f"{safe}.toml").write_text(to_toml(experiment))
    write_json(folder / "versions.json", versions())
