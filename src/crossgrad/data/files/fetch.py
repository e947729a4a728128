"""Published data sets, downloaded and verified."""

import os
import time
from collections.abc import Sequence
from pathlib import Path
from urllib.parse import urlsplit

from crossgrad.data.files.download import FetchError, MirrorError, Progress, download, is_verified
from crossgrad.data.files.folders import VARIABLE, cache_folder, home_expanded, needed
from crossgrad.data.files.sources import SOURCES, RemoteFile

ROUNDS = 3  # times every mirror is asked
PAUSE = 1.0  # seconds between the rounds


def fetch(
    name: str,
    into: str | Path | None = None,
    progress: Progress | None = None,
    mirrors: Sequence[str] | None = None,
) -> Path:
    """Download data set `name` into the folder `into`/`name` and return that folder, where `load` finds it.

    Without `into` it goes to $CROSSGRAD_DATA, or else to the user's cache. Files that are there and verified
    are left alone; a download that was cut short is resumed. `mirrors` are addresses to use in place of the
    publisher's; `progress` is called with file name, bytes so far and bytes in all.
    """
    needed(name)  # refuses a name that nobody knows
    published = SOURCES[name]
    bases = [_checked(base) for base in (published.mirrors if mirrors is None else mirrors)]
    folder = target_folder(name, into)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for file in published.files:
            if not is_verified(folder / file.name, file):
                _fetch_file(file, bases, folder, progress or _silent)
    except FetchError:
        raise
    except OSError as error:
        raise FetchError(
            f"{name} should be written to {folder}, but that fails ({error.strerror or error}); "
            f"choose another folder, or set {VARIABLE}."
        ) from error
    return folder


def target_folder(name: str, into: str | Path | None = None) -> Path:
    """The folder to fetch `name` into: one of its own name, as file names of MNIST and Fashion-MNIST agree."""
    base = into or os.environ.get(VARIABLE) or cache_folder()
    if base is None:
        raise ValueError(f"There is no home folder to keep {name} in; pass a folder, or set {VARIABLE}.")
    base = home_expanded(base)
    return base if base.name == name else base / name


def _fetch_file(file: RemoteFile, bases: list[str], folder: Path, progress: Progress) -> None:
    failures: dict[str, FetchError] = {}
    for number in range(ROUNDS):
        hopeful = [base for base in bases if not isinstance(failures.get(base), MirrorError)]
        if number and hopeful:
            time.sleep(PAUSE)
        for base in hopeful:
            try:
                return download(base + file.name, file, folder, progress)
            except FetchError as error:
                failures[base] = error
    reasons = "; ".join(f"{base}{file.name}: {error}" for base, error in failures.items()) or "no mirror is given"
    part = folder / f"{file.name}.part"
    raise FetchError(
        f"{file.name} could not be fetched ({reasons}); "
        + (
            f"what arrived is kept in {part}, and running this again resumes there."
            if part.exists() and part.stat().st_size
            else f"try again later, pass another mirror, or copy the file to {folder}."
        )
    )


def _checked(base: str) -> str:
    if urlsplit(base).scheme not in ("http", "https"):
        raise ValueError(f"A mirror is an address of http:// or https://, but {base!r} is not; pass another one.")
    return base.rstrip("/") + "/"


def _silent(name: str, done: int, total: int | None) -> None:
    """Progress that nobody asked for."""
