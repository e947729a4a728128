"""The command line in an empty folder: how it is called, and what is looked at."""

import fcntl
import gzip
import json
import os
import pty
import struct
import subprocess
import termios
from pathlib import Path

import numpy as np
import pytest
from safetensors.torch import load_file

from crossgrad.data import load
from crossgrad.experiments.files import read

SMALL = """
name = "small"
agents = 4
partition = "class"
model = { name = "mlp", hidden = [16] }
graph = "ring"
algorithm = { name = "dpmsgd", momentum = 0.9 }
schedule = { name = "constant", lr = 0.05 }
training = { steps = 6, evaluate_every = 2, threads = 1 }
"""
WAIT = 100  # seconds for a process, which takes three on a machine that has nothing else to do


@pytest.fixture(autouse=True)
def nowhere(monkeypatch, tmp_path, terminal_signals):
    """An empty folder to work in, 80 columns, the signals of a terminal, and no data sets on this machine."""
    (tmp_path / "work").mkdir()
    monkeypatch.chdir(tmp_path / "work")
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    for name in ("CROSSGRAD_DATA", "FORCE_COLOR", "PY_COLORS", "TTY_COMPATIBLE", "TTY_INTERACTIVE"):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture
def small() -> Path:
    """A run of a moment."""
    path = Path("small.toml")
    path.write_text(SMALL)
    return path


@pytest.fixture
def files() -> set[str]:
    """The names in the folder of a run that has ended."""
    records = {"agents.json", "records.jsonl", "model.safetensors", "summary.json"}
    return {"experiment.toml", "versions.json", "lock"} | records


@pytest.fixture
def start(forks):
    def call(*arguments: object, **options: object):
        """The command in a process of its own."""
        command = ["-m", "crossgrad", *arguments]
        streams = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
        return forks.start(command, **(streams | options))

    return call


@pytest.fixture
def only_run():
    def call(folder: str | Path = "runs") -> Path:
        """The folder of the only run there was."""
        (run,) = Path(folder).iterdir()
        return run

    return call


@pytest.fixture
def records_of():
    def call(run: Path) -> list[dict]:
        return [json.loads(line) for line in (run / "records.jsonl").read_text().splitlines()]

    return call


@pytest.fixture
def summary_of():
    def call(run: Path) -> dict:
        return json.loads((run / "summary.json").read_text())

    return call


@pytest.fixture
def accuracy_of():
    def call(run: Path) -> float:
        """The accuracy of the model that a run left behind, with nothing of crossgrad but its layers."""
        experiment, test = read(run / "experiment.toml"), load("digits").test
        module = experiment.model.build(test.shape, 10)
        module.load_state_dict(load_file(run / "model.safetensors"))
        return float((module(test.inputs).argmax(dim=1) == test.labels).double().mean())

    return call


@pytest.fixture
def is_one_sentence():
    def call(answer, *words: str):
        """Whether a user's mistake was answered as it should be."""
        assert answer.status == 2
        assert answer.out == ""
        assert answer.err.startswith("crossgrad: ")
        assert answer.err.count("\n") == 1
        assert "Traceback" not in answer.err
        missing = [word for word in words if word not in answer.err]
        assert not missing, answer.err
        return True

    return call


@pytest.fixture
def fake_mnist():
    def call(folder: Path) -> Path:
        """Forty images of noise in files as the real ones."""
        folder.mkdir(parents=True)
        rng = np.random.default_rng(0)
        for prefix in ("train", "t10k"):
            for kind, array in (
                ("images-idx3", rng.integers(0, 256, (40, 28, 28))),
                ("labels-idx1", np.arange(40) % 10),
            ):
                header = bytes([0, 0, 8, array.ndim]) + np.array(array.shape, ">u4").tobytes()
                content = gzip.compress(header + array.astype(np.uint8).tobytes())
                (folder / f"{prefix}-{kind}-ubyte.gz").write_bytes(content)
        return folder

    return call


@pytest.fixture
def on_a_terminal(start):
    def call(*arguments: object, columns: int = 80) -> tuple[int, str]:
        """Status and output of the command on a terminal of this width."""
        ours, theirs = pty.openpty()
        fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
        environment = {**os.environ, "TERM": "xterm-256color"}
        del environment["COLUMNS"]
        process = start(*arguments, stdin=theirs, stdout=theirs, stderr=theirs, env=environment)
        os.close(theirs)
        chunks = []
        try:
            while chunk := os.read(ours, 65536):
                chunks.append(chunk)
        except OSError:  # on Linux the end of a terminal is an error
            pass
        os.close(ours)
        return process.wait(timeout=WAIT), b"".join(chunks).decode()

    return call
