"""A small grid, and the command that runs it."""

import contextlib
import os
import signal
import time
from pathlib import Path

import pytest

from crossgrad._sweep.grid import read_grid

GRID = """
name = "small"

[experiment]
agents = 4
partition = "class"
model = { name = "mlp", hidden = [8] }
schedule = { name = "constant", lr = 0.05 }
training = { steps = 12, evaluate_every = 4, batch_size = 8 }

[axes]
graph = ["ring", "fully-connected"]
seed = [0, 1]

[axes.method]
"CGA" = { algorithm = { name = "cga", momentum = 0.9 } }
"SGP" = { algorithm = "sgp" }
"""
WAIT = 100  # seconds for a process, which takes a few on a machine that has nothing else to do


@pytest.fixture(autouse=True)
def workplace(monkeypatch, tmp_path):
    """An empty folder to work in with the grid's file, and signals as a terminal would have them."""
    monkeypatch.chdir(tmp_path)
    Path("small.toml").write_text(GRID)
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.fixture
def grid():
    return read_grid("small.toml")


@pytest.fixture
def start(forks):
    """Starts the command as a process of its own, with its output in a file; ends it if the test does not."""
    processes = []

    def begin(*arguments):
        with open(f"log-{len(processes)}.txt", "w") as log:
            command, alone = ["-m", "crossgrad", *arguments], os.environ | {"OMP_NUM_THREADS": "1"}
            process = forks.start(command, env=alone, stdout=log, stderr=log, start_new_session=True)
        processes.append(process)
        return process

    yield begin
    for process in processes:
        if process.poll() is None:
            with contextlib.suppress(ProcessLookupError):  # it has ended a moment ago
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()


@pytest.fixture
def until():
    """Waits until something is so."""

    def wait(so):
        end = time.monotonic() + WAIT
        while not so():
            assert time.monotonic() < end, "waited too long"
            time.sleep(0.05)

    return wait
