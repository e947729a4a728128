"""Files that may be compressed: opened by their first bytes, read within bounds."""

import io
import lzma
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any, cast

CAP = 1 << 29  # bytes; no data set here needs more from one file, so more is a file that lies
CHUNK = 1 << 20
XZ_MEMORY = 1 << 28  # bytes; `xz -9` needs a quarter of it

GZIP_MAGIC = b"\x1f\x8b"
XZ_MAGIC = b"\xfd7zXZ\x00"


class DataFileError(ValueError):
    """A data file that is not what it should be: broken, cut short, or of another kind."""


class _Gzip:
    """zlib's decompressor with the interface of lzma's."""

    def __init__(self) -> None:
        self.inner = zlib.decompressobj(wbits=31)  # of gzip's format

    @property
    def needs_input(self) -> bool:
        return not self.inner.unconsumed_tail

    @property
    def eof(self) -> bool:
        return self.inner.eof

    @property
    def unused_data(self) -> bytes:
        return self.inner.unused_data

    def decompress(self, data: bytes, most: int) -> bytes:
        return self.inner.decompress(self.inner.unconsumed_tail + data, most)


class _Unpacked(io.RawIOBase):
    """The content of a packed file, in pieces. The standard library's readers look for more at its end, for ever."""

    def __init__(self, packed: IO[bytes], decompressor: _Gzip | lzma.LZMADecompressor) -> None:
        self.packed, self.decompressor = packed, decompressor

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        data = b""
        while not data and not self.decompressor.eof:
            more = self.packed.read(CHUNK) if self.decompressor.needs_input else b""
            if not more and self.decompressor.needs_input:
                raise EOFError("it ends too early")
            data = self.decompressor.decompress(more, len(buffer))
        if not data and (self.decompressor.unused_data or self.packed.read(1)):
            raise EOFError("more follows its end")
        buffer[: len(data)] = data
        return len(data)


@contextmanager
def opened(path: Path) -> Iterator[IO[bytes]]:
    """Open a plain, gzip or xz file for reading; what decompression finds broken becomes one sentence."""
    if path.exists() and not path.is_file():
        raise DataFileError(f"{path} should be a file, but it is a folder or a device; fetch or copy it again.")
    with path.open("rb") as raw:
        magic = raw.read(len(XZ_MAGIC))
        raw.seek(0)
        if not magic:
            raise DataFileError(f"{path} should hold data, but it is empty; fetch or copy it again.")
        try:
            if magic.startswith(GZIP_MAGIC):
                with io.BufferedReader(_Unpacked(raw, _Gzip()), CHUNK) as stream:
                    yield cast(IO[bytes], stream)
            elif magic == XZ_MAGIC:
                xz = lzma.LZMADecompressor(lzma.FORMAT_XZ, memlimit=XZ_MEMORY)  # its header may ask for gigabytes
                with io.BufferedReader(_Unpacked(raw, xz), CHUNK) as stream:
                    yield cast(IO[bytes], stream)
            else:
                yield raw
        except (EOFError, zlib.error, lzma.LZMAError) as error:
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
