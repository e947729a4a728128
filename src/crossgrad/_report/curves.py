"""Curves of several methods side by side, mean and spread over seeds."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

# Okabe and Ito's colours, which most people with colour-blindness can tell apart, then the same with dashes.
CURVE_COLOURS = ("#0072B2", "#E69F00", "#009E73", "#D55E00", "#CC79A7", "#56B4E9", "#000000")
DASHES = ("-", "--", ":")
MARKERS = ("o", "s", "^", "v", "D", "P", "X", "<", ">", "*")  # to tell curves apart that lie on one another

Runs = Sequence[Sequence[Mapping[str, Any]]]  # the records of each seed


def draw_comparison(
    panels: Mapping[str, Mapping[str, Runs]], metrics: Mapping[str, str], path: Path, title: str
) -> None:
    """Draw one column per panel and one row per metric: accuracies in percent against steps.

    `panels` maps a panel's title to its methods' runs, `metrics` a field of the records to the name of its axis.
    """
    from matplotlib.figure import Figure

    figure = Figure(figsize=(5.2 * len(panels) + 2.2, 3.4 * len(metrics) + 0.6), layout="constrained", dpi=130)
    grid = figure.subplots(len(metrics), len(panels), sharex=True, sharey=True, squeeze=False)
    for column, (panel, methods) in enumerate(panels.items()):
        for row, (metric, label) in enumerate(metrics.items()):
            axes = grid[row][column]
            for number, (method, runs) in enumerate(methods.items()):
                steps, values = _curve(runs, metric)
                style = {
                    "color": CURVE_COLOURS[number % len(CURVE_COLOURS)],
                    "linestyle": DASHES[number // len(CURVE_COLOURS) % len(DASHES)],
                    "marker": MARKERS[number % len(MARKERS)],
                }
                every = (number % 3, 3)  # curves next to one another in the legend have marks at different steps
                axes.plot(
                    steps, values.mean(axis=0), label=method, linewidth=1.6, markersize=5, markevery=every, **style
                )
                axes.fill_between(
                    steps, values.min(axis=0), values.max(axis=0), color=style["color"], alpha=0.08, linewidth=0
                )
            axes.grid(alpha=0.25)
            axes.set_ylim(0, 100)
            if row == 0:
                axes.set_title(panel)
            if row == len(metrics) - 1:
                axes.set_xlabel("steps")
            if column == 0:
                axes.set_ylabel(label)
    handles, labels = grid[0][0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside right center", frameon=False)
    figure.suptitle(title, fontsize=11)
    figure.savefig(path)


def _curve(runs: Runs, metric: str) -> tuple[list[int], np.ndarray[Any, Any]]:
    """Steps, and for each seed its values in percent; a run that ended early keeps its last value."""
    longest = max(runs, key=len)
    values = np.full((len(runs), len(longest)), np.nan)
    for line, records in zip(values, runs, strict=True):
        line[: len(records)] = [100 * record[metric] for record in records]
        line[len(records) :] = line[len(records) - 1]
    return [record["step"] for record in longest], values
