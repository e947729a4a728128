"""A picture of how many samples of each class each agent holds."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from matplotlib.axes import Axes

# Paul Tol's "muted" scheme with a grey: distinguishable with any colour vision; light and dark alternate.
CLASS_COLOURS = (
    "#332288", "#88CCEE", "#117733", "#DDCC77", "#CC6677",
    "#44AA99", "#882255", "#999933", "#AA4499", "#BBBBBB",
)  # fmt: skip
MIN_NAMED_SHARE = 0.02  # a bar shorter than this share of the longest has no room for its class's number


def draw_partition(counts: NDArray[np.int64], target: str | Path | Axes) -> Axes:
    """Draw (agents, classes) counts as one stacked bar per agent, into a file or into given axes.

    Args:
        counts: samples of each agent (row) and class (column).
        target: a file, or axes to draw into.
    """
    if isinstance(target, str | Path):
        from matplotlib.figure import Figure

        figure = Figure(figsize=(8, 1.4 + 0.24 * min(max(len(counts), 6), 240)), layout="constrained")
        axes = figure.subplots()
        _draw_bars(counts, axes)
        figure.savefig(target, dpi=150)
        return axes
    _draw_bars(counts, target)
    return target


def _draw_bars(counts: NDArray[np.int64], axes: Axes) -> None:
    from matplotlib import colormaps
    from matplotlib.colors import to_rgb

    agents, classes = counts.shape
    colours = [to_rgb(colour) for colour in CLASS_COLOURS]
    if classes > len(CLASS_COLOURS):
        colours = [to_rgb(colour) for colour in colormaps["viridis"](np.linspace(0, 1, classes))]
    longest = counts.sum(1).max()
    for c in range(classes):
        before = counts[:, :c].sum(1)
        axes.barh(np.arange(agents), counts[:, c], 0.82, before, color=colours[c], label=str(c),
                  edgecolor="white", linewidth=0.5)  # fmt: skip
        ink = "white" if np.dot(colours[c], (0.30, 0.59, 0.11)) < 0.5 else "black"
        for agent in np.flatnonzero(counts[:, c] > MIN_NAMED_SHARE * longest).tolist():
            axes.text(before[agent] + counts[agent, c] / 2, agent, str(c), color=ink, fontsize=7,
                      ha="center", va="center_baseline")  # fmt: skip
    axes.set(xlabel="samples", ylabel="agent", ylim=(agents - 0.4, -0.6), xlim=(0, longest * 1.01))
    axes.set_yticks(np.arange(agents))
    axes.tick_params(axis="y", length=0, labelsize=8)
    axes.tick_params(axis="x", labelsize=9)
    axes.spines[["top", "right", "left"]].set_visible(False)
    if classes <= len(CLASS_COLOURS):
        axes.legend(title="class", loc="upper left", bbox_to_anchor=(1, 1), fontsize=9, frameon=False)
