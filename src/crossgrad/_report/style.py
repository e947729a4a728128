"""The look of figures: colours that most people can tell apart, and the same bytes for the same figure."""

import re
from collections.abc import Iterable
from dataclasses import dataclass
from io import BytesIO, StringIO
from pathlib import Path
from typing import Any

from crossgrad._report.curves import DASHES, MARKERS
from crossgrad._report.seed_groups import GroupKey
from crossgrad._storage import atomic

# Okabe and Ito's colours; methods that are kin have kindred ones. Variants of a method differ by dashes and markers.
METHOD_COLOURS = {
    "DPSGD": "#E69F00",
    "DPMSGD": "#D55E00",
    "SGP": "#009E73",
    "SwarmSGD": "#CC79A7",
    "CGA": "#0072B2",
    "CompCGA": "#56B4E9",
}
GRAPH_COLOURS = {"fully-connected": "#0072B2", "ring": "#D55E00", "bipartite": "#009E73"}
OTHER = "#000000"
MATPLOTLIB_SETTINGS: Any = {
    "svg.hashsalt": "crossgrad",  # the same names in the file each time
    "svg.fonttype": "none",  # text stays text: small, and it can be read aloud and searched
    "font.family": ["DejaVu Sans", "sans-serif"],
    "font.size": 10,
    "axes.titlesize": 10.5,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "axes.axisbelow": True,
    "grid.alpha": 0.3,
    "grid.linewidth": 0.6,
    "legend.frameon": False,
    "lines.linewidth": 1.7,
    "lines.markersize": 5,
}


@dataclass(frozen=True)
class Style:
    """How one method or graph is drawn, in every panel."""

    colour: str
    dash: str
    marker: str

    def line(self) -> dict[str, Any]:
        """The style as arguments of matplotlib's `plot`."""
        return {"color": self.colour, "linestyle": self.dash, "marker": self.marker}


def method_styles(keys: Iterable[GroupKey]) -> dict[str, Style]:
    """A style for each method and variant, by name."""
    variants: dict[str, list[str]] = {}
    styles: dict[str, Style] = {}
    for key in keys:
        if key.name not in styles:
            earlier = variants.setdefault(key.method, [])
            number = list(METHOD_COLOURS).index(key.method) if key.method in METHOD_COLOURS else len(styles)
            styles[key.name] = Style(
                METHOD_COLOURS.get(key.method, OTHER),
                DASHES[len(earlier) % len(DASHES)],
                MARKERS[(number + 6 * len(earlier)) % len(MARKERS)],
            )
            earlier.append(key.name)
    return styles


def graph_styles(graphs: Iterable[str]) -> dict[str, Style]:
    """A style for each graph."""
    each = list(dict.fromkeys(graphs))
    return {
        graph: Style(GRAPH_COLOURS.get(graph, OTHER), DASHES[i % len(DASHES)], MARKERS[i % len(MARKERS)])
        for i, graph in enumerate(each)
    }


def save(figure: Any, folder: Path, name: str) -> list[Path]:
    """Write a figure as PNG and as SVG; the same figure gives the same bytes."""
    import matplotlib

    png, svg = BytesIO(), StringIO()
    with matplotlib.rc_context(MATPLOTLIB_SETTINGS):
        figure.savefig(png, format="png", dpi=88, pil_kwargs={"optimize": True})
        figure.set_layout_engine("none")  # the layout is final; computing it again would take as long as drawing
        figure.savefig(svg, format="svg", metadata={"Date": None})
    short = re.sub(r"(\d\.\d\d)\d+", r"\1", svg.getvalue())  # a hundredth of a point is fine enough
    short = re.sub(r"\n +", "\n", short)
    paths = [folder / f"{name}.png", folder / f"{name}.svg"]
    atomic.write(paths[0], [png.getvalue()])
    atomic.write(paths[1], [short.encode()])
    return paths
