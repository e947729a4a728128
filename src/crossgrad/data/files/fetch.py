"""Published data sets, downloaded by pooch and verified by their publishers' checksums."""

import os
from collections.abc import Callable, Sequence
from pathlib import Path
from urllib.parse import urlsplit

from crossgrad.data.files.folders import DATA_VARIABLE, cache_folder, home_expanded, needed
from crossgrad.data.files.sources import SOURCES, RemoteFile
from crossgrad.data.files.streams import CHUNK_BYTES

DownloadProgress = Callable[[str, int, int | None], None]  # file name, bytes so far, bytes in all
TIMEOUT_SECONDS = 30.0  # without an answer
ATTEMPTS_PER_MIRROR = 2  # of each mirror


class FetchError(OSError):
    """A file could not be downloaded; the message says which, why, and what to do."""


def fetch(
    name: str,
    into: str | Path | None = None,
    progress: DownloadProgress | None = None,
    mirrors: Sequence[str] | None = None,
) -> Path:
    """Download a data set and return its folder, where `load` finds it.

    Files that are there and have the publisher's checksum are left alone. A file appears under its name only when it is
    whole and verified; a download that was interrupted starts again from its first byte.

    Args:
        name: mnist, fashion-mnist or cifar10.
        into: the folder that gets the folder `name`; by default $CROSSGRAD_DATA, or else the user's cache.
        progress: called with file name, bytes so far and bytes in all.
        mirrors: addresses (http or https) to use in place of the publisher's, tried in order.

    Returns:
        The folder that holds the files.

    Raises:
        FetchError: no mirror delivers a file, or the folder cannot be written.
        ValueError: there is no such data set, or a mirror is not a web address.
    """
    needed(name)  # refuses an unknown name
    published = SOURCES[name]
    bases = [_checked_mirror(base) for base in (published.mirrors if mirrors is None else mirrors)]
    folder = target_folder(name, into)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for file in published.files:
            _fetch_file(file, bases, folder, progress)
    except FetchError:
        raise
    except OSError as error:
        raise FetchError(
            f"{name} must be written to {folder}; that fails ({error.strerror or error}). "
            f"Choose another folder, or set {DATA_VARIABLE}."
        ) from error
    return folder


def target_folder(name: str, into: str | Path | None = None) -> Path:
    """The folder to fetch `name` into: one of its own name, as file names of MNIST and Fashion-MNIST agree."""
    base = into or os.environ.get(DATA_VARIABLE) or cache_folder()
    if base is None:
        raise ValueError(
            f"{name} must be kept in some folder; found no home folder. Pass a folder, or set {DATA_VARIABLE}."
        )
    base = home_expanded(base)
    return base if base.name == name else base / name


class _Bar:
    """Receives pooch's progress, and stops a server that sends more than the file's published size."""

    def __init__(self, file: RemoteFile, progress: DownloadProgress | None) -> None:
        self.file, self.progress, self.total, self.done = file, progress, file.size, 0
        self.update(0)

    def update(self, count: int) -> None:
        self.done += count  # pooch counts whole chunks, also where the last one is shorter
        if self.done >= self.file.size + CHUNK_BYTES:
            raise ValueError(f"it is longer there than the {self.file.size:,} bytes that are expected")
        if self.progress is not None:
            self.progress(self.file.name, min(self.done, self.file.size), self.file.size)

    def reset(self) -> None:
        self.done = 0

    def close(self) -> None:
        pass


def _fetch_file(file: RemoteFile, bases: list[str], folder: Path, progress: DownloadProgress | None) -> None:
    import pooch  # these two take 0.2 s to import
    import requests

    pooch.get_logger().setLevel("ERROR")
    checksum = f"md5:{file.md5}"
    if (folder / file.name).is_file() and pooch.hashes.hash_matches(folder / file.name, checksum):
        return
    failures: dict[str, str] = {}
    for base in bases * ATTEMPTS_PER_MIRROR:
        store = pooch.create(folder, base, registry={file.name: checksum})
        bar = _Bar(file, progress)
        try:
            store.fetch(file.name, downloader=pooch.HTTPDownloader(bar, CHUNK_BYTES, timeout=TIMEOUT_SECONDS))
            return
        except (ValueError, requests.exceptions.RequestException) as error:
            failures[base] = f"{base}{file.name}: {' '.join(str(error).split())}"
    reasons = "; ".join(failures.values()) or "no mirror is given"
    raise FetchError(
        f"{file.name} could not be fetched ({reasons}). "
        f"Try again later, pass another mirror, or copy the file to {folder}."
    )


def _checked_mirror(base: str) -> str:
    if urlsplit(base).scheme not in ("http", "https"):
        raise ValueError(f"a mirror must be an address of http:// or https://; found {base!r}. Pass another one.")
    return base.rstrip("/") + "/"
