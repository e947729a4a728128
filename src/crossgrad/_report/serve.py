"""A live page of a run or a sweep, for browsers on this machine only."""

import hashlib
import json
import threading
import time
from collections.abc import Sequence
from functools import partial
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

from crossgrad._report.collect import dumps
from crossgrad._report.page import read_page_data, render
from crossgrad._report.plain import Plain

HERE = "127.0.0.1"
FILES = ("records.jsonl", "summary.json", "agents.json", "failed.txt")


class LiveContent:
    """The data of the page, read again when files have changed, but for at most a tenth of the time.

    A large sweep takes seconds to read, and the runs need the processor.
    """

    def __init__(self, folders: Sequence[Path]) -> None:
        self.folders = folders
        self._lock = threading.Lock()
        self._seen: object = None
        self._next = 0.0  # when to look again at the earliest
        self._data: Plain = {}
        self._content = b""
        self.content()

    def content(self) -> bytes:
        """The data as JSON."""
        with self._lock:
            began = time.monotonic()
            if began >= self._next and (seen := self._state()) != self._seen:
                self._data = read_page_data(self.folders)
                self._content = dumps(self._data).encode()
                self._seen, now = seen, time.monotonic()
                self._next = now + 9 * (now - began)
            return self._content

    def page(self) -> bytes:
        """The whole page."""
        self.content()
        return render(self._data, live=True).encode()

    def _state(self) -> object:
        """Sizes and times of all files that are read: a value that changes when one of them does."""
        cells = [cell for folder in self.folders for cell in sorted(folder.glob("cells/*")) or [folder]]
        paths = [self.folders[0] / "reproduction.json", *(cell / name for cell in cells for name in FILES)]
        facts = ((path, path.stat()) for path in paths if path.exists())
        return [(path, fact.st_mtime_ns, fact.st_size) for path, fact in facts]


class Handler(BaseHTTPRequestHandler):
    """Serves the page and its data."""

    def __init__(self, live: LiveContent, *of_the_server: object) -> None:
        self.live = live
        super().__init__(*of_the_server)  # type: ignore[arg-type]

    def do_GET(self) -> None:
        """Respond to a request of a browser."""
        path = self.path.partition("?")[0]
        try:
            if self.headers.get("Host", "").partition(":")[0] not in (HERE, "localhost"):
                # Refuses pages of other hosts whose name resolves to this machine (DNS rebinding).
                self._respond(403, "text/plain; charset=utf-8", b"This page is for browsers on its own machine.\n")
            elif path == "/":
                self._respond(200, "text/html; charset=utf-8", self.live.page())
            elif path == "/data.json":
                self._respond_data(self.live.content())
            else:
                self._respond(404, "text/plain; charset=utf-8", b"There is only one page here: /\n")
        except (
            ValueError,
            OSError,
        ) as error:  # a cell that is just being made, or a damaged file: the page shows the reason
            if isinstance(error, BrokenPipeError | ConnectionResetError):
                return
            self._respond(503, "application/json", json.dumps({"problem": str(error)}).encode())

    def log_message(self, format: str, *arguments: object) -> None:
        """Print nothing: requests are not logged."""

    def _respond_data(self, content: bytes) -> None:
        tag = f'"{hashlib.sha256(content).hexdigest()[:32]}"'
        if self.headers.get("If-None-Match") == tag:
            self._respond(304, "application/json", b"", tag)
        else:
            self._respond(200, "application/json", content, tag)

    def _respond(self, status: int, kind: str, content: bytes, tag: str = "") -> None:
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Cache-Control", "no-store")
        if tag:
            self.send_header("ETag", tag)
        if status != 304:
            self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)


def make_server(folders: Path | Sequence[Path], port: int) -> ThreadingHTTPServer:
    """A server of the page of a folder, or of several sites' runs, on this machine; port 0 is any that is free."""
    live = LiveContent([folders] if isinstance(folders, Path) else folders)
    try:
        return ThreadingHTTPServer((HERE, port), partial(Handler, live))
    except OSError as error:
        raise ValueError(
            f"--port must be one that is free; {port} cannot be used: {error.strerror}. Name another, or 0 for any."
        ) from None
