"""Files that may be compressed: opened by their first bytes, read within bounds."""

import gzip
import lzma
import os
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, cast

MAX_UNPACKED_BYTES = 1 << 29  # of one file; no known data set has more
CHUNK_BYTES = 1 << 20

GZIP_MAGIC = b"\x1f\x8b"
XZ_MAGIC = b"\xfd7zXZ\x00"
BROKEN = (EOFError, gzip.BadGzipFile, zlib.error, lzma.LZMAError, MemoryError)  # an xz header may ask for gigabytes


class DataFileError(ValueError):
    """A data file that is not what it should be: broken, cut short, or of another kind."""


@contextmanager
def opened(path: Path) -> Iterator[IO[bytes]]:
    """Open a plain, gzip or xz file for reading; an error of decompression becomes a DataFileError."""
    if path.exists() and not path.is_file():
        raise DataFileError(f"{path} must be a file; it is a folder or a device. Fetch or copy it again.")
    with path.open("rb") as raw:
        magic = raw.read(len(XZ_MAGIC))
        if not magic:
            raise DataFileError(f"{path} must hold data; it is empty. Fetch or copy it again.")
        packed = magic.startswith(GZIP_MAGIC) or magic == XZ_MAGIC
        if packed and (size := raw.seek(0, os.SEEK_END)) > MAX_UNPACKED_BYTES:
            raise DataFileError(
                f"{path} must have at most {MAX_UNPACKED_BYTES:,} bytes; it has {size:,}. Fetch or copy it again."
            )
        raw.seek(0)
        try:
            if magic.startswith(GZIP_MAGIC):
                with gzip.open(raw) as stream:
                    yield cast(IO[bytes], stream)
            elif magic == XZ_MAGIC:
                with lzma.open(raw) as stream:
                    yield cast(IO[bytes], stream)
            else:
                yield raw
        except BROKEN as error:
            reason = str(error) or type(error).__name__
            raise DataFileError(f"{path} must decompress; it is broken ({reason}). Fetch or copy it again.") from error


def read_up_to(stream: IO[bytes], count: int) -> bytearray:
    """Read at most `count` bytes, in pieces: the memory taken depends on what is there, not on what a header claims."""
    data = bytearray()
    while len(data) < count:
        piece = stream.read(min(CHUNK_BYTES, count - len(data)))
        if not piece:
            break
        data += piece
    return data
