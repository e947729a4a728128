"""Test accuracy by epoch, with reported numbers as horizontal lines."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from crossgrad._report import panels, style
from crossgrad._report.seed_groups import SeedGroup
from crossgrad._report.series import epoch
from crossgrad.records import Record

REPORTED = "reported by the paper"


@dataclass(frozen=True)
class Panel:
    """One part of the picture: its runs, and the number reported for each method and variant, by name."""

    title: str
    cells: Sequence[SeedGroup]
    reported: Mapping[str, float]  # percent


def draw_by_epoch(grid: Mapping[str, Sequence[Panel]], title: str, folder: Path, name: str) -> list[Path]:
    """Draw labelled rows of panels: the averaged model's accuracy in percent, as PNG and SVG.

    A method's reported number is a dotted line in its colour. A panel without runs stays blank.
    """
    import matplotlib
    from matplotlib.figure import Figure

    with matplotlib.rc_context(style.MATPLOTLIB_SETTINGS):
        columns = max(map(len, grid.values()))
        figure = Figure(figsize=(3.4 * columns + 1.9, 3.0 * len(grid) + 0.7), layout="constrained")
        styles = style.method_styles(cell.key for row in grid.values() for panel in row for cell in panel.cells)
        handles: dict[str, Any] = {}
        for row, (label, line) in zip(figure.subplots(len(grid), columns, squeeze=False), grid.items(), strict=True):
            for axes, panel in zip(row, line, strict=True):
                axes.set_visible(bool(panel.cells))
                axes.set_ylabel(f"{label}\ntest accuracy, %")
                _draw_panel(axes, panel, styles)
                for handle, method in zip(*axes.get_legend_handles_labels(), strict=True):
                    handles.setdefault(method, handle)
        if panels.DIVERGED_NOTE in handles:
            del handles[panels.DIVERGED_NOTE]  # it has some method's colour and stands between the others
            handles[panels.DIVERGED_NOTE] = panels.grey_cross()
        figure.legend(handles.values(), handles, loc="outside right center")
        figure.suptitle(title, fontsize=11)
    return style.save(figure, folder, name)


def _draw_panel(axes: Any, panel: Panel, styles: Mapping[str, style.Style]) -> None:
    groups = {cell.key.name: cell.runs for cell in panel.cells}
    panels.draw_curves(axes, groups, styles, epoch, _accuracy_percent)
    for method, number in panel.reported.items():
        axes.axhline(number, color=styles[method].colour, linestyle=":", linewidth=1.1, zorder=0)
    axes.plot([], [], color="0.3", linestyle=":", linewidth=1.1, label=REPORTED)
    axes.set(title=panel.title, xlabel="epochs of the local data", ylim=(0, 102))
    axes.set_xlim(left=0)


def _accuracy_percent(record: Record) -> float | None:
    return None if record.accuracy is None else 100 * record.accuracy
