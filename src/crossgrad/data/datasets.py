"""The data sets that are known by name, read and normalised."""

import hashlib
import importlib.util
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch.nn.functional import avg_pool2d

from crossgrad._registry.entries import as_class_or_function
from crossgrad._registry.registry import Registry
from crossgrad.data.files.cifar import read_cifar10
from crossgrad.data.files.folders import MNIST_FILES, find, unknown
from crossgrad.data.files.idx import read_idx
from crossgrad.data.files.streams import DataFileError
from crossgrad.data.types import Samples, Split


@dataclass(frozen=True)
class DatasetInfo:
    """What a data set is; pixels scaled to 0..1 are normalised by the published `mean` and `std` per channel.

    Args:
        description: what it is, in one line.
        shape: channels, height, width.
        classes: how many classes there are.
        mean: mean of each channel, which is subtracted.
        std: standard deviation of each channel, by which it is divided.
    """

    description: str
    shape: tuple[int, int, int]  # channels, height, width
    classes: int
    mean: tuple[float, ...]
    std: tuple[float, ...]


_BUILT_IN = {
    # Digits has no published mean and deviation: its pixels of 0..16 are only scaled to 0..1.
    "digits": DatasetInfo(
        "1,797 handwritten digits of 8x8 pixels, part of scikit-learn", (1, 8, 8), 10, (0.0,), (1.0,)
    ),
    "mnist": DatasetInfo("70,000 handwritten digits of 28x28 pixels", (1, 28, 28), 10, (0.1307,), (0.3081,)),
    "fashion-mnist": DatasetInfo("70,000 pieces of clothing of 28x28 pixels", (1, 28, 28), 10, (0.2860,), (0.3530,)),
    "cifar10": DatasetInfo(
        "60,000 colour photographs of 32x32 pixels: animals and vehicles",
        (3, 32, 32),
        10,
        (0.4914, 0.4822, 0.4465),
        (0.2470, 0.2435, 0.2616),
    ),
}


def as_split(returned: Any) -> Split:
    """What a data set of one's own returns: a Split, or training and test data, each (X, y) or a Dataset."""
    if isinstance(returned, Split):
        return returned
    if not isinstance(returned, tuple) or len(returned) != 2:
        raise ValueError(
            f"a data set must return training and test data, such as (X, y), (X, y); found {returned!r:.60}."
        )
    return Split(*(Samples.of(part) for part in returned))


DATASETS: Registry[Any] = Registry(  # DatasetInfo of those built in, a class with `load(root)` of others
    "data", _BUILT_IN, lambda name, thing: as_class_or_function("data", name, thing, "load", ("root",), as_split)
)

MAX_MNIST_BYTES = 1 << 26  # of one of its files, unpacked; as float32 they take four times as much

# MNIST and Fashion-MNIST differ in nothing but their content: md5 of the 10,000 test labels.
TEST_LABELS = {
    "073c3904dfbd3e141ff8aa01cfde6b15": "mnist",
    "8dea97a4e78c1bd1b5a6e8efbb870b6e": "fashion-mnist",
}


def load(name: str, root: str | Path | None = None, shrink: int | None = None, **options: Any) -> Split:
    """Load digits, mnist, fashion-mnist or cifar10: normalised float32 inputs (n, channels, height, width).

    Files are looked for in `root`, in $CROSSGRAD_DATA and in the user's cache; `fetch` downloads them there.
    The split into training and test data does not depend on the seed of an experiment. With `shrink`, every square of
    shrink x shrink pixels becomes one pixel, their mean.

    Args:
        name: digits, mnist, fashion-mnist, cifar10 or one that a plug-in has registered.
        root: the folder to look in first.
        shrink: replace every square of `shrink` x `shrink` pixels by its mean; None: keep images as they are.
        options: options of a registered data set.

    >>> digits = load("digits")
    >>> len(digits.train), len(digits.test), digits.train.shape
    (1437, 360, (1, 8, 8))
    >>> load("digits", shrink=2).train.shape
    (1, 4, 4)
    """
    if name not in DATASETS:
        raise ValueError(unknown(name, sorted(DATASETS.names())))
    info = DATASETS[name]
    if not isinstance(info, DatasetInfo):
        return load_own(name, info(**options), root, shrink)
    if options:
        raise ValueError(f"the data set {name} takes no options; found {', '.join(options)}. Leave them out.")
    if shrink is not None and (shrink < 1 or any(side % shrink for side in info.shape[1:])):
        raise ValueError(
            f"shrink must divide the sides of {name}'s images, {info.shape[1]}x{info.shape[2]}; found {shrink}. Use 2."
        )
    if name == "digits":
        parts, brightest = _digits_arrays(), 16
    elif name == "cifar10":
        parts, brightest = read_cifar10(find(name, root)), 255
    else:
        parts, brightest = _mnist(name, find(name, root)), 255
    train, test = (_normalised(info, *part, brightest) for part in parts)
    return Split(train, test) if shrink is None else Split(_shrunk(train, shrink), _shrunk(test, shrink))


