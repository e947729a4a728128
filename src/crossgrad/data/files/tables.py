"""Samples from one's own files: CSV, Parquet, numpy's .npz and .npy, folders of images."""

from __future__ import annotations

import csv
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from numpy.typing import NDArray

from crossgrad.data.files.streams import DataFileError
from crossgrad.data.lazy import LazySamples
from crossgrad.data.types import Samples

if TYPE_CHECKING:
    from collections.abc import Sequence

IMAGE_ENDINGS = (".bmp", ".gif", ".jpeg", ".jpg", ".png", ".tif", ".tiff", ".webp")


def from_csv(path: str | Path, label: str, columns: Sequence[str] | None = None) -> Samples:
    """Samples from a CSV file with a header: one row per sample.

    Args:
        path: the file.
        label: the column of the labels; texts become classes 0, 1, ... in their alphabetical order.
        columns: the columns of the inputs; None: all others. They hold numbers.

    Raises:
        DataFileError: a column is missing, or an input is not a number.

    >>> from tempfile import mkdtemp
    >>> file = Path(mkdtemp(), "patients.csv")
    >>> _ = file.write_text("age,dose,site,ill\\n50,1.5,a,yes\\n61,2,b,no\\n")
    >>> from_csv(file, "ill", ["age", "dose"]).labels
    tensor([1, 0])
    >>> read_column(file, "site").tolist()
    ['a', 'b']
    """
    return _from_columns(_csv_columns(Path(path)), Path(path), label, columns)


def from_parquet(path: str | Path, label: str, columns: Sequence[str] | None = None) -> Samples:
    """Samples from a Parquet file, as `from_csv`; needs pyarrow.

    Args:
        path: the file.
        label: the column of the labels.
        columns: the columns of the inputs; None: all others.

    Raises:
        DataFileError: a column is missing, or an input is not a number.
        ModuleNotFoundError: pyarrow is not installed.
    """
    return _from_columns(_parquet_columns(Path(path)), Path(path), label, columns)


def read_column(path: str | Path, name: str) -> NDArray[Any]:
    """One column of a CSV or Parquet file, such as the site or the writer of each sample, for `ByColumn`.

    Args:
        path: the file; .parquet is read by pyarrow, all else as CSV.
        name: the name of the column.
    """
    path = Path(path)
    table = _parquet_columns(path) if path.suffix == ".parquet" else _csv_columns(path)
    return _table_column(table, name, path)


def from_npz(path: str | Path, inputs: str = "x", labels: str = "y") -> Samples:
    """Samples from two arrays of an .npz file.

    Args:
        path: the file; it may not hold pickled objects.
        inputs: the name of the array of inputs.
        labels: the name of the array of labels.

    Raises:
        DataFileError: there is no such array.
    """
    with np.load(path, allow_pickle=False) as arrays:
        for name in (inputs, labels):
            if name not in arrays:
                raise DataFileError(f"{path} must hold an array {name!r}; found {', '.join(arrays) or 'none'}.")
        return Samples.of((arrays[inputs], arrays[labels]))


def from_npy(inputs: str | Path, labels: str | Path, workers: int = 0) -> LazySamples:
    """Samples from two .npy files of one row per sample, mapped into memory and read when needed.

    Args:
        inputs: the file of inputs, which may be larger than memory.
        labels: the file of labels.
        workers: processes that read ahead.
    """
    return LazySamples(_Rows(np.load(inputs, mmap_mode="r"), np.load(labels, mmap_mode="r")), workers)


def from_image_folder(path: str | Path, workers: int = 0) -> LazySamples:
    """Images in one folder per class, read when needed: float32 (3, height, width) of 0 to 1.

    Args:
        path: the folder that holds a folder for each class; classes are numbered in alphabetical order.
        workers: processes that read ahead.

    Raises:
        DataFileError: there are no images.
    """
    return LazySamples(_Images(Path(path)), workers)


class _Rows:
    def __init__(self, inputs: Any, targets: Any) -> None:  # mapped arrays
        if len(inputs) != len(targets):
            raise DataFileError(f"inputs and labels must have as many rows; found {len(inputs)} and {len(targets)}.")
        self.inputs, self.targets = inputs, targets

    def __len__(self) -> int:
        return len(self.inputs)

    def __getitem__(self, index: int) -> tuple[NDArray[Any], Any]:
        return np.array(self.inputs[index]), np.array(self.targets[index])

    def files(self, indices: list[int]) -> list[Path]:
        """The file that holds the inputs."""
        return [Path(self.inputs.filename)]

    def stored(self, index: int) -> bytes:
        """An input as its file holds it."""
        held: bytes = self.inputs[index].tobytes()
        return held


