"""The IDX format of MNIST: a magic number, the dimensions, then the numbers, big-endian throughout."""

import math
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from crossgrad.data.files.streams import MAX_UNPACKED_BYTES, DataFileError, opened, read_up_to

IDX_DTYPES = {0x08: ">u1", 0x09: ">i1", 0x0B: ">i2", 0x0C: ">i4", 0x0D: ">f4", 0x0E: ">f8"}
MAX_RANK = 8


def read_idx(path: str | Path, max_bytes: int = MAX_UNPACKED_BYTES) -> NDArray[Any]:
    """Read an IDX file, plain or gzipped, whatever its name ends in.

    The dimensions are checked against the bytes that are really there. At most one byte more than the header announces
    is read, and a header that announces more than `max_bytes` is refused before anything is read.

    Args:
        path: the file.
        max_bytes: a header that announces more is refused.
    """
    path = Path(path)
    with opened(path) as stream:
        magic = bytes(read_up_to(stream, 4))
        if len(magic) < 4 or magic[:2] != b"\0\0" or magic[2] not in IDX_DTYPES or not 0 < magic[3] <= MAX_RANK:
            raise DataFileError(
                f"{path} must be an IDX file (first bytes 00 00, type, rank 1 to {MAX_RANK}); it starts "
                f"with {magic.hex(' ')}. Fetch or copy it again."
            )
        dtype, rank = np.dtype(IDX_DTYPES[magic[2]]), magic[3]
        dimensions = bytes(read_up_to(stream, 4 * rank))
        if len(dimensions) < 4 * rank:
            raise DataFileError(f"{path} must have a whole IDX header; it ends inside it. Fetch or copy it again.")
        shape = tuple(np.frombuffer(dimensions, ">u4").tolist())
        # Reading to one byte past the end also makes gzip verify its checksum.
        expected = dtype.itemsize * math.prod(shape)
        if not 0 < expected <= max_bytes:
            raise DataFileError(
                f"{path} must have 1 to {max_bytes:,} bytes of data; its IDX header has the shape {shape}, which is "
                f"{expected:,} bytes. Fetch or copy it again."
            )
        data = read_up_to(stream, expected + 1)
    if len(data) != expected:
        found = "more follow" if len(data) > expected else f"only {len(data):,} follow"
        raise DataFileError(
            f"{path} must hold {expected:,} bytes after its IDX header (shape {shape}); {found}. "
            f"Fetch or copy it again."
        )
    array = np.frombuffer(data, dtype).reshape(shape)
    if not dtype.isnative:
        array = array.byteswap(inplace=True).view(dtype.newbyteorder("="))
    return array
