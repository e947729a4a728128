"""The pickled batches of CIFAR-10's Python version, read without running anything a pickle could name.

A pickle is a program: plain unpickling of a downloaded file runs whatever it asks for. Here it may name just
the four things those batches need, and even these are stand-ins that only hold what they are handed.
"""

import io
import pickle
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from crossgrad.data.streams import DataFileError


class _Type:
    """Stands in for numpy.dtype: keeps its name."""

    def __init__(self, name: str | bytes, *_: object) -> None:
        self.name = name.decode("latin1") if isinstance(name, bytes) else name

    def __setstate__(self, state: object) -> None:
        """The rest of a dtype (byte order, fields) says nothing about single bytes."""


class _Array:
    """Stands in for numpy.ndarray: keeps shape, type and bytes until they are checked."""

    state: tuple[Any, ...] = ()

    def __setstate__(self, state: tuple[Any, ...]) -> None:
        self.state = state

    def array(self) -> NDArray[np.uint8]:
        _, shape, dtype, column_major, data = self.state
        if dtype.name != "u1" or not isinstance(data, bytes):
            raise ValueError("its array is not one of bytes")
        return np.frombuffer(data, np.uint8).reshape(shape, order="F" if column_major else "C")


def _reconstruct(*_: object) -> _Array:
    return _Array()


def _encode(text: str, encoding: str) -> bytes:
    if encoding != "latin1":
        raise pickle.UnpicklingError(f"it encodes text as {encoding}")
    return text.encode("latin1")


_ALLOWED: dict[tuple[str, str], Any] = {
    ("numpy.core.multiarray", "_reconstruct"): _reconstruct,
    ("numpy._core.multiarray", "_reconstruct"): _reconstruct,
    ("numpy", "ndarray"): _Array,
    ("numpy", "dtype"): _Type,
    ("_codecs", "encode"): _encode,
}


class _Unpickler(pickle.Unpickler):
    def find_class(self, module: str, name: str) -> Any:
        try:
            return _ALLOWED[module, name]
        except KeyError:
            raise pickle.UnpicklingError(f"it asks for {module}.{name}, which no such batch needs") from None


def unpickle_batch(data: bytes | bytearray, path: Path) -> tuple[NDArray[np.uint8], NDArray[np.int64]]:
    """The (n, 3072) pixels and the n labels of one pickled batch; `path` is for the error's sentence only."""
    try:
        batch = _Unpickler(io.BytesIO(data), encoding="bytes").load()
        batch = {key.decode() if isinstance(key, bytes) else key: value for key, value in batch.items()}
        return batch["data"].array(), np.array(batch["labels"], np.int64)
    except Exception as error:  # a broken pickle can raise anything
        raise DataFileError(
            f"{path} should be a pickled CIFAR-10 batch, but it cannot be read ({error!r}); "
            f"fetch the binary version with `crossgrad data fetch cifar10`."
        ) from error
