"""CIFAR-10 as its authors publish it: binary or pickled batches, as a folder or as a tar archive.

A pickle is a program, so a pickled batch is read only if it is the published one to the bit.
"""

import hashlib
import io
import pickle
from collections.abc import Iterable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from crossgrad.data.files.archive import read_members
from crossgrad.data.files.streams import DataFileError, read_up_to

IMAGE_BYTES = 3 * 32 * 32
CLASSES = 10
BATCH_IMAGES = 10_000  # per batch
BATCHES = (*(f"data_batch_{number}" for number in range(1, 6)), "test_batch")  # the last one is the test set
BINARY_FOLDER, PICKLE_FOLDER = "cifar-10-batches-bin", "cifar-10-batches-py"
BINARY, PICKLED = tuple(f"{name}.bin" for name in BATCHES), BATCHES
PICKLED_MD5 = {
    "data_batch_1": "c99cafc152244af753f735de768cd75f",
    "data_batch_2": "d4bba439e000b95fd0a9bffe97cbabec",
    "data_batch_3": "54ebc095f3ab1f0389bbae665268c751",
    "data_batch_4": "634d18415352ddfa80567beed471001a",
    "data_batch_5": "482c414d41f54cd18b22e5b47cb7c3cb",
    "test_batch": "40351d587109b95175f43aff81a1287e",
}

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


def read_cifar10(path: str | Path, records: int = BATCH_IMAGES) -> tuple[Images, Images]:
    """Read training and test images from an archive, or from a folder that holds archive or batches.

    Every batch must hold exactly `records` images.

    Args:
        path: the archive or the folder.
        records: images per batch; fewer only in tests.
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
        f"{path} must hold CIFAR-10; it has none of {', '.join(LAYOUTS)}. Run `crossgrad data fetch cifar10`."
    )


def _from_folder(folder: Path, records: int) -> tuple[Images, Images]:
    names = BINARY if (folder / BINARY[0]).exists() else PICKLED
    _refuse_missing(folder, [name for name in names if not (folder / name).is_file()])
    batches = []
    for name in names:
        with (folder / name).open("rb") as file:
            batches.append(_decode(read_up_to(file, _max_batch_bytes(name, records) + 1), folder / name, records))
    return _joined_batches(batches)


def _from_archive(path: Path, records: int) -> tuple[Images, Images]:
    binary = [f"{BINARY_FOLDER}/{name}" for name in BINARY]
    pickled = [f"{PICKLE_FOLDER}/{name}" for name in PICKLED]
    members = read_members(path, {name: _max_batch_bytes(name, records) for name in (*binary, *pickled)})
    names = pickled if not members.keys() & set(binary) and members else binary
    _refuse_missing(path, [name for name in names if name not in members])
    return _joined_batches(_decode(members.pop(name), path / name, records) for name in names)


def _refuse_missing(path: Path, missing: list[str]) -> None:
    if missing:
        raise DataFileError(f"{path} must hold CIFAR-10; it lacks {', '.join(missing)}. Fetch or copy it again.")


def _max_batch_bytes(name: str, records: int) -> int:
    """The largest number of bytes that a batch may have; a pickled one also holds file names."""
    return records * (1 + IMAGE_BYTES) if name.endswith(".bin") else records * (IMAGE_BYTES + 128) + 4096


def _decode(data: bytearray, path: Path, records: int) -> Images:
    if path.suffix == ".bin":
        if len(data) != records * (1 + IMAGE_BYTES):
            raise DataFileError(
                f"{path} must hold {records * (1 + IMAGE_BYTES):,} bytes ({records:,} images); it holds "
                f"{'more' if len(data) > records * (1 + IMAGE_BYTES) else f'{len(data):,}'}. Fetch or copy it again."
            )
        rows = np.frombuffer(data, np.uint8).reshape(records, 1 + IMAGE_BYTES)
        pixels, labels = rows[:, 1:], rows[:, 0].astype(np.int64)
    else:
        pixels, labels = _unpickled(data, path)
        if pixels.shape != (records, IMAGE_BYTES) or labels.shape != (records,):
            raise DataFileError(
                f"{path} must hold {records:,} images of {IMAGE_BYTES} bytes and as many labels; it holds the "
                f"shapes {pixels.shape} and {labels.shape}. Fetch or copy it again."
            )
    wrong = np.flatnonzero((labels < 0) | (labels >= CLASSES))
    if len(wrong):
        raise DataFileError(
            f"{path} must hold labels 0 to {CLASSES - 1}; image {wrong[0]} has label {labels[wrong[0]]}. "
            f"Fetch or copy it again."
        )
    return Images(pixels.reshape(records, 3, 32, 32), labels)


class _Unpickler(pickle.Unpickler):
    """An unpickler that allows only the three names that the published batches need."""

    def find_class(self, module: str, name: str) -> Any:
        rebuild = np.empty(0).__reduce__()[0]
        known = {"_reconstruct": rebuild, "ndarray": np.ndarray, "dtype": np.dtype}
        if module.partition(".")[0] != "numpy" or name not in known:
            raise pickle.UnpicklingError(f"it asks for {module}.{name}")
        return known[name]


def _unpickled(data: bytearray, path: Path) -> tuple[NDArray[np.uint8], NDArray[np.int64]]:
    """Pixels (n, 3072) and labels (n,) of a batch as Python 2 wrote it."""
    found = hashlib.md5(data, usedforsecurity=False).hexdigest()
    if found != PICKLED_MD5[path.name]:
        raise DataFileError(
            f"{path} must be the published batch with the md5 {PICKLED_MD5[path.name]}; its md5 is {found}. "
            f"Fetch the binary version with `crossgrad data fetch cifar10`."
        )
    batch = _Unpickler(io.BytesIO(data), encoding="bytes").load()
    return batch[b"data"], np.array(batch[b"labels"], np.int64)


def _joined_batches(batches: Iterable[Images]) -> tuple[Images, Images]:
    *train, test = batches
    return Images(*(np.concatenate(part) for part in zip(*train, strict=True))), test
