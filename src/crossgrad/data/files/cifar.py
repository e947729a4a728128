"""CIFAR-10 as its authors publish it: binary or pickled batches, as a folder or as a tar archive."""

from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from crossgrad.data.files.archive import read_members
from crossgrad.data.files.streams import DataFileError, read_up_to
from crossgrad.data.files.unpickle import unpickle_batch

PIXELS = 3 * 32 * 32
CLASSES = 10
RECORDS = 10_000  # per batch
BATCHES = (*(f"data_batch_{number}" for number in range(1, 6)), "test_batch")  # the last one is the test set
BINARY_FOLDER, PICKLE_FOLDER = "cifar-10-batches-bin", "cifar-10-batches-py"
BINARY, PICKLED = tuple(f"{name}.bin" for name in BATCHES), BATCHES

# Where in a folder the data may lie, in the order of preference.
LAYOUTS = (
    BINARY_FOLDER,
    BINARY[0],
    *(f"cifar-10-binary.tar{end}" for end in ("", ".gz", ".xz")),
    PICKLE_FOLDER,
    PICKLED[0],
    *(f"cifar-10-python.tar{end}" for end in ("", ".gz", ".xz")),
)


class Images(NamedTuple):
    """Images of bytes (n, 3, 32, 32) and their labels (n,)."""

    pixels: NDArray[np.uint8]
    labels: NDArray[np.int64]


def read_cifar10(path: str | Path, records: int = RECORDS) -> tuple[Images, Images]:
    """Read training and test images from an archive, or from a folder that holds archive or batches.

    Every batch must hold exactly `records` images.
    """
    path = Path(path)
    if path.is_file():
        return _from_archive(path, records)
    for layout in LAYOUTS:
        if (found := path / layout).exists():
            if layout in (BINARY[0], PICKLED[0]):
                return _from_folder(path, records)
            return _from_folder(found, records) if found.is_dir() else _from_archive(found, records)
    raise FileNotFoundError(
        f"{path} should hold CIFAR-10, but has none of {', '.join(LAYOUTS)}; run `crossgrad data fetch cifar10`."
    )


def _from_folder(folder: Path, records: int) -> tuple[Images, Images]:
    names = BINARY if (folder / BINARY[0]).exists() else PICKLED
    _refuse_missing(folder, [name for name in names if not (folder / name).is_file()])
    batches = []
    for name in names:
        with (folder / name).open("rb") as file:
            batches.append(_decode(read_up_to(file, _largest(name, records) + 1), folder / name, records))
    return _joined(batches)


def _from_archive(path: Path, records: int) -> tuple[Images, Images]:
    binary = [f"{BINARY_FOLDER}/{name}" for name in BINARY]
    pickled = [f"{PICKLE_FOLDER}/{name}" for name in PICKLED]
    members = read_members(path, {name: _largest(name, records) for name in (*binary, *pickled)})
    names = pickled if not members.keys() & set(binary) and members else binary
    _refuse_missing(path, [name for name in names if name not in members])
    return _joined(_decode(members.pop(name), path / name, records) for name in names)


def _refuse_missing(path: Path, missing: list[str]) -> None:
    if missing:
        raise DataFileError(f"{path} should hold CIFAR-10, but lacks {', '.join(missing)}; fetch or copy it again.")


def _largest(name: str, records: int) -> int:
    """The most bytes of a batch: a pickled one also holds file names, and some writers encode pixels as UTF-8."""
    return records * (1 + PIXELS) if name.endswith(".bin") else records * (2 * PIXELS + 128) + 4096


def _decode(data: bytearray, path: Path, records: int) -> Images:
    if path.suffix == ".bin":
        if len(data) != records * (1 + PIXELS):
            raise DataFileError(
                f"{path} should hold {records * (1 + PIXELS):,} bytes ({records:,} images), but holds "
                f"{'more' if len(data) > records * (1 + PIXELS) else f'{len(data):,}'}; fetch or copy it again."
            )
        rows = np.frombuffer(data, np.uint8).reshape(records, 1 + PIXELS)
        pixels, labels = rows[:, 1:], rows[:, 0].astype(np.int64)
    else:
        pixels, labels = unpickle_batch(data, path)
        if pixels.shape != (records, PIXELS) or labels.shape != (records,):
            raise DataFileError(
                f"{path} should hold {records:,} images of {PIXELS} bytes and as many labels, but holds the "
                f"shapes {pixels.shape} and {labels.shape}; fetch or copy it again."
            )
    wrong = np.flatnonzero((labels < 0) | (labels >= CLASSES))
    if len(wrong):
        raise DataFileError(
            f"{path} should hold labels 0 to {CLASSES - 1}, but image {wrong[0]} has label {labels[wrong[0]]}; "
            f"fetch or copy it again."
        )
    return Images(pixels.reshape(records, 3, 32, 32), labels)


def _joined(batches: Iterable[Images]) -> tuple[Images, Images]:
    *train, test = batches
    return Images(*(np.concatenate(part) for part in zip(*train, strict=True))), test
