"""One file from a web server: resumed where it stopped, verified, and put in place all at once."""

import hashlib
import http.client
import os
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import IO, Any

from crossgrad.data.files.sources import RemoteFile
from crossgrad.data.files.streams import CHUNK

Progress = Callable[[str, int, int | None], None]  # file name, bytes held, bytes in all
TIMEOUT = 30.0  # seconds without an answer


class FetchError(OSError):
    """A file could not be fetched; the sentence says which, why, and what to do."""


class MirrorError(FetchError):
    """What asking the same server again would not mend."""


def is_verified(path: Path, file: RemoteFile) -> bool:
    """Whether `path` is that file, whole and unchanged."""
    return path.is_file() and path.stat().st_size == file.size and checksum(path) == file.md5


def checksum(path: Path) -> str:
    """The file's md5, which is what the publishers give."""
    with path.open("rb") as stream:
        return hashlib.file_digest(stream, lambda: hashlib.md5(usedforsecurity=False)).hexdigest()


def download(url: str, file: RemoteFile, folder: Path, progress: Progress) -> None:
    """Fetch `file` from `url` into `folder`, by way of a .part file that a later call takes up again."""
    part = folder / f"{file.name}.part"
    held = part.stat().st_size if part.exists() else 0
    if held > file.size:
        part.unlink()
        held = 0
    if held < file.size:
        _receive(url, file, part, held, progress)
    if (size := part.stat().st_size) < file.size:
        raise FetchError(f"the answer stopped after {size:,} of {file.size:,} bytes")
    if (found := checksum(part)) != file.md5:
        part.unlink()
        # After a resumption the fault may lie in what was held before: a try from the start may mend it.
        raise (FetchError if held else MirrorError)(f"its checksum should be {file.md5}, but is {found}")
    with part.open("rb+") as written:
        os.fsync(written.fileno())  # or a power cut could leave the final name on an empty file
    os.replace(part, folder / file.name)


def _receive(url: str, file: RemoteFile, part: Path, held: int, progress: Progress) -> None:
    with _ask(url, part, held) as answer:
        start = held if _resumes(answer, held) else 0
        length = answer.headers.get("Content-Length")
        if length is not None and length.isdigit() and start + int(length) != file.size:
            raise MirrorError(f"it has {start + int(length):,} bytes there, but {file.size:,} are expected")
        progress(file.name, start, file.size)
        with part.open("ab" if start else "wb") as sink:
            for piece in _pieces(answer):
                sink.write(piece[: file.size - start])
                start += len(piece)
                if start > file.size:
                    break
                progress(file.name, start, file.size)
    if start > file.size:
        part.unlink()
        raise MirrorError(f"it is longer there than the {file.size:,} bytes that are expected")


def _ask(url: str, part: Path, held: int) -> Any:
    request = urllib.request.Request(url, headers={"User-Agent": "crossgrad"})
    if held:
        request.add_header("Range", f"bytes={held}-")
    try:
        return _opener().open(request, timeout=TIMEOUT)
    except urllib.error.HTTPError as error:
        error.close()
        if error.code == http.HTTPStatus.REQUESTED_RANGE_NOT_SATISFIABLE:
            part.unlink(missing_ok=True)
            raise FetchError("the server cannot resume what was begun") from error
        again = error.code >= 500 or error.code in (408, 429)
        raise (FetchError if again else MirrorError)(f"the server says {error.code} {error.reason}") from error
    except (OSError, http.client.HTTPException) as error:
        raise FetchError(f"the server gives no answer ({getattr(error, 'reason', None) or error})") from error


def _opener() -> urllib.request.OpenerDirector:
    """Asks by http and https only, also when redirected: urllib's own opener reads files and ftp as well."""
    opener = urllib.request.OpenerDirector()
    for handler in (
        urllib.request.ProxyHandler(),
        urllib.request.UnknownHandler(),
        urllib.request.HTTPHandler(),
        urllib.request.HTTPSHandler(),
        urllib.request.HTTPDefaultErrorHandler(),
        urllib.request.HTTPRedirectHandler(),
        urllib.request.HTTPErrorProcessor(),
    ):
        opener.add_handler(handler)
    return opener


def _resumes(answer: Any, held: int) -> bool:
    """Whether the answer goes on where the part ends; a server that ignores the question sends all (200)."""
    if answer.status != http.HTTPStatus.PARTIAL_CONTENT:
        return False
    if not str(answer.headers.get("Content-Range", "")).startswith(f"bytes {held}-"):
        raise MirrorError("the server resumes elsewhere than it was asked to")
    return True


def _pieces(answer: IO[bytes]) -> Iterator[bytes]:
    while True:
        try:
            piece = answer.read(CHUNK)
        except (OSError, http.client.HTTPException) as error:
            raise FetchError(f"the connection broke ({error})") from error
        if not piece:
            return
        yield piece
