"""Named members of a tar archive, read into memory: nothing is ever extracted to disk."""

import tarfile
from collections.abc import Mapping
from pathlib import Path
from typing import IO

from crossgrad.data.streams import CAP, CHUNK, DataFileError, opened, read_up_to


class _Bounded:
    """A stream that refuses to give more than CAP bytes, so that a small archive cannot fill the memory."""

    def __init__(self, stream: IO[bytes], path: Path) -> None:
        self.stream, self.path, self.left = stream, path, CAP

    def read(self, size: int) -> bytes:
        data = self.stream.read(size)
        self.left -= len(data)
        if self.left < 0:
            raise DataFileError(f"{self.path} unpacks to more than {CAP:,} bytes; fetch or copy it again.")
        return data


def read_members(path: Path, largest: Mapping[str, int]) -> dict[str, bytearray]:
    """Read those members of a tar, tar.gz or tar.xz file that are named in `largest` (name -> most bytes).

    Other members are passed over. The archive is read to its end, so that its checksum is verified.
    """
    members: dict[str, bytearray] = {}
    with opened(path) as stream:
        bounded = _Bounded(stream, path)
        try:
            with tarfile.open(fileobj=bounded, mode="r|", bufsize=CHUNK) as archive:  # type: ignore[call-overload]
                for entry in archive:
                    name = entry.name.removeprefix("./")
                    if name in largest:
                        members[name] = _read(archive, entry, largest[name], path, seen=name in members)
            while bounded.read(CHUNK):
                pass
        except DataFileError:
            raise
        except (tarfile.TarError, ValueError, OverflowError) as error:
            raise DataFileError(
                f"{path} should be a tar archive, but it is broken ({error}); fetch or copy it again."
            ) from error
    return members


def _read(archive: tarfile.TarFile, entry: tarfile.TarInfo, most: int, path: Path, *, seen: bool) -> bytearray:
    file = archive.extractfile(entry) if entry.isreg() else None
    if file is None or seen or entry.size > most:
        found = f"{entry.size:,} bytes" if file is not None else "not a file"
        found = "there twice" if seen else found
        raise DataFileError(
            f"{path} should hold {entry.name} once, as a file of at most {most:,} bytes, but it is {found}; "
            f"fetch or copy the archive again."
        )
    return read_up_to(file, most)
