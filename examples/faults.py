"""What faults do to accuracy, method by method. `python examples/faults.py docs/faults` makes docs/faults/table.md.

Digits, 10 agents on a ring, one class each, 300 steps: the model and step sizes of `crossgrad demo`. Every run of a
seed sees the same faults, whatever its method.
"""

import json
import multiprocessing
import sys
from concurrent.futures import ProcessPoolExecutor
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from statistics import mean, pstdev

from crossgrad._training.schedule import Exponential
from crossgrad.algorithms import GradientTracking, QGDSGDm
from crossgrad.experiments.comparison import DEMO_METHODS, LR, MOMENTUM, DemoRun, experiment, run_task
from crossgrad.experiments.experiment import Experiment
from crossgrad.graphs import GRAPHS
from crossgrad.graphs.faults import Faults

SEEDS = range(3)
SCENARIOS = {
    "no faults": Faults(),
    "drop 0.3": Faults(drop=0.3),
    "leave 0.01, away 20": Faults(leave=0.01, away=20),
    "straggle 0.2": Faults(straggle=0.2),
}
OF_THE_DEMO = ("DPMSGD", "SGP, momentum", "CGA (paper)", "CompCGA", "mean cross-gradient", "EDM", "SwarmSGD, matching")
# Their step sizes go as far in the long run as the demo's LR does with a heavy ball of its MOMENTUM.
OTHERS = {
    "QG-DSGDm": (QGDSGDm(0.9), LR / (1 - MOMENTUM) * (1 - 0.9)),
    "gradient tracking": (GradientTracking(), LR / (1 - MOMENTUM)),
}
KEPT = ("step", "status", "accuracy", "mean_agent", "worst_agent", "bytes_sent", "gradients", "diagnostics")


def experiments() -> dict[tuple[str, str, int], Experiment]:
    """Every run, by method, scenario and seed."""
    runs = {}
    for seed in SEEDS:
        for method in (*OF_THE_DEMO, *OTHERS):
            known = DemoRun(method if method in DEMO_METHODS else "DPMSGD", "one class per agent", seed)
            one = experiment(known, GRAPHS["ring"](), agents=10, steps=300)
            if method in OTHERS:
                algorithm, lr = OTHERS[method]
                one = replace(one, algorithm=algorithm, schedule=Exponential(lr, one.schedule.decay))
            for scenario, faults in SCENARIOS.items():
                runs[method, scenario, seed] = replace(one, name=f"{method}, {scenario}", faults=faults)
    return runs


def line_of(run: tuple[str, str, int], records: list[dict]) -> dict:
    """The end of a run; the shares of agents present and of links that worked are those of the whole run."""
    last = {name: records[-1][name] for name in KEPT}
    for share in ("present", "links"):
        if share in last["diagnostics"]:
            in_all = sum(now["diagnostics"][share] * (now["step"] - old["step"]) for old, now in pairwise(records))
            last["diagnostics"][share] = in_all / last["step"]
    method, scenario, seed = run
    return {"method": method, "scenario": scenario, "seed": seed, **last}


def cell(lines: list[dict]) -> str:
    """Averaged model / mean agent: mean and deviation over the seeds."""
    percents = [[100 * line[name] for line in lines] for name in ("accuracy", "mean_agent")]
    diverged = sum(line["status"] != "ok" for line in lines)
    spreads = " / ".join(f"{mean(percent):.1f} ± {pstdev(percent):.1f}" for percent in percents)
    return f"{spreads} ({diverged} diverged)" if diverged else spreads


def table(lines: list[dict]) -> str:
    """The end of all runs, by method and scenario."""
    rows = [f"| averaged / mean agent, % | {' | '.join(SCENARIOS)} |", "|---" + "|---:" * len(SCENARIOS) + "|"]
    for method in (*OF_THE_DEMO, *OTHERS):
        of_method = [line for line in lines if line["method"] == method]
        cells = [cell([line for line in of_method if line["scenario"] == scenario]) for scenario in SCENARIOS]
        rows.append(f"| {method} | {' | '.join(cells)} |")
    return "\n".join(rows) + "\n"


def main(folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    runs, lines = experiments(), []
    with ProcessPoolExecutor(2, multiprocessing.get_context("spawn")) as pool:
        for run, records in pool.map(run_task, runs.items()):
            lines.append(line_of(run, records))
            print(f"{len(lines)}/{len(runs)}  {', '.join(map(str, run))}: {records[-1]['accuracy']:.1%}", flush=True)
    (folder / "records.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    (folder / "table.md").write_text(table(lines))
    print(table(lines))


if __name__ == "__main__":
    main(Path(sys.argv[1] if len(sys.argv) > 1 else "runs/faults"))
