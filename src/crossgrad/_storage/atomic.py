"""Files that are there whole or not at all, whatever ends the process."""

import json
import os
import stat
from collections.abc import Iterable
from pathlib import Path
from typing import IO, Any


def write(path: Path, chunks: Iterable[bytes | memoryview]) -> None:
    """Write a file under another name, to the disk, and rename it: a reader sees the old one or the new one."""
    unfinished = path.with_name(f"{path.name}.{os.getpid()}.part")
    try:
        with unfinished.open("wb") as file:
            for chunk in chunks:
                file.write(chunk)
            file.flush()
            os.fsync(file.fileno())
        os.replace(unfinished, path)
        sync(path.parent)
    except BaseException as error:
        unfinished.unlink(missing_ok=True)
        if isinstance(error, OSError):
            error.filename = str(path)
        raise


def write_json(path: Path, content: Any) -> None:
    """Write a JSON file."""
    write(path, [(json.dumps(content, indent=2) + "\n").encode()])


class NoFileError(ValueError):
    """It is a pipe, a device or a folder."""


def read_json(path: Path, largest: int = 1 << 24) -> Any:
    """What a JSON file holds; what is no such file, or has more bytes, is refused in a sentence."""
    with open_regular(path) as file:
        content = file.read(largest + 1)
    try:
        if len(content) > largest:
            raise ValueError
        return json.loads(content)
    except (ValueError, RecursionError):
        raise ValueError(f"{path} is damaged: it is not what was written.") from None


def open_regular(path: Path) -> IO[bytes]:
    """Open a file, but no pipe or device, on which reading might never end."""

    def opener(name: str, flags: int) -> int:
        handle = os.open(name, flags | getattr(os, "O_NONBLOCK", 0))
        if not stat.S_ISREG(os.fstat(handle).st_mode):
            os.close(handle)
            raise NoFileError(f"{path} is no file.")
        return handle

    return open(path, "rb", opener=opener)


def append(path: Path, line: bytes) -> None:
    """Add a line to a file; where there is no room for all of it, none of it stays."""
    try:
        with path.open("ab", buffering=0) as file:
            end = file.seek(0, os.SEEK_END)
            try:
                written = 0
                while written < len(line):
                    written += file.write(line[written:])
            except BaseException:
                file.truncate(end)
                raise
    except OSError as error:
        error.filename = str(path)
        raise


def sync(path: Path) -> None:
    """Wait until the file, or the names in the folder, would survive a loss of power."""
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def remove_unfinished(folder: Path) -> None:
    """Remove what a process left that was ended while it wrote."""
    for path in folder.glob("*.part"):
        path.unlink(missing_ok=True)
