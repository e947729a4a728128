"""Cells of one command begin when there is memory for them, and the overview shows how far they are."""

import io
import multiprocessing
import os
import signal
import threading
import time
from pathlib import Path

import pytest
from rich.console import Console

from crossgrad._cli.overview import Overview
from crossgrad._forecast.memory import Forecast
from crossgrad._runs.runner import SilentListener, Stop
from crossgrad._sweep.memory_gate import MemoryGate, Reservation, StoppedError
from crossgrad._sweep.worker import Worker, folder_of

GB = 1e9


def needs(size):
    return Forecast({"all of it": size}, agents=1, parameters=1)


@pytest.fixture
def gate(tmp_path):
    return MemoryGate(tmp_path, workers=3, size=10 * GB)


def test_cells_that_fit_beside_one_another_are_let_in(gate):
    assert gate.take(0, 6 * GB)
    assert gate.take(1, 4 * GB)
    assert not gate.take(2, 1 * GB)
    gate.leave(1)
    assert gate.take(2, 4 * GB)


def test_what_fits_nowhere_is_let_in_alone(gate):
    """Whether it can be run at all is for the experiment to say."""
    assert gate.take(0, 12 * GB)
    assert not gate.take(1, 1.0)
    gate.leave(0)
    assert gate.take(1, 1.0)


def test_what_waits_is_let_in_when_others_have_left_and_says_so_once(gate):
    said = []
    gate.take(0, 8 * GB)
    slot = Reservation(gate, 1, Stop(), said.append)
    waiting = threading.Thread(target=slot.enter, args=(needs(3 * GB),))
    waiting.start()
    deadline = time.monotonic() + 60
    while not said:
        assert time.monotonic() < deadline
        time.sleep(0.01)
    assert waiting.is_alive()
    gate.leave(0)
    waiting.join(10)
    assert not waiting.is_alive()
    assert gate.taken[1] == 3 * GB
    assert said == ["Cells that need 3.0 GB of memory wait until other cells have ended."]


def test_a_stop_ends_the_waiting(gate):
    gate.take(0, 8 * GB)
    stop = Stop()
    stop.signal = signal.SIGINT
    with pytest.raises(StoppedError):
        Reservation(gate, 1, stop, print).enter(needs(3 * GB))
    assert gate.taken[1] == 0.0


def _die_in(gate):
    gate.take(0, 8 * GB)
    os.kill(os.getpid(), signal.SIGKILL)


@pytest.mark.filterwarnings("ignore:.*use of fork:DeprecationWarning")
def test_a_reservation_is_the_same_for_all_processes_and_survives_one_that_is_killed(gate):
    process = multiprocessing.get_context("fork").Process(target=_die_in, args=(gate,))
    process.start()
    process.join(60)
    assert process.exitcode == -signal.SIGKILL
    assert not gate.take(1, 3 * GB)
    gate.leave(0)
    assert gate.take(1, 3 * GB)


class Counting(SilentListener):
    steps = 0

    def step(self):
        self.steps += 1


def test_a_stop_while_waiting_leaves_the_cell_unbegun_and_others_can_take_it(gate, grid):
    stop, cell = Stop(), grid.cells[0]
    stop.signal = signal.SIGTERM
    gate.take(0, 10 * GB)
    Worker(Path("waiting"), SilentListener(), stop, slot=Reservation(gate, 1, stop, print)).run(cell)
    folder = folder_of(Path("waiting"), cell)
    assert [path.name for path in folder.iterdir()] == ["lock"]
    listener = Counting()
    Worker(Path("waiting"), listener, Stop()).run(cell)
    assert listener.steps == 12


FREE_800_MB_AND_RUN = """
from pathlib import Path
import torch
from crossgrad._cli.freed_memory import keep_freed_memory
from crossgrad._forecast.memory import _resident
from crossgrad._runs.runner import SilentListener, Stop
from crossgrad._sweep.grid import read_grid
from crossgrad._sweep.memory_gate import MemoryGate, Reservation
from crossgrad._sweep.worker import Worker

keep_freed_memory()
gate, before = MemoryGate(Path(), workers=3, size=10e9), _resident()
blocks = [torch.ones(1 << 20) for _ in range(200)]
del blocks  # which a tuned malloc keeps
assert _resident() - before > 700e6
cell = read_grid("small.toml").cells[0]
Worker(Path("memory"), SilentListener(), Stop(), slot=Reservation(gate, 0, Stop(), print)).run(cell)
assert list(gate.taken) == [0.0] * 3
print(_resident() - before)
"""


def test_a_cells_memory_is_gone_when_the_next_one_begins(forks):
    """A tuned process keeps what is freed, which would count twice in the next forecast."""
    ended = forks.run(["-c", FREE_800_MB_AND_RUN])
    assert ended.returncode == 0, ended.stderr
    assert 0 <= float(ended.stdout) < 400e6


def test_the_overview_knows_how_far_a_cell_is_between_two_evaluations(grid):
    class Halfway(SilentListener):
        """Asks for a stop after the second of twelve steps, which the first evaluation is two steps away from."""

        def __init__(self, stop):
            self.stop, self.steps = stop, 0

        def step(self):
            self.steps += 1
            if self.steps == 2:
                self.stop.signal = signal.SIGTERM

    stop = Stop()
    Worker(Path("far"), Halfway(stop), stop).run(grid.cells[0])
    overview = Overview(Path("far"), grid.cells[:2], Console(file=io.StringIO()))
    assert overview.open[0].done == pytest.approx(2 / 12)
    assert overview.share == pytest.approx(2 / 12 / 2)
