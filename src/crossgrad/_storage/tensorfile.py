"""Tensors on disk as safetensors, with a SHA-256 of the whole file in its header.

safetensors alone does not notice a changed bit. The digest is taken of the file with zeros in the digest's place.
"""

import hashlib
import json
import os
import re
from collections.abc import Iterator, Mapping
from pathlib import Path

import torch
from safetensors import SafetensorError, safe_open
from torch import Tensor

from crossgrad._storage import atomic
from crossgrad._storage.damage import DamagedFileError, damaged

SAFETENSORS_DTYPES = {
    torch.float64: "F64",
    torch.float32: "F32",
    torch.float16: "F16",
    torch.bfloat16: "BF16",
    torch.int64: "I64",
    torch.int32: "I32",
    torch.int16: "I16",
    torch.int8: "I8",
    torch.uint8: "U8",
    torch.bool: "BOOL",
}
MAX_HEADER_BYTES = 1 << 20
HASH_BLOCK_BYTES = 1 << 22  # hashed at a time
DIGEST = re.compile(rb'"sha256":"([0-9a-f]{64})"')
BLANK_DIGEST = "0" * 64


def write(path: Path, tensors: Mapping[str, Tensor], about: Mapping[str, str]) -> None:
    """Write the tensors and a few texts about them, at once or not at all.

    The library's own writer is not used, because it either takes the memory of all tensors once more or hides errors of
    the disk. Files are read by the library.
    """
    ordered = sorted(tensors.items(), key=lambda item: -item[1].element_size())  # so that all are aligned
    parts = [(name, tensor.detach().cpu().contiguous()) for name, tensor in ordered]
    digest = hashlib.sha256(_file_header(parts, about, BLANK_DIGEST))
    for part in _bytes_of_tensors(parts):
        digest.update(part)
    atomic.write(path, [_file_header(parts, about, digest.hexdigest()), *_bytes_of_tensors(parts)])


def _file_header(parts: list[tuple[str, Tensor]], about: Mapping[str, str], digest: str) -> bytes:
    entries: dict[str, object] = {"__metadata__": {**about, "sha256": digest}}
    start = 0
    for name, tensor in parts:
        offsets = [start, start + tensor.nbytes]
        entries[name] = {
            "dtype": SAFETENSORS_DTYPES[tensor.dtype],
            "shape": list(tensor.shape),
            "data_offsets": offsets,
        }
        start += tensor.nbytes
    text = json.dumps(entries, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    return len(text).to_bytes(8, "little") + text


def _bytes_of_tensors(parts: list[tuple[str, Tensor]]) -> Iterator[memoryview]:
    return (tensor.reshape(-1).view(torch.uint8).numpy().data for _, tensor in parts if tensor.numel())


class TensorFile:
    """A file that has been checked; tensors are read row by row, so that the whole is never in memory."""

    def __init__(self, path: Path) -> None:
        self.path = path
        _check(path)
        with self._open() as file:
            self.about: dict[str, str] = file.metadata() or {}
            slices = {name: file.get_slice(name) for name in file.keys()}  # noqa: SIM118 - no mapping
            self.shapes = {name: tuple(part.get_shape()) for name, part in slices.items()}
            self.dtypes = {name: part.get_dtype() for name, part in slices.items()}

    def rows(self, name: str, first: int, last: int) -> Tensor:
        """Some rows of a tensor, from the file."""
        with self._open() as file:
            tensor: Tensor = file.get_slice(name)[first:last]
            return tensor

    def _open(self) -> safe_open:
        try:
            return safe_open(str(self.path), "pt")
        except SafetensorError as error:
            raise damaged(self.path, f"it must be a safetensors file; found this fault: {error}") from None


def _length_of_data(header: bytes) -> int:
    """Bytes of data that the header announces; -1 if it cannot be read."""
    try:
        parts = [part for name, part in json.loads(header).items() if name != "__metadata__"]
        return max((int(part["data_offsets"][1]) for part in parts), default=0)
    except (ValueError, TypeError, KeyError, IndexError, AttributeError, RecursionError, OverflowError):
        return -1


def _check(path: Path) -> None:
    """Raise DamagedFileError unless the file's digest and length are right."""
    try:
        opened = atomic.open_regular(path, follow=False)
    except atomic.NoFileError as error:
        raise DamagedFileError(str(error)) from None
    except OSError as error:
        raise DamagedFileError(
            f"{path} must be readable; {error.strerror}. Give this user the right to read it."
        ) from None
    with opened as file:
        length = int.from_bytes(file.read(8), "little")
        if not 2 <= length <= MAX_HEADER_BYTES:
            raise damaged(path, f"its header must have 2 to {MAX_HEADER_BYTES:,} bytes; found {length:,}")
        header = file.read(length)
        found = DIGEST.findall(header)
        if len(found) != 1:
            raise damaged(path, f"its header must hold one SHA-256; found {len(found)}")
        size, due = os.fstat(file.fileno()).st_size, 8 + length + _length_of_data(header)
        if size != due:  # before all of a file is read that is larger than it says
            raise damaged(path, f"it must have the {due:,} bytes of its header; found {size:,}")
        digest = hashlib.sha256(length.to_bytes(8, "little") + header.replace(found[0], BLANK_DIGEST.encode()))
        while block := file.read(HASH_BLOCK_BYTES):
            digest.update(block)
    if digest.hexdigest().encode() != found[0]:
        raise damaged(path, "its SHA-256 must be the one in its header; found another")
