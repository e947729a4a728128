"""Atomic writes: a file is there whole or not at all, even if the process is killed while it writes."""

import errno
import json
import os
import stat
from collections.abc import Iterable
from pathlib import Path
from typing import IO, Any

from crossgrad._storage.damage import damaged

MAX_NOTE_BYTES = 1000  # of a file of one line


def write(path: Path, chunks: Iterable[bytes | memoryview]) -> None:
    """Write a temporary file, sync it to the disk and rename it: a reader sees either the old file or the new one."""
    unfinished = path.with_name(f"{path.name}.{os.getpid()}.part")
    try:
        unfinished.unlink(missing_ok=True)
        with unfinished.open("xb") as file:  # never through an existing link
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


def read_note(path: Path) -> str:
    """The text of a file of one line in a run's folder."""
    with open_regular(path, follow=False) as file:
        return file.read(MAX_NOTE_BYTES).decode(errors="replace").strip()


class NoFileError(ValueError):
    """The path is no regular file of its folder: a link, a pipe, a device or a folder."""


def read_json(path: Path, max_bytes: int = 1 << 24) -> Any:
    """Read a JSON file of a run's or sweep's folder, which may come from elsewhere.

    Raises:
        NoFileError: it is no regular file.
        DamagedFileError: it has more bytes than that, or is no JSON.
    """
    with open_regular(path, follow=False) as file:
        content = file.read(max_bytes + 1)
    if len(content) > max_bytes:
        raise damaged(path, f"it must have at most {max_bytes:,} bytes; found more")
    try:
        return json.loads(content)
    except (ValueError, RecursionError):
        raise damaged(path, "it must be JSON; found something else") from None


def read_json_object(path: Path) -> dict[str, Any]:
    """Read a JSON file that holds one object, in the same way."""
    content = read_json(path)
    if not isinstance(content, dict):
        raise damaged(path, f"it must be a JSON object; found a {type(content).__name__}")
    return content


def open_regular(path: Path, follow: bool = True) -> IO[bytes]:
    """Open a file for reading, but no pipe or device, on which reading might never end.

    Args:
        path: the file.
        follow: whether it may be a link; of a folder that may come from elsewhere, no.
    """
    return open(path, "rb", opener=lambda name, flags: open_handle(name, flags, follow))


def open_handle(path: str | Path, flags: int, follow: bool = False) -> int:
    """Open a regular file as a handle of the system, by default without following a link.

    Raises:
        NoFileError: it is a link, a pipe, a device or a folder; or it is to be written and has another name elsewhere.
    """
    writes = flags & (os.O_WRONLY | os.O_RDWR)
    flags |= getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_CLOEXEC", 0)
    if not follow:
        flags |= getattr(os, "O_NOFOLLOW", 0)
    try:
        handle = os.open(path, flags, 0o666)
    except OSError as error:
        if error.errno in (errno.ELOOP, errno.ENXIO, errno.EISDIR) or (not follow and Path(path).is_symlink()):
            raise NoFileError(f"{path} must be a file; found a link, a pipe or a folder. Remove it.") from None
        raise
    about = os.fstat(handle)
    if not stat.S_ISREG(about.st_mode):
        os.close(handle)
        raise NoFileError(f"{path} must be a file; found a pipe, a device or a folder. Remove it.")
    if writes and about.st_nlink > 1:
        os.close(handle)
        raise NoFileError(
            f"{path} must be a file of one name; found {about.st_nlink} names (hard links), so that another file would "
            "be written, too. Put a copy in its place."
        )
    return handle


def append(path: Path, line: bytes) -> None:
    """Append a line to a file. If the disk has no space for all of it, the file keeps its former length."""
    try:
        handle = open_handle(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        try:
            append_to(handle, line)
        finally:
            os.close(handle)
    except OSError as error:
        error.filename = str(path)
        raise


def append_to(handle: int, line: bytes) -> None:
    """Append a line to an open file, or nothing of it if it cannot be written whole."""
    end, written = os.lseek(handle, 0, os.SEEK_END), 0
    try:
        while written < len(line):
            written += os.write(handle, line[written:])
    except BaseException:
        os.ftruncate(handle, end)
        raise


def truncate(path: Path, size: int) -> None:
    """Shorten a file to `size` bytes."""
    handle = open_handle(path, os.O_WRONLY)
    try:
        os.ftruncate(handle, size)
    finally:
        os.close(handle)


def check_folder(path: Path) -> None:
    """Raise ValueError if the path is a link, which could lead out of the run's folder, or a file."""
    if path.is_symlink():
        raise ValueError(f"{path} must be a folder; found a link. Remove the link.")
    if path.exists() and not path.is_dir():
        raise ValueError(f"{path} must be a folder; found a file. Remove it.")


def sync(path: Path) -> None:
    """Wait until the file, or the names in the folder, would survive a loss of power."""
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def remove_unfinished(folder: Path) -> None:
    """Delete `*.part` files left by a process that was killed while writing."""
    check_folder(folder)
    for path in folder.glob("*.part"):
        path.unlink(missing_ok=True)
