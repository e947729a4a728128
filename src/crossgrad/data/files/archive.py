"""Named members of a tar archive, read into memory: nothing is ever extracted to disk."""

import tarfile
from collections.abc import Mapping
from pathlib import Path
from typing import IO, Self

from crossgrad.data.files.streams import CAP, CHUNK, DataFileError, opened, read_up_to

MOST_MEMBERS = 1000
LONGEST_NAME = 1 << 16  # bytes of a member that says something about the next one, such as a long name
ENDS = 100  # times that tarfile may ask for more at the end


class _Bounded:
    """A stream that refuses to give more than CAP bytes, so that a small archive cannot fill the memory.

    tarfile passes over a member by reading as often as its size says, also past the end.
    """

    def __init__(self, stream: IO[bytes], path: Path) -> None:
        self.stream, self.path, self.left, self.ends = stream, path, CAP, 0

    def read(self, size: int) -> bytes:
        data = self.stream.read(size)
        self.left -= len(data)
        self.ends += not data
        if self.ends > ENDS:
            raise DataFileError(f"{self.path} ends inside one of its members; fetch or copy it again.")
        if self.left < 0:
            raise DataFileError(f"{self.path} unpacks to more than {CAP:,} bytes; fetch or copy it again.")
        return data


class _Member(tarfile.TarInfo):
    """A header whose content tarfile may read as a whole only if it is short."""

    @classmethod
    def frombuf(cls, buf: bytes | bytearray, encoding: str, errors: str) -> Self:
        member = super().frombuf(buf, encoding, errors)
        if not (member.isreg() or member.isdir()) and member.size > LONGEST_NAME:
            raise ValueError(f"a special member of {member.size:,} bytes")
        return member


def read_members(path: Path, largest: Mapping[str, int]) -> dict[str, bytearray]:
    """Read those members of a tar, tar.gz or tar.xz file that are named in `largest` (name -> most bytes).

    Other members are passed over. The archive is read to its end, so that its checksum is verified.
    """
    members: dict[str, bytearray] = {}
    with opened(path) as stream:
        bounded = _Bounded(stream, path)
        try:
            with tarfile.open(fileobj=bounded, mode="r|", bufsize=CHUNK, tarinfo=_Member) as archive:  # type: ignore[call-overload]
                for count, entry in enumerate(archive):
                    if count == MOST_MEMBERS:
                        raise ValueError(f"more than {MOST_MEMBERS} members")
                    name = entry.name.removeprefix("./")
                    if name in largest:
                        members[name] = _read(archive, entry, largest[name], path, seen=name in members)
            while bounded.read(CHUNK):
                pass
        except DataFileError:
            raise
        except (tarfile.TarError, ValueError, OverflowError, RecursionError) as error:
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
