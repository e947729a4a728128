"""What may lie where a file is expected. Each is made at a path, from the bytes that were meant for it."""

import os
from collections.abc import Callable
from pathlib import Path

Odd = Callable[[Path, bytes], None]
HUGE = 5 << 30


def pipe(path: Path, content: bytes) -> None:
    os.mkfifo(path)


def folder(path: Path, content: bytes) -> None:
    path.mkdir()


def link_to_itself(path: Path, content: bytes) -> None:
    path.symlink_to(path)


def link_to_nothing(path: Path, content: bytes) -> None:
    path.symlink_to("nothing")


def endless(path: Path, content: bytes) -> None:
    path.symlink_to("/dev/zero")


def full(path: Path, content: bytes) -> None:
    path.symlink_to("/dev/full")


def empty(path: Path, content: bytes) -> None:
    path.touch()


def huge(path: Path, content: bytes) -> None:
    """Begins as it should; then zeros, which take no room on the disk."""
    path.write_bytes(content)
    os.truncate(path, HUGE)


def forbidden(path: Path, content: bytes) -> None:
    """May not be read, but by root."""
    path.write_bytes(content)
    path.chmod(0)


ODD_FILES: dict[str, Odd] = {
    odd.__name__: odd for odd in (pipe, folder, link_to_itself, link_to_nothing, endless, full, empty, huge, forbidden)
}
