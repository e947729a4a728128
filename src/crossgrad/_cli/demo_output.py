"""The runs of `crossgrad demo` in several processes, and the table and files made from them."""

import json
import multiprocessing
import re
from collections.abc import Iterator
from concurrent.futures import BrokenExecutor, ProcessPoolExecutor, as_completed
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
from rich.table import Table

from crossgrad._cli.children import end_with_parent, ignoring_ctrl_c
from crossgrad._runs.versions import versions
from crossgrad._storage.atomic import write_json
from crossgrad.experiments import comparison
from crossgrad.experiments.comparison import DEMO_METHODS, DEMO_SPLITS, DemoRun, Summary
from crossgrad.experiments.files import to_toml

Results = dict[DemoRun, list[dict[str, Any]]]

DEMO_COLUMNS = ("averaged", "mean agent", "worst agent", "MB/agent", "diverged")


def run_all(tasks: list[Any], folder: Path, jobs: int, console: Console) -> Results:
    """Run everything; records are written as each run finishes. Ctrl-C returns the runs finished by then."""
    results: Results = {}
    columns = (TextColumn("{task.description}"), BarColumn(bar_width=None), MofNCompleteColumn(), TextColumn("runs"))
    bar = Progress(*columns, TimeRemainingColumn(), TextColumn("left"), console=console, expand=True,
                   disable=not console.is_terminal)  # fmt: skip
    with (folder / "records.jsonl").open("x", encoding="utf-8") as lines, bar:
        progress = bar.add_task("starting", total=len(tasks))
        try:
            for run, records in _in_parallel(tasks, jobs):
                results[run] = records
                for record in records:
                    lines.write(json.dumps({**run._asdict(), **record}) + "\n")
                lines.flush()
                bar.update(progress, advance=1, description="training")
                if not console.is_terminal:
                    last = records[-1]
                    print(
                        f"{len(results)}/{len(tasks)}  {run.method}, {run.split}, seed {run.seed}: averaged "
                        f"{last['accuracy']:.1%}, mean agent {last['mean_agent']:.1%}", flush=True,
                    )  # fmt: skip
        except KeyboardInterrupt:
            pass
    return results


def _in_parallel(tasks: list[Any], jobs: int) -> Iterator[tuple[DemoRun, list[dict[str, Any]]]]:
    """Yield each run as its process finishes it; on any error all processes are ended."""
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(min(jobs, len(tasks)), context, initializer=end_with_parent) as pool:
        try:
            with ignoring_ctrl_c():
                futures = [pool.submit(comparison.run_task, task) for task in tasks]
            for future in as_completed(futures):
                yield future.result()
        except BrokenExecutor:
            raise ChildProcessError(
                "the demo needs all its processes; one was killed, probably as memory ran out. Try --jobs 1."
            ) from None
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            for process in multiprocessing.active_children():
                process.terminate()
            raise


def summary_table(summaries: dict[tuple[str, str], Summary]) -> Table:
    title = "Accuracy on the test set, % (mean and deviation over seeds)"
    table = Table(title=title, title_justify="left", box=None, padding=(0, 2, 0, 0), pad_edge=False)  # fits 80 columns
    table.add_column("", no_wrap=True)
    for heading in DEMO_COLUMNS:
        table.add_column(heading, justify="right", no_wrap=True)
    for split in DEMO_SPLITS:
        table.add_row(split, style="italic")
        for method in DEMO_METHODS:
            table.add_row(method, *_cells_of_summary(summaries[method, split]))
    return table


def _cells_of_summary(s: Summary) -> tuple[str, ...]:
    spreads = [f"{value:.1f} ± {deviation:.1f}" for value, deviation in (s.averaged, s.mean_agent, s.worst_agent)]
    return *spreads, f"{s.megabytes:.2f}", str(s.diverged or "")


def panels_of(results: Results) -> dict[str, dict[str, list[list[dict[str, Any]]]]]:
    panels: dict[str, dict[str, list[list[dict[str, Any]]]]] = {
        split: {method: [] for method in DEMO_METHODS} for split in DEMO_SPLITS
    }
    for run, records in results.items():
        panels[run.split][run.method].append(records)
    return panels


def write_files(
    folder: Path, tasks: list[Any], summaries: dict[tuple[str, str], Summary], sentences: list[str]
) -> None:
    """Write the table as Markdown, every experiment, and the versions."""
    lines = [
        _markdown_line("split", "method", *DEMO_COLUMNS),
        _markdown_line("---", "---", *("---:" for _ in DEMO_COLUMNS)),
    ]
    lines += [
        _markdown_line(split, method, *_cells_of_summary(summaries[method, split]))
        for split in DEMO_SPLITS
        for method in DEMO_METHODS
    ]
    lines += [part for sentence in sentences for part in ("", sentence)]
    (folder / "table.md").write_text("\n".join(lines) + "\n", encoding="utf-8")
    (folder / "experiments").mkdir()
    for run, experiment in tasks:
        safe = re.sub("[^a-z0-9]+", "-", f"{run.method}-{run.split}-{run.seed}".lower())
        (folder / "experiments" / f"{safe}.toml").write_text(to_toml(experiment), encoding="utf-8")
    write_json(folder / "versions.json", versions())


def _markdown_line(*cells: str) -> str:
    return f"| {' | '.join(cells)} |"
