"""A site's journal: who took part in which of its steps, one JSON line per event, in the order in which it happened.

A line is written before anything that depends on it is sent, so whatever a neighbour has counted of a site is in that
site's journal, however it ended. On a full disk the lines of the step under way are written once there is space; a site
that is killed before that lacks them.
"""

import json
import os
import threading
from collections import deque
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

from pydantic import TypeAdapter, ValidationError

from crossgrad._storage import atomic

JOURNAL = "journal.jsonl"  # in the folder of a site's run
MAX_LINE_BYTES = 1 << 20


class Started(NamedTuple):
    """A process began: with the first model, or from the checkpoint that was saved in an earlier epoch."""

    epoch: int
    step: int
    saved: tuple[int, int] | None = None  # epoch and step of the checkpoint
    version: int = 1  # of the federation's file


class Offered(NamedTuple):
    """This site's model before this step is about to be sent to a site that has none."""

    epoch: int
    step: int


class Adopted(NamedTuple):
    """The model that a neighbour had before a step was taken over."""

    epoch: int
    step: int
    peer: int
    peer_epoch: int
    peer_step: int


class Began(NamedTuple):
    """A step began with these neighbours: for each its number, its epoch, and how many of its links take part."""

    epoch: int
    step: int
    degree: int
    partners: tuple[tuple[int, int, int], ...]


class Lost(NamedTuple):
    """These neighbours do not count from this exchange of the step on."""

    epoch: int
    step: int
    exchange: int
    peers: tuple[int, ...]


class Saved(NamedTuple):
    """A checkpoint of the state before this step is about to be written."""

    epoch: int
    step: int


class Ended(NamedTuple):
    """The run has ended, with this digest of the model."""

    epoch: int
    step: int
    digest: str


Event = Started | Offered | Adopted | Began | Lost | Saved | Ended
EVENT_TYPES: dict[str, type[Event]] = {
    "started": Started, "offered": Offered, "adopted": Adopted, "began": Began, "lost": Lost, "saved": Saved,
    "ended": Ended,
}  # fmt: skip
NAMES = {kind: name for name, kind in EVENT_TYPES.items()}
READERS = {name: TypeAdapter[Event](kind) for name, kind in EVENT_TYPES.items()}  # each takes a millisecond to make


class Journal:
    """The journal of one site, appended to for as long as the run lasts.

    Where the disk has no space for an event it is kept, so that the step under way can be taken; `catch_up` tells.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._lock = threading.Lock()
        self._unwritten: deque[bytes] = deque()
        self._handle = atomic.open_handle(path, os.O_RDWR | os.O_CREAT | os.O_APPEND)
        with os.fdopen(
            os.dup(self._handle), "rb"
        ) as written:  # a line that was cut off when the last process ended goes
            os.ftruncate(self._handle, written.read().rfind(b"\n") + 1)

    def add(self, event: Event) -> None:
        """Append an event, or keep it until it can be written."""
        line = json.dumps({"event": NAMES[type(event)]} | event._asdict()) + "\n"
        with self._lock:
            self._unwritten.append(line.encode())
        with suppress(OSError):  # `catch_up` raises it between two steps, when the site can wait
            self.catch_up()

    def catch_up(self) -> None:
        """Write the events that could not be written when they were added. Raises OSError while that is so."""
        with self._lock:
            while self._unwritten:
                try:
                    atomic.append_to(self._handle, self._unwritten[0])
                except OSError as error:
                    error.filename = str(self._path)
                    raise
                self._unwritten.popleft()

    def close(self) -> None:
        os.close(self._handle)


def read_journal(path: Path) -> list[Event]:
    """The events of a journal. An incomplete last line is left out, as nothing has depended on it."""
    return list(_events(path))


def last_epoch(path: Path) -> int:
    """The largest epoch in a journal, -1 if there is none yet."""
    return max((event.epoch for event in _events(path)), default=-1) if path.exists() else -1


def _events(path: Path) -> Iterator[Event]:
    with atomic.open_regular(path, follow=False) as lines:
        number = 0
        while line := lines.readline(MAX_LINE_BYTES):
            number += 1
            if not line.endswith(b"\n"):
                return
            yield _event(path, number, line)


def _event(path: Path, number: int, line: bytes) -> Event:
    try:
        content: dict[str, Any] = json.loads(line)
        return READERS[content.pop("event")].validate_python(content)
    except (ValueError, KeyError, TypeError, AttributeError, ValidationError):
        raise ValueError(
            f"{path}, line {number}, must be an event of a journal; found {line[:80]!r}. Restore the file."
        ) from None
