"""The picture of a partition shows each agent's counts, and leaves no trace in matplotlib."""

import re
import sys

import numpy as np
import pytest
from matplotlib.figure import Figure

from crossgrad.data import draw_partition
from crossgrad.data.picture import CLASS_COLOURS

COUNTS = np.random.default_rng(0).integers(0, 50, (5, 10))


def test_bars_are_as_long_as_the_counts():
    axes = draw_partition(COUNTS, Figure().subplots())
    lengths = np.array([[bar.get_width() for bar in container] for container in axes.containers]).T
    np.testing.assert_array_equal(lengths, COUNTS)
    starts = np.array([[bar.get_x() for bar in container] for container in axes.containers]).T
    np.testing.assert_array_equal(starts, COUNTS.cumsum(1) - COUNTS)


BAR = re.compile(r'<path d="M ([\d.]+) ([\d.]+) \nL ([\d.]+) [^"]*"[^>]*style="fill: (#[0-9a-f]{6})')


@pytest.mark.parametrize("agents", [1, 5, 40])
def test_the_written_picture_has_a_labelled_bar_for_every_agent(tmp_path, agents):
    """Read back from the SVG: the bars of a class have its colour, and every agent's are in one row, in proportion."""
    path = tmp_path / "partition.svg"
    counts = np.random.default_rng(agents).integers(1, 50, (agents, 10))
    draw_partition(counts, path)
    bars = {colour.lower(): [] for colour in CLASS_COLOURS}
    for left, top, right, colour in BAR.findall(path.read_text()):
        bars.get(colour, []).append((float(top), float(right) - float(left)))
    drawn = np.array([[bars[colour.lower()][agent] for colour in CLASS_COLOURS] for agent in range(agents)])
    tops, widths = drawn[..., 0], drawn[..., 1]
    np.testing.assert_allclose(tops, tops[:, :1].repeat(10, axis=1))
    assert len(np.unique(tops[:, 0])) == agents
    np.testing.assert_allclose(widths / widths.sum(), counts / counts.sum(), rtol=1e-4)
    labels = re.findall(r'<g id="ytick_\d+">.*?<!-- (\d+) -->', path.read_text(), re.DOTALL)
    assert labels == [str(agent) for agent in range(agents)]


def test_a_png_shows_the_colours_of_all_classes(tmp_path):
    from matplotlib.image import imread

    draw_partition(np.eye(10, dtype=np.int64) * 100, tmp_path / "a.png")
    pixels = (255 * imread(tmp_path / "a.png")[..., :3]).astype(int).reshape(-1, 3)
    colours, amounts = np.unique(pixels, axis=0, return_counts=True)
    vivid = colours[(colours.max(1) - colours.min(1) > 25) & (amounts > 500)]
    assert len(vivid) >= 9  # one of the ten may be grey


def test_many_classes_need_no_legend(tmp_path):
    assert draw_partition(np.ones((3, 100), np.int64), tmp_path / "a.png").get_legend() is None
    assert draw_partition(COUNTS, str(tmp_path / "b.png")).get_legend() is not None


def test_pyplot_is_not_used(tmp_path):
    before = "matplotlib.pyplot" in sys.modules
    draw_partition(COUNTS, tmp_path / "a.png")
    assert ("matplotlib.pyplot" in sys.modules) == before
