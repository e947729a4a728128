"""Agents hold what the partition says, or what the user gives them."""

import numpy as np
import pytest
import torch
from torch.utils.data import TensorDataset

from crossgrad.data import IID, Partition, Samples, given, split

X, y = torch.arange(24.0).reshape(8, 3), torch.tensor([0, 1, 2, 3] * 2)


def test_split_hands_out_every_sample_with_its_label():
    samples = Samples.of((X, y))
    agents = split(samples, IID()(y.numpy(), 3, 0))
    rows = sorted((x.tolist(), int(label)) for own in agents for x, label in zip(own.inputs, own.labels, strict=True))
    assert rows == [(x.tolist(), int(label)) for x, label in zip(X, y, strict=True)]


def test_a_partition_of_other_samples_is_refused():
    with pytest.raises(ValueError, match="of the 8 samples that there are; found one of 2"):
        split(Samples.of((X, y)), Partition((np.array([0, 1]),)))


def test_every_kind_of_source_can_be_given_to_an_agent():
    agents = given([(X[:2], y[:2]), TensorDataset(X[2:4], y[2:4]), Samples.of((X, y))])
    assert [len(own) for own in agents] == [2, 2, 8]


@pytest.mark.parametrize(
    ("sources", "sentence"),
    [
        ([], "one for each agent; found none"),
        ([(X, y), (X[:0], y[:0])], "agent 1: there must be at least one sample"),
        ([(X, y), []], "agent 1: a data set must have at least one sample"),
        ([(X, y), (X / 0, y)], "agent 1: all inputs must be finite"),
        ([(X, y), (X[:, :2], y)], r"found inputs torch.float32 of shape \(2,\) .* at agent 1"),
        ([(X, y), (X.double(), y)], "found inputs torch.float64 .* at agent 1"),
        ([(X, y), (X, y.float())], r"labels torch.float32 of shape \(\) at agent 1 and .* labels torch.int64"),
    ],
)
def test_the_agent_whose_data_is_wrong_is_named(sources, sentence):
    with pytest.raises(ValueError, match=sentence):
        given(sources)