class _Images:
    def __init__(self, folder: Path) -> None:
        self.classes = sorted(entry.name for entry in folder.iterdir() if entry.is_dir())
        found = [
            (file, number)
            for number, name in enumerate(self.classes)
            for file in sorted((folder / name).rglob("*"))
            if file.suffix.lower() in IMAGE_ENDINGS
        ]
        if not found:
            raise DataFileError(f"{folder} must hold a folder of images for each class; found no image in any.")
        self.paths, self.targets = [file for file, _ in found], [number for _, number in found]

    def __len__(self) -> int:
        return len(self.paths)

    def __getitem__(self, index: int) -> tuple[torch.Tensor, int]:
        from PIL import Image  # which matplotlib requires

        try:
            with Image.open(self.paths[index]) as image:
                pixels = np.asarray(image.convert("RGB"), np.float32)
        except (OSError, ValueError, SyntaxError, Image.DecompressionBombError) as error:  # as Pillow's formats raise
            raise DataFileError(
                f"{self.paths[index]} must be an image that can be read; found this fault: {error}. "
                "Replace or remove it."
            ) from None
        return torch.from_numpy(pixels.copy()).permute(2, 0, 1).contiguous() / 255, self.targets[index]

    def files(self, indices: list[int]) -> list[Path]:
        """The files that hold these images."""
        return [self.paths[index] for index in indices]

    def stored(self, index: int) -> bytes:
        """An image as its file holds it."""
        return self.paths[index].read_bytes()


def _csv_columns(path: Path) -> dict[str, NDArray[Any]]:
    with path.open(newline="", encoding="utf-8-sig") as file:
        rows = list(csv.reader(file))
    if len(rows) < 2:
        raise DataFileError(f"{path} must hold a header and at least one row; found {len(rows)} lines.")
    for number, row in enumerate(rows[1:], start=2):
        if len(row) != len(rows[0]):
            raise DataFileError(f"{path}, line {number}: expected {len(rows[0])} values; found {len(row)}.")
    return {name: np.array(values) for name, *values in zip(*rows, strict=True)}


def _parquet_columns(path: Path) -> dict[str, NDArray[Any]]:
    try:
        from pyarrow.parquet import read_table
    except ModuleNotFoundError:
        raise ModuleNotFoundError(
            "Parquet files need pyarrow; it is not installed. Install it by `pip install pyarrow`."
        ) from None
    table = read_table(path)
    return {name: table[name].to_numpy() for name in table.column_names}


def _table_column(table: dict[str, NDArray[Any]], name: str, path: Path) -> NDArray[Any]:
    if name not in table:
        raise DataFileError(f"{path} must have a column {name!r}; found {', '.join(table)}.")
    return table[name]


def _from_columns(table: dict[str, NDArray[Any]], path: Path, label: str, columns: Sequence[str] | None) -> Samples:
    labels = _table_column(table, label, path)
    _refuse_gaps(labels, label, path)
    names = [name for name in table if name != label] if columns is None else columns
    inputs = [_numeric_values(_table_column(table, name, path), name, path) for name in names]
    if labels.dtype.kind not in "biuf":
        try:
            number = labels.astype(np.float64)
            labels = number.astype(np.int64) if (number == np.rint(number)).all() else number.astype(np.float32)
        except ValueError:
            labels = np.unique(labels, return_inverse=True)[1]
    return Samples.of((np.stack(inputs, axis=1), labels))


def _refuse_gaps(values: NDArray[Any], name: str, path: Path) -> None:
    """Raise if a value is missing: an empty cell, or None."""
    if values.dtype.kind in "UO":
        gaps = [row for row, value in enumerate(values.tolist()) if value is None or value == ""]
        if gaps:
            raise DataFileError(
                f"{path}: column {name!r} must have a value in every row; {len(gaps)} have none, the first of them row "
                f"{gaps[0] + 1}. Drop these rows or fill them."
            )


def _numeric_values(values: NDArray[Any], name: str, path: Path) -> NDArray[np.float32]:
    _refuse_gaps(values, name, path)
    try:
        return values.astype(np.float32)
    except ValueError as error:
        raise DataFileError(
            f"{path}: inputs must be numbers; those in column {name!r} are others ({error}). Name others in `columns`."
        ) from error
