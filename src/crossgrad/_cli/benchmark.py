"""`crossgrad benchmark`: all methods on several graphs, numbers of agents and splits, tuned in the same way."""

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from crossgrad._cli.app import app, examples
from crossgrad._cli.options import SweepOptions, takes

if TYPE_CHECKING:
    from crossgrad._benchmark.combinations import Refused
    from crossgrad._tuning.plan import Tuning


@app.command(
    epilog=examples(
        "crossgrad benchmark --dry-run",
        "crossgrad benchmark --agents 10 --graph ring --split class",
        "crossgrad benchmark --algorithm edm --algorithm cga --trials 12 -j 4",
    )
)
@takes(SweepOptions)
def benchmark(
    options: SweepOptions,
    algorithm: Annotated[
        list[str] | None, typer.Option(help="A method, such as edm; default: all. Can be repeated.")
    ] = None,
    graph: Annotated[
        list[str] | None, typer.Option(help="ring, base-3, bipartite, exponential or tree; default: all.")
    ] = None,
    agents: Annotated[list[int] | None, typer.Option("--agents", "-n", help="10 or 40; default: both.")] = None,
    split: Annotated[list[str] | None, typer.Option(help="class, dirichlet or iid; default: all.")] = None,
    trials: Annotated[
        int, typer.Option(min=1, help="Number of runs by which the settings of each method are picked.")
    ] = 8,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Print how many runs there are and about how long they take.")
    ] = False,
    out: Annotated[Path, typer.Option("--out", metavar="DIR", help="The folder of the benchmark.")] = Path("benchmark"),
) -> None:
    """Tune and test all methods on digits, or a part of them. Run it again to resume.

    Results of several commands with the same --out are in one table and page.
    """
    from rich.console import Console

    from crossgrad._benchmark.combinations import BenchmarkPart, benchmark
    from crossgrad._cli.console import say

    part = BenchmarkPart(tuple(algorithm or ()), tuple(graph or ()), tuple(agents or ()), tuple(split or ()))
    tuning, refused = benchmark(part, trials)
    say_refused(refused)
    if not tuning.entries:
        raise ValueError("nothing of this part can be run; the reasons are above. Choose another graph or algorithm.")
    if dry_run:
        for line in forecast_lines(tuning, out, options.jobs):
            say(Console(), line)
        return
    from crossgrad._benchmark.page import write_benchmark_page
    from crossgrad._cli.tuned_runs import run_tuning
    from crossgrad._runs.results import read_results
    from crossgrad._tuning.standings import standings

    out.mkdir(parents=True, exist_ok=True)
    complete = run_tuning(tuning, out, options, others=True)
    print(f"Page: {write_benchmark_page(standings(read_results(out, damaged={})), out / 'benchmark.html')}")
    if not complete:
        sys.exit(1)


def say_refused(refused: "list[Refused]") -> None:
    """Print which combinations are not run, with each reason once."""
    from rich.console import Console

    from crossgrad._cli.console import say

    by_reason: dict[tuple[str, str], list[Refused]] = {}
    for one in refused:
        if one.labels["graph"] != "tree":  # for those that need it; all others have four graphs of their own
            need = one.reason.partition(" ")[2].partition(";")[0]  # without the method's name
            by_reason.setdefault((one.labels["graph"], need), []).append(one)
    for (graph, _), each in by_reason.items():
        named = ", ".join(dict.fromkeys(one.labels["algorithm"] for one in each))
        say(Console(), f"Not run on {graph}: {named}. {each[0].reason}")


def forecast_lines(tuning: "Tuning", out: Path, jobs: int | None) -> list[str]:
    """How many runs there are, and how long they take, estimated from finished ones."""
    from statistics import mean

    from crossgrad._cli.workers import cores
    from crossgrad._runs.results import FULL, PACKED, read_results
    from crossgrad._tuning.plan import without_added

    choice = tuning.choice
    runs = len(tuning.entries) * (choice.trials + len(choice.seeds))
    lines = [
        f"{len(tuning.entries)} combinations, each with {choice.trials} trials and {len(choice.seeds)} seeds: {runs} "
        "runs, and a few more where the best step size lies at an edge."
    ]
    done = read_results(out, damaged={}) if (out / "cells").is_dir() or (out / PACKED).is_file() else []
    here = [entry.labels for entry in tuning.entries]  # and not in another part of the benchmark
    seconds = [one.records[-1].seconds for one in done if one.ended == "finished" and one.records]
    each = mean(seconds) if seconds else SECONDS_PER_RUN
    why = f"the mean of {len(seconds)} runs in {out}" if seconds else "a guess, as none has been run here"
    ended = sum(one.ended in FULL and without_added(one.labels) in here for one in done)
    hours = max(0, runs - ended) * each / (jobs or cores()) / 3600
    told = f"{hours:.1f}" if hours >= 1 else f"{hours:.1g}"
    lines.append(f"About {told} hours for those not run yet, at {each:.1f} s each ({why}).")
    return lines


SECONDS_PER_RUN = 6.0  # before any is known
