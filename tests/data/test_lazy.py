"""Data sets larger than memory are read batch by batch, with the same results as from memory."""

import gc
import random

import numpy as np
import pytest
import torch
from torch import nn
from torch.utils.data import Dataset

from crossgrad import CGA, IID, Faults, fit, ring
from crossgrad.data import Batches, CropFlip, LazySamples, Samples, split
from crossgrad.data.pool import Pool

X = torch.randn(60, 4, generator=torch.Generator().manual_seed(0))
y = (X[:, 0] > 0).long()
IMAGES = torch.randn(24, 3, 8, 8, generator=torch.Generator().manual_seed(0))


class Rows(Dataset):
    """The samples above, one by one."""

    def __len__(self):
        return len(X)

    def __getitem__(self, index):
        return X[index].clone(), int(y[index])


class Columns(Dataset):
    """As Hugging Face's data sets: dicts of lists and numbers."""

    def __len__(self):
        return len(X)

    def __getitem__(self, index):
        return {"features": X[index].tolist(), "label": int(y[index])}


class Jittered(Dataset):
    """Draws from all three global generators whenever it is read."""

    targets = [0, 1] * 12

    def __len__(self):
        return 24

    def __getitem__(self, index):
        noise = torch.rand(()) + random.random() + np.random.rand()
        return IMAGES[index] + float(noise), self.targets[index]


def trained(data, **options):
    torch.manual_seed(0)
    result = fit(nn.Linear(4, 2), data, graph=ring(4), steps=12, batch_size=5, lr=0.1, **options)
    return torch.cat([p.flatten() for p in result.model.parameters()])


@pytest.mark.parametrize(
    "source", [Rows(), Columns(), LazySamples(Rows(), workers=2)], ids=["rows", "dicts", "workers"]
)
def test_a_lazy_data_set_trains_to_the_same_bits_as_the_one_in_memory(source):
    assert trained(source).equal(trained((X, y)))


def test_agents_that_are_away_do_not_confuse_the_workers():
    faults = Faults(leave=0.3, away=2)
    lazy = LazySamples(Rows(), workers=2)
    assert trained(lazy, faults=faults, algorithm=CGA(0.5)).equal(trained((X, y), faults=faults, algorithm=CGA(0.5)))


def drawn(pool, batches, step):
    return list(pool.draw([0, 1], np.array([step, step]), batches, 0))


@pytest.mark.parametrize("workers", [0, 2])
def test_random_transforms_of_a_data_set_are_a_function_of_seed_agent_and_batch(workers):
    parts = [LazySamples(Jittered(), workers).take(range(j, 24, 2)) for j in range(2)]
    batches = Batches([12, 12], 4, seed=3)
    first, again = (drawn(Pool.of(parts), batches, 0) for _ in range(2))
    before = torch.get_rng_state(), random.getstate(), np.random.get_state()[1].copy()
    pool = Pool.of(parts)
    later = [drawn(pool, batches, step) for step in (0, 3)]
    assert torch.equal(torch.get_rng_state(), before[0])
    assert random.getstate() == before[1]
    assert np.array_equal(np.random.get_state()[1], before[2])
    for (one, _), (other, _), (same, _), (next_epoch, _) in zip(first, again, *later, strict=True):
        assert one.equal(other)
        assert one.equal(same)
        assert not one.equal(next_epoch)
    assert not first[0][0].equal(first[1][0])


def test_labels_known_to_the_data_set_are_not_read_from_its_items():
    class Unread(Jittered):
        def __getitem__(self, index):
            raise AssertionError("an item was read")

    assert LazySamples(Unread()).labels.tolist() == Jittered.targets
    assert LazySamples(Unread()).take([1, 2]).labels.tolist() == [1, 0]


def test_whole_numbers_stay_whole_and_only_floating_parts_follow_the_dtype():
    inputs = {"tokens": torch.randint(9, (6, 5)), "mask": torch.ones(6, 5, dtype=torch.bool), "x": torch.rand(6, 2)}
    pool = Pool.of([Samples(inputs, (torch.arange(6), torch.rand(6)))], dtype=torch.float64)
    drawn_inputs, labels = next(pool.draw([0], np.array([0]), Batches([6], 3, 0), 0))
    assert [part.dtype for part in drawn_inputs.values()] == [torch.int64, torch.bool, torch.float64]
    assert [part.dtype for part in labels] == [torch.int64, torch.float64]
    rows = labels[0]
    for name, part in drawn_inputs.items():
        assert part.equal(inputs[name][rows].to(part.dtype))


class TwoInputs(nn.Module):
    """Takes its inputs by name or by position."""

    def __init__(self):
        super().__init__()
        self.embedding, self.layer = nn.Embedding(5, 3), nn.Linear(3 + 4, 2)

    def forward(self, tokens, features):
        return self.layer(torch.cat([self.embedding(tokens).mean(1), features], 1))


