"""The contents of one panel of a figure."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from crossgrad._report.seed_groups import SeedGroup
from crossgrad._report.series import Axis, CurveValues, Measure, Spread, curve_of_seeds, spread
from crossgrad._report.style import Style
from crossgrad._runs.results import RunResult

DIVERGED_NOTE = "a seed diverged"
CROSS: dict[str, Any] = {"marker": "x", "linestyle": "none", "markersize": 9, "markeredgewidth": 2}
MARKS_PER_CURVE = 6  # about
MAX_LOSS_RATIO = 5.0  # a loss above so many times the largest at the start is cut off
GROUP_WIDTH = 0.8  # in units of the distance between two groups


def draw_curves(
    axes: Any,
    groups: Mapping[str, Sequence[RunResult]],
    styles: Mapping[str, Style],
    across: Axis,
    measure: Measure,
    between: bool = False,
) -> None:
    """A curve for each group of seeds, shaded from lowest to highest; a cross where one diverged."""
    for number, (name, runs) in enumerate(groups.items()):
        drawn, style = curve_of_seeds(runs, across, measure, between), styles[name]
        every = max(1, len(drawn.x) // MARKS_PER_CURVE)
        axes.plot(drawn.x, drawn.mean, label=name, markevery=(number % every, every), **style.line())
        if len(runs) > 1:
            axes.fill_between(drawn.x, drawn.low, drawn.high, color=style.colour, alpha=0.12, linewidth=0)
        _cross(axes, drawn.diverged_x, drawn.diverged, style.colour)


def log_loss(axes: Any) -> None:
    """A logarithmic axis for a loss, with plain numbers beside it."""
    from matplotlib.ticker import LogLocator, NullFormatter, StrMethodFormatter

    axes.set_yscale("log")
    axes.yaxis.set_major_locator(LogLocator(base=10, subs=(1.0, 2.0, 5.0)))
    axes.yaxis.set_major_formatter(StrMethodFormatter("{x:g}"))
    axes.yaxis.set_minor_formatter(NullFormatter())


def cut_off(row: Iterable[Any]) -> None:
    """Limit the axes of a row of panels, so that a loss that explodes does not hide the others."""
    curves = [line for axes in row for line in axes.get_lines() if line.get_label() != DIVERGED_NOTE]
    starts = [line.get_ydata() for line in curves]
    highest = max((y[np.isfinite(y)][0] for y in starts if np.isfinite(y).any()), default=np.inf)
    for axes in row:
        if axes.get_ylim()[1] > MAX_LOSS_RATIO * highest:
            axes.set_ylim(top=MAX_LOSS_RATIO * highest)


def draw_pairs(
    axes: Any, cells: Sequence[SeedGroup], groups: Sequence[Any], axis: str, styles: Mapping[str, Style]
) -> None:
    """Accuracies at the end, in percent, for each group and method.

    A full mark is the averaged model, a hollow one the mean agent, both with the deviation over seeds.
    """
    for number, (name, style) in enumerate(styles.items()):
        own = [cell for cell in cells if cell.key.name == name]
        offset = ((number + 0.5) / len(styles) - 0.5) * GROUP_WIDTH
        x = np.array([groups.index(getattr(cell.key, axis)) + offset for cell in own])
        averaged = _percent_spread(own, lambda record: record.accuracy)
        mean_agent = _percent_spread(own, lambda record: record.mean_agent)
        axes.vlines(x, averaged.mean, mean_agent.mean, color=style.colour, linestyle=":", linewidth=1, zorder=1)
        _mark(axes, x, mean_agent, style, "white", 8)  # larger and behind, so that both can be seen where they coincide
        _mark(axes, x, averaged, style, style.colour, 5, name)
        diverged = [any(run.ended == "diverged" for run in cell.runs) for cell in own]
        if any(diverged):
            _cross(axes, x[diverged], averaged.mean[diverged], "black")
    axes.set(xlim=(-0.5, len(groups) - 0.5), ylim=(0, 102))
    axes.set_xticks(range(len(groups)), [str(group) for group in groups], fontsize=8.5)
    axes.grid(visible=False, axis="x")
    for border in np.arange(0.5, len(groups) - 1):
        axes.axvline(border, color="0.85", linewidth=0.8, zorder=0)


def _percent_spread(cells: Sequence[SeedGroup], measure: Measure) -> Spread:
    found = spread([cell.runs for cell in cells], measure)
    return Spread(100 * found.mean, 100 * found.deviation)


def _cross(axes: Any, x: CurveValues, y: CurveValues, colour: str) -> None:
    if len(x):
        axes.plot(x, y, color=colour, zorder=5, label=DIVERGED_NOTE, **CROSS)


def grey_cross() -> Any:
    """The cross of a diverged run, for a legend."""
    from matplotlib.lines import Line2D

    return Line2D([], [], color="0.3", **CROSS)


def _mark(axes: Any, x: CurveValues, values: Spread, style: Style, fill: str, size: int, label: str = "") -> None:
    if len(x):
        look = {"color": style.colour, "marker": style.marker, "markerfacecolor": fill, "markersize": size}
        axes.errorbar(x, values.mean, values.deviation, elinewidth=1.6, linestyle="none", label=label, **look)


def draw_agents(axes: Any, run: RunResult, style: Style) -> None:
    """The accuracy of each agent's own model, of their mean and of the averaged model, in percent against epochs."""
    epochs = [record.epoch for record in run.records]
    each = 100 * np.array([record.agent_accuracy for record in run.records])
    for number, values in enumerate(each.T):
        axes.plot(epochs, values, color="0.55", linewidth=0.9, alpha=0.8, label="" if number else "each agent")
    axes.plot(epochs, each.mean(axis=1), color="black", linestyle="--", label="mean agent")
    averaged = [np.nan if record.accuracy is None else 100 * record.accuracy for record in run.records]
    axes.plot(epochs, averaged, color=style.colour, linewidth=2.4, label="averaged model")
    axes.set(ylim=(0, 102))
