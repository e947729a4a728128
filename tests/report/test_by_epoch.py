"""Curves by epoch show the records' accuracies in percent, and reported numbers as lines across."""

import matplotlib.figure
import pytest

from crossgrad._report import by_epoch, style
from crossgrad._report.by_epoch import Panel, draw_by_epoch
from crossgrad._report.seed_groups import group_by_seed
from crossgrad._runs.results import RunResult
from crossgrad.records import Record


@pytest.fixture
def cells():
    """A run of CGA on a ring of two agents, right on 10, 50 and 90 %."""
    records = tuple(
        Record(94 * k, float(k), 0.01, None, 1.0, 1.0, share, (0.1, share), 0.0, 0, {}, (0, 0), 0, 0.0)
        for k, share in enumerate((0.1, 0.5, 0.9))
    )
    labels = {"method": "CGA", "variant": "paper", "graph": "ring", "split": "non-IID"}
    return group_by_seed([RunResult("cell", labels, {}, records, None, {})])


def test_a_panel_has_the_accuracies_and_a_line_at_the_reported_number(cells):
    axes = matplotlib.figure.Figure().subplots()
    by_epoch._draw_panel(axes, Panel("ring", cells, {"CGA (paper)": 98.5}), style.method_styles(c.key for c in cells))
    curve, reported, _ = axes.get_lines()
    assert curve.get_xdata().tolist() == [0.0, 1.0, 2.0]
    assert curve.get_ydata().tolist() == pytest.approx([10.0, 50.0, 90.0])
    assert set(reported.get_ydata()) == {98.5}
    assert reported.get_color() == curve.get_color()


def test_the_picture_is_written_with_one_legend_and_without_panels_that_have_no_runs(cells, tmp_path):
    grid = {
        "large": [Panel("ring", cells, {}), Panel("star", [], {})],
        "small": [Panel("a", [], {}), Panel("b", [], {})],
    }
    paths = draw_by_epoch(grid, "Title", tmp_path, "curves")
    assert [path.name for path in paths] == ["curves.png", "curves.svg"]
    text = paths[1].read_text()
    assert ">ring<" in text
    assert ">star<" not in text
    assert text.count("CGA (paper)") == text.count(by_epoch.REPORTED) == 1