def load_own(name: str, source: Any, root: str | Path | None, shrink: int | None) -> Split:
    """Load a registered data set, whose options are chosen."""
    data: Split = source.load(root)
    if shrink is None:
        return data
    shape = data.train.shape
    if not isinstance(shape, tuple) or len(shape) != 3 or shrink < 1 or any(side % shrink for side in shape[1:]):
        raise ValueError(f"shrink must divide the sides of images; {name} has samples of shape {shape}. Leave it out.")
    return Split(_shrunk(data.train, shrink), _shrunk(data.test, shrink))


def _normalised(info: DatasetInfo, pixels: NDArray[Any], labels: NDArray[Any], brightest: int) -> Samples:
    whole = torch.from_numpy(np.require(pixels, requirements=["C", "W"]))  # torch converts four times as fast as numpy
    inputs = whole.reshape(-1, *info.shape).to(torch.float32, copy=True).div_(brightest)
    mean, std = (torch.tensor(values).view(-1, 1, 1) for values in (info.mean, info.std))
    return Samples(inputs.sub_(mean).div_(std), torch.from_numpy(labels.astype(np.int64)))


def _shrunk(samples: Samples, side: int) -> Samples:
    return Samples(avg_pool2d(samples.inputs, side), samples.labels)


def _digits_arrays() -> tuple[tuple[NDArray[Any], NDArray[Any]], ...]:
    """Every fifth sample, counted class by class, is for testing: a fair share of each class, whatever the seed."""
    table = _table_of_digits()
    pixels, labels = table[:, :-1], table[:, -1].astype(np.int64)
    tested = np.zeros(len(labels), bool)
    tested[np.argsort(labels, kind="stable")[::5]] = True
    return (pixels[~tested], labels[~tested]), (pixels[tested], labels[tested])


def _table_of_digits() -> NDArray[np.float64]:
    """Scikit-learn's table: 64 pixels and a label in each row. Its file is read without the library where it lies.

    Importing scikit-learn takes longer than all else that a short run does besides importing PyTorch.
    """
    package = importlib.util.find_spec("sklearn")
    if package is not None and package.origin is not None:
        file = Path(package.origin).parent / "datasets" / "data" / "digits.csv.gz"
        if file.is_file():
            return np.loadtxt(file, delimiter=",")
    from sklearn.datasets import load_digits

    pixels, labels = load_digits(return_X_y=True)
    return np.column_stack([pixels, labels])


def _mnist(name: str, folder: Path) -> tuple[tuple[NDArray[Any], NDArray[Any]], ...]:
    paths = [next(folder / file for file in group if (folder / file).exists()) for group in MNIST_FILES]
    arrays = [read_idx(path, MAX_MNIST_BYTES) for path in paths]
    for path, array, shape in zip(paths, arrays, ((28, 28), ()) * 2, strict=True):
        if array.dtype != np.uint8 or array.shape[1:] != shape or array.ndim != 1 + len(shape):
            raise DataFileError(
                f"{path} must hold {'images of 28x28' if shape else 'labels, single'} bytes; it holds "
                f"{array.dtype} of shape {array.shape}. Fetch or copy it again."
            )
    for images, labels in ((0, 1), (2, 3)):
        if len(arrays[images]) != len(arrays[labels]) or arrays[labels].max() > 9:
            raise DataFileError(
                f"{paths[labels]} must hold one label of 0 to 9 for each of {len(arrays[images])} images; "
                f"it holds {len(arrays[labels])} labels up to {arrays[labels].max()}. Fetch or copy both again."
            )
    content = hashlib.md5(arrays[3].tobytes(), usedforsecurity=False).hexdigest()
    if TEST_LABELS.get(content, name) != name:
        raise DataFileError(
            f"{folder} must hold {name}; found the files of {TEST_LABELS[content]}. The two have "
            f"the same file names, so keep each in a folder of its own name."
        )
    return (arrays[0], arrays[1]), (arrays[2], arrays[3])
