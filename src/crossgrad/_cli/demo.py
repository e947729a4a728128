"""`crossgrad demo`: the algorithms side by side on digits, in a minute or two."""

import json
import multiprocessing
import re
import sys
import time
from collections.abc import Iterator
from concurrent.futures import BrokenExecutor, ProcessPoolExecutor, as_completed
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
from rich.table import Table

from crossgrad._cli.children import deaf_to_ctrl_c, end_with_parent
from crossgrad._cli.console import say
from crossgrad._report.curves import draw_curves
from crossgrad._runs.folder import make_folder, versions
from crossgrad._storage.atomic import write_json
from crossgrad.experiments import comparison
from crossgrad.experiments.comparison import METHODS, SPLITS, Cell, Summary
from crossgrad.experiments.config import choose
from crossgrad.experiments.experiment import CHOICES, to_toml

Results = dict[Cell, list[dict[str, Any]]]

COLUMNS = ("averaged", "mean agent", "worst agent", "MB/agent", "diverged")


def run_demo(out: Path, steps: int, seeds: int, graph: str, agents: int, jobs: int) -> None:
    """Run every method on both splits with every seed; then the table, the picture and what they mean."""
    spec = choose(CHOICES["graph"], graph, "graph", {})
    tasks = [(cell, comparison.experiment(cell, spec, agents, steps)) for cell in comparison.cells(seeds)]
    comparison.check(tasks)  # what cannot work says so before any process starts
    folder = make_folder(out, "demo")
    console = Console()
    of_seeds = "1 seed" if seeds == 1 else f"{seeds} seeds"
    say(
        console,
        f"{len(METHODS)} methods, data alike and one class per agent, {of_seeds}: digits, MLP 64-32-10, {agents} "
        f"agents ({graph}), {steps} steps of batch 16, lr {comparison.LR}, momentum {comparison.MOMENTUM}.",
    )
    began = time.monotonic()
    results = _run(tasks, folder, jobs, console)
    if len(results) < len(tasks):
        say(console, f"Interrupted after {len(results)} of {len(tasks)} runs; they are kept in {folder}.")
        sys.exit(130)
    summaries = comparison.summarise(results)
    console.print(_table(summaries))
    title = f"Accuracy on digits, {agents} agents, {graph}"
    title += "" if seeds == 1 else f": mean over {seeds} seeds, shaded from worst to best"
    metrics = {"accuracy": "averaged model, %", "mean_agent": "mean agent, %"}
    draw_curves(_panels(results), metrics, folder / "curves.png", title)
    sentences = comparison.meaning(summaries)
    for sentence in sentences:
        say(console, f"- {sentence}")
    _keep(folder, tasks, summaries, sentences)
    seconds = time.monotonic() - began
    print(f"Curves: {folder / 'curves.png'}")
    print(f"Table, records, settings: {folder} ({seconds:.0f} s)")


def _run(tasks: list[Any], folder: Path, jobs: int, console: Console) -> Results:
    """All runs, each written down when it is done; Ctrl-C ends with those that are."""
    results: Results = {}
    columns = (TextColumn("{task.description}"), BarColumn(bar_width=None), MofNCompleteColumn(), TextColumn("runs"))
    bar = Progress(*columns, TimeRemainingColumn(), TextColumn("left"), console=console, expand=True,
                   disable=not console.is_terminal)  # fmt: skip
    with (folder / "records.jsonl").open("x", encoding="utf-8") as lines, bar:
        progress = bar.add_task("starting", total=len(tasks))
        try:
            for cell, records in _in_parallel(tasks, jobs):
                results[cell] = records
                for record in records:
                    lines.write(json.dumps({**cell._asdict(), **record}) + "\n")
                lines.flush()
                bar.update(progress, advance=1, description="training")
                if not console.is_terminal:
                    last = records[-1]
                    print(
                        f"{len(results)}/{len(tasks)}  {cell.method}, {cell.split}, seed {cell.seed}: averaged "
                        f"{last['accuracy']:.1%}, mean agent {last['mean_agent']:.1%}", flush=True,
                    )  # fmt: skip
        except KeyboardInterrupt:
            pass
    return results


def _in_parallel(tasks: list[Any], jobs: int) -> Iterator[tuple[Cell, list[dict[str, Any]]]]:
    """The runs as they are done, each in a process; whatever goes wrong, no process is left behind."""
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(min(jobs, len(tasks)), context, initializer=end_with_parent) as pool:
        try:
            with deaf_to_ctrl_c():
                futures = [pool.submit(comparison.run_cell, task) for task in tasks]
            for future in as_completed(futures):
                yield future.result()
        except BrokenExecutor:
            raise ChildProcessError("a process of the demo was ended from outside; is there enough memory?") from None
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            for process in multiprocessing.active_children():
                process.terminate()
            raise


def _table(summaries: dict[tuple[str, str], Summary]) -> Table:
    title = "Accuracy on the test set, % (mean and deviation over seeds)"
    table = Table(title=title, title_justify="left", box=None, padding=(0, 2, 0, 0), pad_edge=False)  # fits 80 columns
    table.add_column("", no_wrap=True)
    for heading in COLUMNS:
        table.add_column(heading, justify="right", no_wrap=True)
    for split in SPLITS:
        table.add_row(split, style="italic")
        for method in METHODS:
            table.add_row(method, *_row(summaries[method, split]))
    return table


def _row(s: Summary) -> tuple[str, ...]:
    spreads = [f"{value:.1f} ± {deviation:.1f}" for value, deviation in (s.averaged, s.mean_agent, s.worst_agent)]
    return *spreads, f"{s.megabytes:.2f}", str(s.diverged or "")


def _panels(results: Results) -> dict[str, dict[str, list[list[dict[str, Any]]]]]:
    panels: dict[str, dict[str, list[list[dict[str, Any]]]]] = {
        split: {method: [] for method in METHODS} for split in SPLITS
    }
    for cell, records in results.items():
        panels[cell.split][cell.method].append(records)
    return panels


def _keep(folder: Path, tasks: list[Any], summaries: dict[tuple[str, str], Summary], sentences: list[str]) -> None:
    """The table as Markdown, and every setting."""
    lines = [_line("split", "method", *COLUMNS), _line("---", "---", *("---:" for _ in COLUMNS))]
    lines += [_line(split, method, *_row(summaries[method, split])) for split in SPLITS for method in METHODS]
    lines += [part for sentence in sentences for part in ("", sentence)]
    (folder / "table.md").write_text("\n".join(lines) + "\n", encoding="utf-8")
    (folder / "experiments").mkdir()
    for cell, experiment in tasks:
        safe = re.sub("[^a-z0-9]+", "-", f"{cell.method}-{cell.split}-{cell.seed}".lower())
        (folder / "experiments" / f"{safe}.toml").write_text(to_toml(experiment), encoding="utf-8")
    write_json(folder / "versions.json", versions())


def _line(*cells: str) -> str:
    return f"| {' | '.join(cells)} |"
