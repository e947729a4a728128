"""The picture of a partition shows each agent's counts, and leaves no trace in matplotlib."""

import sys
from xml.etree import ElementTree

import numpy as np
import pytest
from matplotlib.figure import Figure

from crossgrad.data import draw_partition

COUNTS = np.random.default_rng(0).integers(0, 50, (5, 10))


def test_bars_are_as_long_as_the_counts():
    axes = draw_partition(COUNTS, Figure().subplots())
    lengths = np.array([[bar.get_width() for bar in container] for container in axes.containers]).T
    np.testing.assert_array_equal(lengths, COUNTS)
    starts = np.array([[bar.get_x() for bar in container] for container in axes.containers]).T
    np.testing.assert_array_equal(starts, COUNTS.cumsum(1) - COUNTS)


@pytest.mark.parametrize("agents", [1, 5, 40])
def test_the_written_picture_has_a_labelled_bar_for_every_agent(tmp_path, agents):
    """Read back from the SVG, whose text is text: every agent's number, and a coloured path for each count."""
    path = tmp_path / "partition.svg"
    counts = np.arange(1, 1 + agents * 10).reshape(agents, 10)
    draw_partition(counts, path)
    drawn = ElementTree.parse(path).iter("{http://www.w3.org/2000/svg}g")
    bars = [part for part in drawn if (part.get("id") or "").startswith("patch_")]
    assert len(bars) >= counts.size
    assert len(path.read_bytes()) > 200 * counts.size


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
