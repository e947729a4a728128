"""Samples are checked where they are made, whatever they are made from."""

import numpy as np
import pytest
import torch
from torch.utils.data import DataLoader, Dataset, IterableDataset, Subset, TensorDataset

from crossgrad.data import Samples, Split

X, y = torch.arange(12.0).reshape(4, 3), torch.tensor([0, 2, 1, 2])


class Stream(IterableDataset):
    """A stream without a sample."""

    def __iter__(self):
        return iter([])


class Growing(Dataset):
    """Items whose shape grows."""

    def __len__(self):
        return 3

    def __getitem__(self, index):
        return torch.zeros(1 + index), index


class Noisy(Dataset):
    """Random augmentation; counts how often it is read."""

    def __init__(self):
        self.reads = 0

    def __len__(self):
        return 4

    def __getitem__(self, index):
        self.reads += 1
        return np.random.default_rng().normal(size=2), index % 2


@pytest.mark.parametrize(
    "source",
    [
        (X, y),
        [X, y],
        (X.numpy(), y.numpy()),
        (X, y.to(torch.uint8)),
        (X.numpy().astype(">f4"), y.numpy().astype(">i2")),
        TensorDataset(X, y),
        Subset(TensorDataset(torch.cat([X, X]), torch.cat([y, y])), range(4)),
        [(row, int(label)) for row, label in zip(X, y, strict=True)],
        [(row.numpy(), np.int64(label)) for row, label in zip(X, y, strict=True)],
        Samples(X, y),
    ],
    ids=["tensors", "list", "arrays", "bytes", "byteorder", "dataset", "subset", "items", "array items", "samples"],
)
def test_every_kind_of_source_gives_the_same_samples(source):
    samples = Samples.of(source)
    assert samples.inputs.equal(X)
    assert samples.labels.equal(y)
    assert samples.labels.dtype == torch.int64
    assert (samples.shape, len(samples)) == ((3,), 4)


def test_float64_arrays_stay_float64():
    assert Samples.of((X.double().numpy(), y)).inputs.dtype == torch.float64


def test_read_only_and_reversed_arrays_are_copied():
    array = X.numpy().copy()[::-1]
    array.setflags(write=False)
    assert Samples.of((array, y)).inputs.equal(X.flip(0))


def test_a_dataset_is_read_when_it_is_needed_and_not_before():
    dataset = Noisy()
    samples = Samples.of(dataset)
    assert dataset.reads == 2  # to see what it is
    samples.rows(torch.tensor([1]))
    assert dataset.reads == 3


def test_take_keeps_order():
    taken = Samples(X, y).take(np.array([3, 0]))
    assert taken.inputs.equal(X[[3, 0]])
    assert taken.labels.tolist() == [2, 0]


def test_take_accepts_tensors_and_lists():
    assert Samples(X, y).take(torch.tensor([1])).labels.tolist() == [2]
    assert Samples(X, y).take([1]).labels.tolist() == [2]


def nan_at(*places):
    broken = X.clone()
    for place in places:
        broken[place] = float("nan")
    return broken


@pytest.mark.parametrize(
    ("source", "sentence"),
    [
        ((X, y[:3]), r"found inputs of shape \(4, 3\) and labels of shape \(3,\)"),
        ((X[:0], y[:0]), "there must be at least one sample"),
        ((torch.zeros(4, 0), y), "there must be at least one sample"),
        ((torch.zeros(4, 1), torch.zeros(4, 0)), "there must be at least one sample"),
        ({0: (X, y), 1: (X, y)}, r"found a dict. For one data set per agent, pass list\(data.values\(\)\)"),
        (({"a": X, "b": X[:3]}, y), "Give both the same first dimension"),
        (({"a": X, "b": (X / 0,)}, y), "all inputs must be finite"),
        (
            (nan_at((1, 0), (1, 2), (3, 0)), y),
            "found 3 NaN or infinite numbers, in 2 samples, the first of them sample 1",
        ),
        ((X / 0, y), "NaN or infinite"),
        ((X, torch.tensor([0.0, 1, float("inf"), 2])), "all labels must be finite.*sample 2"),
        ((X.numpy(), np.array(["a", "b", "c", "d"])), "an array of <U1 as y of"),
        ((X, y, y), "found a tuple of 3"),
        ("mnist", "each item"),
        (7, "found a int"),
        ([], "found none"),
        (Growing(), r"input of item 1 is torch.float32 \(2,\) and that of item 0"),
        ([(X[0], 1), X[1:]], "found a Tensor as item 1"),
        ([(object(), 1)], "found a object as the input of item 0. Convert"),
        (DataLoader(TensorDataset(X, y)), "pass its .dataset"),
        (Stream(), "a stream must have at least one sample"),
    ],
)
def test_what_is_wrong_is_said_in_one_sentence(source, sentence):
    with pytest.raises(ValueError, match=sentence):
        Samples.of(source)


def test_training_and_test_part_must_be_alike():
    Split(Samples(X, y), Samples(X[:1], y[:1]))
    with pytest.raises(ValueError, match=r"inputs \(3,\) and \(2,\)"):
        Split(Samples(X, y), Samples(X[:, :2], y))
    with pytest.raises(ValueError, match=r"labels \(\) and \(2,\)"):
        Split(Samples(X, y), Samples(X, torch.rand(4, 2)))
