"""Files that may be compressed: opened by their first bytes, read within bounds."""

import gzip
import lzma
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, cast

CAP = 1 << 30  # bytes; no data set here needs more from one file, so more is a file that lies
CHUNK = 1 << 20

GZIP_MAGIC = b"\x1f\x8b"
XZ_MAGIC = b"\xfd7zXZ\x00"


class DataFileError(ValueError):
    """A data file that is not what it should be: broken, cut short, or of another kind."""


@contextmanager
def opened(path: Path) -> Iterator[IO[bytes]]:
    """Open a plain, gzip or xz file for reading; what decompression finds broken becomes one sentence."""
    with path.open("rb") as raw:
        magic = raw.read(len(XZ_MAGIC))
        raw.seek(0)
        if not magic:
            raise DataFileError(f"{path} should hold data, but it is empty; fetch or copy it again.")
        try:
            if magic.startswith(GZIP_MAGIC):
                with gzip.open(raw) as stream:
                    yield cast(IO[bytes], stream)
            elif magic == XZ_MAGIC:
                with lzma.open(raw) as stream:
                    yield cast(IO[bytes], stream)
            else:
                yield raw
        except (EOFError, gzip.BadGzipFile, zlib.error, lzma.LZMAError) as error:
            raise DataFileError(
                f"{path} should decompress, but it is broken ({error}); fetch or copy it again."
            ) from error


def read_up_to(stream: IO[bytes], count: int) -> bytearray:
    """Read at most `count` bytes, in pieces: memory follows what is there, never what a header claims."""
    data = bytearray()
    while len(data) < count:
        piece = stream.read(min(CHUNK, count - len(data)))
        if not piece:
            break
        data += piece
    return data
