"""A picture of a graph: agents on a circle, with one circle per step for a graph that changes."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from crossgrad.graphs.base import AnyGraph
from crossgrad.graphs.graph import Graph

if TYPE_CHECKING:
    from matplotlib.axes import Axes

MAX_STEPS_DRAWN = 8  # circles side by side
MAX_NUMBERED_AGENTS = 40  # with more agents, their numbers are left out


def draw_graph(graph: AnyGraph, path: str | Path) -> None:
    """Draw the graph into a file; of one that changes, the first steps of a period."""
    from matplotlib.figure import Figure

    steps = min(graph.period or MAX_STEPS_DRAWN, MAX_STEPS_DRAWN)
    figure = Figure(figsize=(3.2 * steps if steps > 1 else 5, 3.6 if steps > 1 else 5), layout="constrained")
    for step, axes in enumerate(figure.subplots(1, steps, squeeze=False)[0]):
        _draw_graph(graph.at(step), axes)
        axes.set_title(graph.name if steps == 1 else f"step {step}")
    figure.savefig(path, dpi=150)


def _draw_graph(graph: Graph, axes: Axes) -> None:
    angle = np.pi / 2 - 2 * np.pi * np.arange(graph.agents) / graph.agents
    places = np.stack([np.cos(angle), np.sin(angle)], axis=1)
    for j in range(graph.agents):
        for l in graph.neighbours(j).tolist():
            if not graph.mutual:
                arrow = {"arrowstyle": "->", "color": "#332288", "shrinkA": 7, "shrinkB": 7}
                axes.annotate("", places[j], places[l], arrowprops=arrow)
            elif j < l:
                axes.plot(*places[[j, l]].T, color="#332288", linewidth=1, zorder=1)
    axes.scatter(
        places[:, 0], places[:, 1], s=170 if graph.agents <= MAX_NUMBERED_AGENTS else 12, color="#88CCEE", zorder=2
    )
    if graph.agents <= MAX_NUMBERED_AGENTS:
        for j, place in enumerate(places.tolist()):
            axes.text(place[0], place[1], str(j), ha="center", va="center", fontsize=8)
    axes.set_aspect("equal")
    axes.axis("off")
