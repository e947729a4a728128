"""Small fakes of the published files, and a web server that misbehaves on demand."""

import gzip
import io
import os
import pickle
import tarfile
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import numpy as np
import pytest

RECORDS = 12


@pytest.fixture(scope="session")
def real_data() -> Path:
    folder = os.environ.get("CROSSGRAD_DATA")
    if not folder:
        pytest.skip("CROSSGRAD_DATA does not say where the real data sets are")
    return Path(folder)


@pytest.fixture
def alone(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """No data anywhere: neither $CROSSGRAD_DATA nor a filled cache; returns the empty cache's parent."""
    monkeypatch.delenv("CROSSGRAD_DATA", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return tmp_path / "cache"


@pytest.fixture
def idx() -> Callable[[np.ndarray], bytes]:
    """The bytes of an IDX file of single bytes."""

    def encode(array: np.ndarray) -> bytes:
        header = bytes([0, 0, 8, array.ndim]) + np.array(array.shape, ">u4").tobytes()
        return header + array.astype(np.uint8).tobytes()

    return encode


@pytest.fixture
def fake_mnist(idx: Callable[[np.ndarray], bytes]) -> Callable[[Path], Path]:
    """Writes 20 training and 10 test images."""

    def write(folder: Path) -> Path:
        folder.mkdir(parents=True, exist_ok=True)
        rng = np.random.default_rng(0)
        for prefix, count in (("train", 20), ("t10k", 10)):
            images, labels = rng.integers(0, 256, (count, 28, 28)), np.arange(count) % 10
            (folder / f"{prefix}-images-idx3-ubyte.gz").write_bytes(gzip.compress(idx(images)))
            (folder / f"{prefix}-labels-idx1-ubyte.gz").write_bytes(gzip.compress(idx(labels)))
        return folder

    return write


@pytest.fixture
def records() -> int:
    """Images per batch of the fake CIFAR-10."""
    return RECORDS


@pytest.fixture
def cifar_batches() -> dict[str, bytes]:
    """Six binary batches, by file name."""
    rng = np.random.default_rng(0)
    batches = {}
    for name in (*(f"data_batch_{i}" for i in range(1, 6)), "test_batch"):
        rows = rng.integers(0, 256, (RECORDS, 3073), dtype=np.uint8)
        rows[:, 0] %= 10
        batches[f"{name}.bin"] = rows.tobytes()
    return batches


@pytest.fixture
def cifar_pickles(cifar_batches: dict[str, bytes]) -> dict[str, bytes]:
    """The same six batches as the Python version has them, in protocol 2."""
    pickles = {}
    for name, data in cifar_batches.items():
        rows = np.frombuffer(data, np.uint8).reshape(RECORDS, 3073)
        batch = {b"data": rows[:, 1:].copy(), b"labels": rows[:, 0].tolist(), b"filenames": [b"a.png"] * RECORDS}
        pickles[name.removesuffix(".bin")] = pickle.dumps(batch, protocol=2)
    return pickles


@pytest.fixture
def tar() -> Callable[..., Path]:
    """Writes a tar archive; mode is w, w:gz or w:xz."""

    def write(path: Path, members: dict[str, bytes], mode: str = "w") -> Path:
        path.parent.mkdir(parents=True, exist_ok=True)
        with tarfile.open(path, mode) as archive:  # type: ignore[call-overload]
            for name, data in members.items():
                info = tarfile.TarInfo(name)
                info.size = len(data)
                archive.addfile(info, io.BytesIO(data))
        return path

    return write


class Server:
    """A web server on this machine; `files` is what it serves, the switches how badly."""

    def __init__(self) -> None:
        self.files: dict[str, bytes] = {}
        self.asked: list[tuple[str, str | None]] = []  # path and Range of every request
        self.ignores_range = False
        self.refuses_range = False
        self.sends_at_most: int | None = None  # bytes of body per answer, whatever Content-Length says
        self.states_length = True
        self.status: int | None = None  # answers this to everything
        self.redirects_to: str | None = None
        self.shifts_range = 0
        self.url = ""

    def send_cross_gradients(self, handler: BaseHTTPRequestHandler) -> None:
        question = handler.headers.get("Range")
        self.asked.append((handler.path, question))
        if self.redirects_to is not None:
            handler.send_response(302)
            handler.send_header("Location", self.redirects_to)
            handler.end_headers()
            return
        body = self.files.get(handler.path.lstrip("/"))
        if self.status is not None or body is None:
            handler.send_error(self.status or 404)
            return
        start = 0
        if question and not self.ignores_range:
            start = int(question.removeprefix("bytes=").rstrip("-"))
            if self.refuses_range or start >= len(body):
                handler.send_error(416)
                return
            handler.send_response(206)
            handler.send_header("Content-Range", f"bytes {start + self.shifts_range}-{len(body) - 1}/{len(body)}")
        else:
            handler.send_response(200)
        if self.states_length:
            handler.send_header("Content-Length", str(len(body) - start))
        handler.end_headers()
        handler.wfile.write(body[start:][: self.sends_at_most])


@pytest.fixture
def server() -> Iterator[Server]:
    state = Server()

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            state.send_cross_gradients(self)

        def log_message(self, *_: Any) -> None:
            pass

    httpd = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=httpd.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    state.url = f"http://127.0.0.1:{httpd.server_port}"
    yield state
    httpd.shutdown()
    thread.join()
    httpd.server_close()
