"""A partition gives every sample to exactly one agent, and every agent some."""

import numpy as np
import pytest

from crossgrad.data import Partition
from crossgrad.data.table import as_table


def parts(*indices):
    return tuple(np.array(held, np.int64) for held in indices)


@pytest.mark.parametrize(
    ("indices", "sentence"),
    [
        ((), "at least one agent"),
        (parts([0, 1], [], [2], []), "found none for 2 of 4 agents, the first of them agent 1"),
        (parts([0, 1], [1, 2]), "found sample 1 more than once"),
        (parts([0, 1], [3]), "without 2"),
        (parts([1], [2]), "without 0"),
        (parts([-1, 0], [1]), "without 0"),
    ],
)
def test_a_partition_that_is_none_is_refused(indices, sentence):
    with pytest.raises(ValueError, match=sentence):
        Partition(indices)


def test_its_indices_cannot_be_changed():
    held = np.array([0, 1])
    partition = Partition((held,))
    held[0] = 7
    assert partition.indices[0].tolist() == [0, 1]
    with pytest.raises(ValueError, match="read-only"):
        partition.indices[0][0] = 7


def test_counts_say_who_holds_how_much_of_which_class():
    partition = Partition(parts([0, 3], [1, 2, 4]))
    labels = np.array([0, 1, 1, 2, 0])
    assert partition.counts(labels).tolist() == [[1, 0, 1], [1, 2, 0]]
    assert partition.counts(labels, 4).tolist() == [[1, 0, 1, 0], [1, 2, 0, 0]]


def test_labels_of_other_samples_are_refused():
    with pytest.raises(ValueError, match="partition's 2 samples; found 3 labels"):
        Partition(parts([0, 1])).counts(np.zeros(3, np.int64))


def test_a_table_of_forty_agents_is_forty_aligned_lines():
    lines = as_table(np.random.default_rng(0).integers(0, 200, (40, 10))).splitlines()
    assert len(lines) == 42
    assert len({len(line) for line in lines}) == 1
    assert len(lines[0]) < 80


def test_a_table_of_many_classes_lists_the_largest():
    counts = np.zeros((2, 100), np.int64)
    counts[0, [17, 3]] = 5, 8
    counts[1, :] = 1
    lines = as_table(counts).splitlines()
    assert lines[1].endswith("3 (8), 17 (5)")
    assert lines[2].endswith("and 94 more")
    assert max(map(len, lines)) < 80


def test_the_table_method_is_the_table_of_the_counts():
    partition, labels = Partition(parts([0], [1])), np.array([1, 0])
    assert partition.table(labels, 3) == as_table(partition.counts(labels, 3))