@pytest.mark.parametrize("as_dict", [True, False])
def test_models_with_several_inputs_are_trained_and_evaluated(as_dict):
    tokens = torch.randint(5, (60, 6), generator=torch.Generator().manual_seed(1))
    inputs = {"tokens": tokens, "features": X} if as_dict else (tokens, X)
    result = fit(TwoInputs(), (inputs, y), graph=ring(3), test=(inputs, y), steps=80, lr=0.3, partition=IID())
    assert result.records[-1].accuracy > 0.85


def test_memory_stays_with_the_batches_and_not_with_the_data():
    class Large(Dataset):
        """40 GB if it were read at once."""

        targets = [0, 1] * 5_000

        def __len__(self):
            return 10_000

        def __getitem__(self, index):
            return torch.full((1000, 1000), float(index)), index % 2

    class Mean(nn.Module):
        def __init__(self):
            super().__init__()
            self.layer = nn.Linear(1, 2)

        def forward(self, x):
            return self.layer(x.mean((1, 2))[:, None] / 1e4)

    result = fit(Mean(), Large(), graph=ring(3), steps=2, batch_size=2, evaluate_every=2, algorithm=CGA(0.0))
    assert result.status == "ok"


class Labelled(Dataset):
    """Items whose labels are read from them; counts the tensors that are alive when the first and the last are read."""

    def __init__(self, labels):
        self.values, self.alive = labels, []

    def __len__(self):
        return len(self.values)

    def __getitem__(self, index):
        if index in (0, len(self) - 1):
            self.alive.append(sum(type(thing) is torch.Tensor for thing in gc.get_objects()))
        return torch.zeros(3), self.values[index]


def test_labels_were_kept_one_by_one_between_large_items_so_that_the_heap_grew_with_the_data():
    source = Labelled([float(number) for number in range(300)])
    assert torch.equal(LazySamples(source).labels, torch.arange(300.0))
    assert source.alive[-1] < source.alive[0] + 30


def test_labels_of_different_shapes_gave_a_traceback():
    with pytest.raises(ValueError, match=r"the label of item 2 is .* \(2,\) and that of item 0 is .* \(1,\). Resize"):
        _ = LazySamples(Labelled([torch.zeros(1), torch.zeros(1), torch.zeros(2)])).labels


def test_data_read_when_needed_keeps_64_mb_for_the_loss_of_all_agents_and_not_of_each():
    class Large(Dataset):
        targets = [0, 1] * 100

        def __len__(self):
            return 200

        def __getitem__(self, index):
            return torch.zeros(1_000_000), index % 2

    agents = split(LazySamples(Large()), IID()(torch.zeros(200).long().numpy(), 4, 0))
    assert [own.at_once(4) for own in agents] == [4] * 4  # 16 MB each


def test_crop_flip_moves_and_mirrors_but_keeps_pixels():
    images = torch.arange(1.0, 1 + 200 * 16).reshape(200, 1, 4, 4)
    out = CropFlip(padding=1)(images, torch.Generator().manual_seed(0))
    assert out.shape == images.shape
    mirrored = 0
    for before, after in zip(images[:, 0], out[:, 0], strict=True):
        inside = torch.nn.functional.pad(before, (1, 1, 1, 1))
        crops = [inside[t : t + 4, l : l + 4] for t in range(3) for l in range(3)]
        plain = any(after.equal(crop) for crop in crops)
        mirrored += not plain
        assert plain or any(after.equal(crop.flip(1)) for crop in crops)
    assert 60 < mirrored < 140


def test_crop_flip_keeps_the_channels_where_they_lie():
    for images in (IMAGES, IMAGES.contiguous(memory_format=torch.channels_last)):
        out = CropFlip()(images, torch.Generator().manual_seed(0))
        assert out.stride(1) == images.stride(1)
        assert out.equal(CropFlip()(IMAGES, torch.Generator().manual_seed(0)))
    with pytest.raises(ValueError, match="needs images"):
        CropFlip()(X, torch.Generator())


def test_augmentation_is_drawn_anew_for_every_batch_and_never_at_an_evaluation():
    seen = []

    def note(inputs, generator):
        seen.append(float(torch.rand((), generator=generator)))
        return inputs

    trained((X, y), augment=note)
    trial, first = seen[:2], seen[2:]  # before the run, from two equal generators
    assert trial[0] == trial[1]
    assert len(first) == len(set(first)) == 12 * 4
    seen.clear()
    trained((X, y), augment=note)
    assert seen == trial + first
    assert trained((X, y), augment=note).equal(trained((X, y)))


class WithColumns(Columns):
    """As Hugging Face's data sets: columns by name too, and a count of the items that were read."""

    reads = 0

    @property
    def column_names(self):
        return ["features", "label"]

    def __getitem__(self, index):
        if index == "label":
            return y.tolist()
        WithColumns.reads += 1
        return super().__getitem__(index)


def test_every_item_was_read_to_learn_the_labels_of_a_data_set_with_a_column_of_them():
    assert torch.equal(LazySamples(WithColumns()).take([3, 1]).labels, y[[3, 1]])
    assert WithColumns.reads == 0
