"""Small fakes of the published files, and a web server that misbehaves on demand."""

import gzip
import hashlib
import io
import os
import tarfile
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from crossgrad.data.files import cifar

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
def cifar_pickles(cifar_batches: dict[str, bytes], monkeypatch: pytest.MonkeyPatch) -> dict[str, bytes]:
    """The same six batches as Python 2 wrote them, with their checksums in the place of the published ones.

    Python 2 knew no bytes: its strings are the opcode U, and arrays are rebuilt from such strings.
    """
    pickles = {}
    for name, data in cifar_batches.items():
        rows = np.frombuffer(data, np.uint8).reshape(RECORDS, 3073)
        pixels, labels = rows[:, 1:].tobytes(), rows[:, 0]
        old = b"\x80\x02}(U\x04datacnumpy.core.multiarray\n_reconstruct\ncnumpy\nndarray\nK\x00\x85U\x01b\x87R"
        old += b"(K\x01K" + bytes([RECORDS]) + b"M\x00\x0c\x86cnumpy\ndtype\nU\x02u1K\x00K\x01\x87R"
        old += b"(K\x03U\x01|NNNJ\xff\xff\xff\xffJ\xff\xff\xff\xffK\x00tb\x89"
        old += b"T" + len(pixels).to_bytes(4, "little") + pixels + b"tb"
        old += b"U\x06labels](" + b"".join(b"K" + bytes([label]) for label in labels) + b"eu."
        pickles[name.removesuffix(".bin")] = old
        monkeypatch.setitem(cifar.PICKLED_MD5, name.removesuffix(".bin"), hashlib.md5(old).hexdigest())
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
        self.asked: list[str] = []  # path of every request
        self.sends_at_most: int | None = None  # bytes of body per answer, whatever Content-Length says
        self.states_length = True
        self.status: int | None = None  # answers this to everything
        self.redirects_to: str | None = None
        self.url = ""

    def answer(self, handler: BaseHTTPRequestHandler) -> None:
        self.asked.append(handler.path)
        if self.redirects_to is not None:
            handler.send_response(302)
            handler.send_header("Location", self.redirects_to)
            handler.end_headers()
            return
        body = self.files.get(handler.path.lstrip("/"))
        if self.status is not None or body is None:
            handler.send_error(self.status or 404)
            return
        handler.send_response(200)
        if self.states_length:
            handler.send_header("Content-Length", str(len(body)))
        handler.end_headers()
        handler.wfile.write(body[: self.sends_at_most])


@pytest.fixture
def server() -> Iterator[Server]:
    state = Server()

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            state.answer(self)

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
