"""Agents hold what the partition says, or what the user gives them."""

import numpy as np
import pytest
import torch
from torch.utils.data import TensorDataset

from crossgrad.data import IID, Partition, Samples, given, split

X, y = torch.arange(24.0).reshape(8, 3), torch.tensor([0, 1, 2, 3] * 2)


def test_split_hands_out_every_sample_with_its_label():
    samples = Samples.of((X, y), classes=5)
    agents = split(samples, IID()(samples.class_labels(), 3, 0))
    assert {own.classes for own in agents} == {5}
    rows = sorted((x.tolist(), int(label)) for own in agents for x, label in zip(own.inputs, own.labels, strict=True))
    assert rows == [(x.tolist(), int(label)) for x, label in zip(X, y, strict=True)]


def test_a_partition_of_other_samples_is_refused():
    with pytest.raises(ValueError, match="is of 2 samples, but there are 8"):
        split(Samples.of((X, y)), Partition((np.array([0, 1]),)))


def test_given_data_sets_know_the_classes_of_all():
    agents = given([(X[:2], y[:2]), TensorDataset(X[2:4], y[2:4]), Samples.of((X, y))])
    assert [len(own) for own in agents] == [2, 2, 8]
    assert {own.classes for own in agents} == {4}
    assert {own.classes for own in given([(X, y)], classes=10)} == {10}


def test_given_targets_of_regression_have_no_classes():
    assert [own.classes for own in given([(X, y.float()), (X, y.float())])] == [None, None]


@pytest.mark.parametrize(
    ("sources", "sentence"),
    [
        ([], "the list of data sets is empty"),
        ([(X, y), (X[:0], y[:0])], "Agent 1: At least one sample is needed"),
        ([(X, y), []], "Agent 1: At least one sample is needed"),
        ([(X, y), (X / 0, y)], "Agent 1: All inputs should be finite"),
        ([(X, y), (X[:, :2], y)], r"agent 1 has inputs torch.float32 of shape \(2,\)"),
        ([(X, y), (X.double(), y)], "agent 1 has inputs torch.float64"),
        ([(X, y), (X, y.float())], "with regression labels and agent 0 .* with class labels"),
    ],
)
def test_the_agent_whose_data_is_wrong_is_named(sources, sentence):
    with pytest.raises(ValueError, match=sentence):
        given(sources)
