"""The picture of a partition shows each agent's counts, and leaves no trace in matplotlib."""

import sys

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


@pytest.mark.parametrize(("agents", "end"), [(1, "png"), (5, "svg"), (40, "png")])
def test_a_file_is_written(tmp_path, agents, end):
    path = tmp_path / f"partition.{end}"
    draw_partition(np.ones((agents, 10), np.int64), path)
    assert path.stat().st_size > 1000


def test_many_classes_need_no_legend(tmp_path):
    assert draw_partition(np.ones((3, 100), np.int64), tmp_path / "a.png").get_legend() is None
    assert draw_partition(COUNTS, str(tmp_path / "b.png")).get_legend() is not None


def test_pyplot_is_not_used(tmp_path):
    before = "matplotlib.pyplot" in sys.modules
    draw_partition(COUNTS, tmp_path / "a.png")
    assert ("matplotlib.pyplot" in sys.modules) == before
