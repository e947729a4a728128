"""Named members of a tar archive, read into memory: nothing is ever extracted to disk."""

import tarfile
from collections.abc import Mapping
from pathlib import Path
from typing import IO, Self

from crossgrad.data.files.streams import CHUNK_BYTES, MAX_UNPACKED_BYTES, DataFileError, opened, read_up_to

MAX_MEMBERS = 1000
MAX_NAME_BYTES = 1 << 16  # of a member that describes the next one, such as a long name


class _Member(tarfile.TarInfo):
    """A member of an archive. tarfile reads the content of special headers as a whole, so their size is bounded."""

    @classmethod
    def frombuf(cls, buf: bytes | bytearray, encoding: str, errors: str) -> Self:
        member = super().frombuf(buf, encoding, errors)
        if not (member.isreg() or member.isdir()) and member.size > MAX_NAME_BYTES:
            raise ValueError(f"a special member of {member.size:,} bytes")
        return member


def read_members(path: Path, max_bytes: Mapping[str, int]) -> dict[str, bytearray]:
    """Read those members of a tar, tar.gz or tar.xz file that are named in `max_bytes` (name -> largest size).

    Other members are passed over. The archive is read to its end, so that its checksum is verified.
    """
    members: dict[str, bytearray] = {}
    with opened(path) as stream:
        try:
            with tarfile.open(fileobj=stream, mode="r:", tarinfo=_Member) as archive:
                for count, entry in enumerate(archive):
                    if count == MAX_MEMBERS:
                        raise ValueError(f"more than {MAX_MEMBERS} members")
                    if entry.offset_data + entry.size > MAX_UNPACKED_BYTES:
                        raise ValueError(f"unpacks to more than {MAX_UNPACKED_BYTES:,} bytes")
                    name = entry.name.removeprefix("./")
                    if name in max_bytes:
                        members[name] = _read_entry(archive, entry, max_bytes[name], path, seen=name in members)
            _pass_over_rest(stream)
        except DataFileError:
            raise
        except (tarfile.TarError, ValueError, OverflowError, RecursionError) as error:
            raise DataFileError(
                f"{path} must be a tar archive; it is broken ({error}). Fetch or copy it again."
            ) from error
    return members


def _read_entry(archive: tarfile.TarFile, entry: tarfile.TarInfo, most: int, path: Path, *, seen: bool) -> bytearray:
    file = archive.extractfile(entry) if entry.isreg() else None
    if file is None or seen or entry.size > most:
        found = f"{entry.size:,} bytes" if file is not None else "not a file"
        found = "there twice" if seen else found
        raise DataFileError(
            f"{path} must hold {entry.name} once, as a file of at most {most:,} bytes; it is {found}. "
            f"Fetch or copy the archive again."
        )
    return read_up_to(file, most)


def _pass_over_rest(stream: IO[bytes]) -> None:
    left = MAX_UNPACKED_BYTES
    while piece := stream.read(CHUNK_BYTES):
        left -= len(piece)
        if left < 0:
            raise ValueError(f"unpacks to more than {MAX_UNPACKED_BYTES:,} bytes")
