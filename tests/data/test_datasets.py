"""Known data sets come normalised, as float32 (n, channels, height, width), with the published sizes."""

import gzip
import shutil
from pathlib import Path

import numpy as np
import pytest
import torch

from crossgrad.data import DATASETS, DataFileError, load

DEBIAN = Path("/usr/share/datasets/fashion-mnist")


def check(name, split, sizes, tolerance):
    info = DATASETS[name]
    assert (len(split.train), len(split.test)) == sizes
    for part in (split.train, split.test):
        assert part.shape == info.shape
        assert int(part.labels.max()) + 1 == info.classes
        assert part.inputs.dtype == torch.float32
    std, mean = torch.std_mean(split.train.inputs, (0, 2, 3))
    assert mean.abs().max() < tolerance
    assert (std - 1).abs().max() < tolerance


def test_digits_are_split_the_same_for_everybody():
    digits = load("digits")
    assert (len(digits.train), len(digits.test), digits.train.shape) == (1437, 360, (1, 8, 8))
    assert (float(digits.train.inputs.min()), float(digits.train.inputs.max())) == (0.0, 1.0)
    assert digits.test.labels[:8].tolist() == load("digits").test.labels[:8].tolist()
    assert digits.train.labels.bincount().tolist() == [142, 146, 141, 147, 144, 146, 145, 143, 139, 144]
    assert digits.test.labels.bincount().tolist() == [36, 36, 36, 36, 37, 36, 36, 36, 35, 36]


def test_digits_lose_no_sample():
    from sklearn.datasets import load_digits

    digits = load("digits")
    both = torch.cat([digits.train.inputs, digits.test.inputs]).flatten(1).double()
    ours = (both * 16).round().long().numpy()
    assert sorted(map(tuple, ours)) == sorted(map(tuple, load_digits().data.astype(int)))


def test_mnist_as_published(real_data):
    mnist = load("mnist")
    check("mnist", mnist, (60_000, 10_000), 1e-3)
    assert mnist.train.labels.bincount().tolist() == [5923, 6742, 5958, 6131, 5842, 5421, 5918, 6265, 5851, 5949]
    assert mnist.test.labels[:5].tolist() == [7, 2, 1, 0, 4]


def test_fashion_mnist_as_debian_packs_it():
    if not DEBIAN.exists():
        pytest.skip("Debian's package dataset-fashion-mnist is not installed")
    fashion = load("fashion-mnist", DEBIAN)
    check("fashion-mnist", fashion, (60_000, 10_000), 1e-3)
    assert fashion.train.labels.bincount().tolist() == [6000] * 10
    assert load("fashion-mnist", DEBIAN.parent).test.labels.equal(fashion.test.labels)
    with pytest.raises(DataFileError, match="must hold mnist; found the files of fashion-mnist"):
        load("mnist", DEBIAN)


def test_mnist_is_not_taken_for_fashion_mnist(real_data, tmp_path):
    for file in (real_data / "mnist").iterdir():
        shutil.copy(file, tmp_path)
    with pytest.raises(DataFileError, match="found the files of mnist"):
        load("fashion-mnist", tmp_path)


@pytest.mark.slow
def test_cifar10_as_published(real_data):
    cifar = load("cifar10")
    check("cifar10", cifar, (50_000, 10_000), 2e-3)
    assert cifar.train.labels.bincount().tolist() == [5000] * 10
    assert cifar.test.labels.bincount().tolist() == [1000] * 10
    assert cifar.train.labels[:5].tolist() == [6, 9, 9, 4, 1]


def test_pixels_are_scaled_then_normalised(tmp_path, fake_mnist):
    samples = load("mnist", fake_mnist(tmp_path)).train
    pixels = np.random.default_rng(0).integers(0, 256, (20, 28, 28))
    expected = torch.from_numpy((pixels / 255 - 0.1307) / 0.3081)[:, None]
    torch.testing.assert_close(samples.inputs.double(), expected, atol=1e-6, rtol=0)


@pytest.mark.parametrize("spelling", ["{}-idx{}-ubyte", "{}.idx{}-ubyte"])
def test_unpacked_files_are_found_under_either_spelling(tmp_path, fake_mnist, spelling):
    packed = fake_mnist(tmp_path / "packed")
    for name, rank in (("train-images", 3), ("train-labels", 1), ("t10k-images", 3), ("t10k-labels", 1)):
        data = gzip.decompress((packed / f"{name}-idx{rank}-ubyte.gz").read_bytes())
        (tmp_path / spelling.format(name, rank)).write_bytes(data)
    assert load("mnist", tmp_path).train.inputs.equal(load("mnist", packed).train.inputs)


@pytest.mark.parametrize(
    ("name", "array", "sentence"),
    [
        ("train-images-idx3", np.zeros((20, 28, 27)), "must hold images of 28x28 bytes.*27"),
        ("train-labels-idx1", np.zeros((20, 1)), "must hold labels, single bytes"),
        ("train-labels-idx1", np.zeros(19), "for each of 20 images; it holds 19 labels"),
        ("t10k-labels-idx1", np.full(10, 10), "labels up to 10"),
    ],
)
def test_files_that_do_not_fit_together_are_refused(tmp_path, fake_mnist, idx, name, array, sentence):
    fake_mnist(tmp_path)
    (tmp_path / f"{name}-ubyte.gz").write_bytes(idx(array))
    with pytest.raises(DataFileError, match=sentence):
        load("mnist", tmp_path)


def test_shrunk_images_are_the_means_of_their_squares(tmp_path, fake_mnist):
    folder = fake_mnist(tmp_path)
    whole, half = load("mnist", folder), load("mnist", folder, shrink=2)
    for large, small in ((whole.train, half.train), (whole.test, half.test)):
        squares = large.inputs.reshape(-1, 1, 14, 2, 14, 2)
        torch.testing.assert_close(small.inputs, squares.mean((3, 5)))
        assert small.labels.equal(large.labels)


@pytest.mark.parametrize("shrink", [0, -1, 3])
def test_images_are_shrunk_into_whole_squares_only(shrink):
    with pytest.raises(ValueError, match=rf"shrink must divide the sides of digits's images, 8x8; found {shrink}"):
        load("digits", shrink=shrink)


def test_an_unknown_data_set_is_met_with_a_guess():
    with pytest.raises(ValueError, match="did you mean cifar10"):
        load("cifar-10")


def test_every_data_set_says_what_it_is_in_one_line():
    for info in DATASETS.values():
        assert info.description
        assert "\n" not in info.description
        assert len(info.mean) == len(info.std) == info.shape[0]
