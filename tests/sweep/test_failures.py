"""What goes wrong in one cell is that cell's own matter: it is named with its reason, and the others are run."""

import errno
import json
import multiprocessing
import os
import signal
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path

import pytest

from crossgrad._cli.worker_pool import PoolProgress, WorkerPool
from crossgrad._runs.runner import REPEAT_SECONDS, SilentListener, Stop
from crossgrad._sweep.grid import read_grid
from crossgrad._sweep.memory_gate import MemoryGate
from crossgrad._sweep.worker import FAILED, Worker, folder_of

FEW = """
name = "few"
[experiment]
agents = 3
partition = "iid"
model = { name = "mlp", hidden = [4] }
algorithm = "dpsgd"
training = { steps = 4, evaluate_every = 2, batch_size = 8 }
[axes]
seed = [0, 1]
"""


def few(axes):
    Path("few.toml").write_text(FEW + axes)
    return read_grid("few.toml").cells


def run_all(cells, **options):
    Worker(Path("sweeps/few"), SilentListener(), Stop(), **options).run_all(cells)
    return {cell.experiment.name: folder_of(Path("sweeps/few"), cell) for cell in cells}


@pytest.mark.parametrize(
    ("axes", "bad", "reason"),
    [
        (
            '[axes.data]\nhere = { graph = "ring" }\n'
            'nowhere = { graph = "ring", data = { name = "mnist", root = "no" } }',
            "nowhere",
            "mnist",
        ),
        (
            '[axes.graph]\nlist = { graph = { name = "edge-list", path = "no-such-list.txt" } }\n'
            'ring = { graph = "ring" }',
            "list",
            "no-such-list.txt",
        ),
    ],
    ids=["data", "edge-list"],
)
def test_a_cell_whose_file_does_not_exist_ends_no_worker(axes, bad, reason, monkeypatch, tmp_path):
    monkeypatch.delenv("CROSSGRAD_DATA", raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    for name, folder in run_all(few(axes)).items():
        if bad in name:
            assert reason in (folder / FAILED).read_text()
            assert not (folder / "summary.json").exists()
        else:
            assert json.loads((folder / "summary.json").read_text())["ended"] == "finished"


def test_a_cell_that_fails_in_an_unforeseen_way_is_named_and_the_others_run(monkeypatch):
    from crossgrad._training.trainer import Training

    step, seen = Training.step, []

    def broken(training):
        seen.append(training.settings.seed)
        if training.settings.seed == 0:
            raise ZeroDivisionError("by zero")
        step(training)

    monkeypatch.setattr(Training, "step", broken)
    first, second = run_all(few('graph = ["ring"]')).values()
    assert (first / FAILED).read_text().startswith("ZeroDivisionError: by zero (test_failures.py, line ")
    assert (second / "summary.json").exists()


def test_a_cell_that_began_on_a_full_disk_counted_as_failed_instead_of_waiting(monkeypatch):
    from crossgrad._storage import atomic
    from crossgrad._sweep import worker

    write, full, said = atomic.write, iter([True, True]), []

    class Listener(SilentListener):
        def paused(self, problem):
            said.append(problem)

    def write_unless_full(path, chunks):
        if next(full, False):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(path))
        write(path, chunks)

    monkeypatch.setattr(atomic, "write", write_unless_full)
    monkeypatch.setattr(worker, "RETRY_SECONDS", 0.01)
    cells = few('graph = ["ring"]')
    Worker(Path("sweeps/few"), Listener(), Stop()).run_all(cells)
    folders = [folder_of(Path("sweeps/few"), cell) for cell in cells]
    assert all((folder / "summary.json").exists() and not (folder / FAILED).exists() for folder in folders)
    assert [problem.partition(": ")[2] for problem in said] == ["No space left on device"] * 2


def test_a_worker_that_waits_for_space_can_be_stopped(monkeypatch):
    from crossgrad._storage import atomic

    stop = Stop()

    def full(path, chunks):
        stop.signal = signal.SIGTERM
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(path))

    monkeypatch.setattr(atomic, "write", full)
    Worker(Path("sweeps/few"), SilentListener(), stop).run_all(few('graph = ["ring"]'))


class UnprintableError(Exception):
    def __str__(self):
        raise ZeroDivisionError


@pytest.mark.parametrize(
    "error", [SystemExit("bye"), GeneratorExit(), KeyboardInterrupt(), UnprintableError()], ids=repr
)
def test_a_plug_in_that_calls_exit_in_a_cell_ended_the_worker(error, monkeypatch):
    from crossgrad._training.trainer import Training

    step = Training.step

    def broken(training):
        if training.settings.seed == 0:
            raise error
        step(training)

    monkeypatch.setattr(Training, "step", broken)
    first, second = run_all(few('graph = ["ring"]')).values()
    assert (first / FAILED).read_text().startswith(type(error).__name__)
    assert (second / "summary.json").exists()


ODD_MODEL = """
import os
from torch import nn
import crossgrad

@crossgrad.register("model", "odd")
def odd(shape, classes, kind: str) -> nn.Module:
    with open("tries.txt", "a") as file:
        file.write(kind + "\\n")
    if kind == "away":
        os.mkdir("elsewhere")
        os.chdir("elsewhere")
    if kind == "shapes":
        raise RuntimeError("mat1 and mat2 shapes cannot be multiplied")
    if kind == "nothing":
        raise SystemExit
    return nn.Sequential(nn.Flatten(), nn.Linear(64, classes))
"""


@pytest.fixture
def odd():
    """A sweep with cells whose models fail when they are built."""
    Path("odd.py").write_text(ODD_MODEL)
    text = FEW.replace('{ name = "mlp", hidden = [4] }', '"odd"')
    Path("odd.toml").write_text(text.replace("seed = [0, 1]", '"model.kind" = ["away", "shapes", "nothing", "well"]'))
    return ("sweep", "odd.toml", "graph=ring", "--plugin", "odd.py", "--jobs", 2)


def test_a_plug_in_that_changes_the_folder_or_fails_spoilt_the_cells_after_it(odd, apart):
    """Other cells were written into the new folder, each worker tried a failed cell, and errors were lack of memory."""
    status, out, _ = apart(*odd)
    assert status == 1
    assert "2 of 4 cells have ended" in out
    assert "shapes: RuntimeError: mat1 and mat2 shapes cannot be multiplied (odd.py, line 14)." in out
    assert "nothing: SystemExit (odd.py, line 16)." in out
    assert not list(Path("elsewhere").rglob("sweeps"))
    tries = Path("tries.txt").read_text().split()
    assert [tries.count(kind) for kind in ("shapes", "nothing")] == [1, 1]


@dataclass
class EndedProcess:
    """A worker process that has ended, or that never does, as far as the pool looks at it."""

    exitcode: int | None

    def is_alive(self):
        return self.exitcode is None

    def start(self):
        pass


@pytest.mark.parametrize(
    ("exitcode", "reason"),
    [(0, "(status 0)"), (7, "(status 7)"), (-9, "from outside (signal 9)"), (-11, "crashed (signal 11)")],
)
def test_a_worker_that_ends_by_itself_in_a_cell_is_replaced_and_the_cell_named(exitcode, reason):
    cells = few('graph = ["ring"]')
    sweep, context = Path("sweeps/few"), multiprocessing.get_context("spawn")
    folder_of(sweep, cells[0]).mkdir(parents=True)
    progress, ends = PoolProgress(context, 1, len(cells)), iter([exitcode, None])
    pool = WorkerPool(sweep, cells, MemoryGate(sweep, 1), progress, lambda _: EndedProcess(next(ends)), 1)
    progress.begin(0, 0)
    assert pool.alive()
    assert reason in (folder_of(sweep, cells[0]) / FAILED).read_text()
    assert not progress.begin(0, 0)
    assert progress.begin(0, 1)


@pytest.mark.timeout(200)
def test_sigterm_to_the_whole_process_group_of_a_sweep_saves_its_cells(start, until, crossgrad):
    """As `timeout` and batch systems send it: to the command and to its workers at once."""
    process = start("sweep", "small.toml", "training.steps=100000", "--jobs", 2, "--checkpoint-every", 600)
    until(lambda: len(list(Path("sweeps/small/cells").glob("*/records.jsonl"))) >= 2)
    time.sleep(1)
    os.killpg(process.pid, signal.SIGTERM)
    assert process.wait(timeout=100) == 128 + signal.SIGTERM
    log = Path("log-0.txt").read_text()
    assert "Traceback" not in log
    assert "Stopped. Run the same command again to resume." in log
    begun = [path.parent for path in Path("sweeps/small/cells").glob("*/records.jsonl")]
    assert all(list((cell / "checkpoints").glob("step-*.safetensors")) for cell in begun)


def test_a_signal_that_comes_several_times_within_a_moment_is_one_wish_to_stop():
    with Stop() as stop:
        for _ in range(20):
            os.kill(os.getpid(), signal.SIGTERM)
        assert stop.wanted


def test_a_second_signal_after_a_while_interrupts_once_and_a_storm_no_more(monkeypatch):
    monkeypatch.setitem(REPEAT_SECONDS, signal.SIGTERM, 0.0)
    before = signal.getsignal(signal.SIGTERM)
    with Stop(ends_process=True):
        os.kill(os.getpid(), signal.SIGTERM)
        time.sleep(0.01)
        with pytest.raises(KeyboardInterrupt):
            os.kill(os.getpid(), signal.SIGTERM)
        for _ in range(100):
            os.kill(os.getpid(), signal.SIGTERM)
    os.kill(os.getpid(), signal.SIGTERM)  # about to end: nothing is left to interrupt
    signal.signal(signal.SIGTERM, before)


LATE_SIGNAL = """
import os, signal, sys
from crossgrad._runs.runner import Stop

class Late:
    def __del__(self):  # as Python ends, when its own signal handlers are gone
        os.kill(os.getpid(), signal.SIGTERM)

with Stop(ends_process=True):
    os.kill(os.getpid(), signal.SIGTERM)
late = Late()
sys.exit(7)
"""


def test_a_signal_while_python_ended_changed_the_status_of_a_run_that_was_saved():
    assert subprocess.run([sys.executable, "-c", LATE_SIGNAL], timeout=60).returncode == 7


@pytest.mark.timeout(200)
def test_a_storm_of_signals_ends_without_a_traceback(start, until):
    process = start("sweep", "small.toml", "training.steps=100000", "--jobs", 1, "--checkpoint-every", 0.5)
    until(lambda: list(Path("sweeps/small/cells").glob("*/checkpoints/step-*.safetensors")))
    for _ in range(400):
        process.send_signal(signal.SIGINT)  # nothing once it has ended
        time.sleep(0.02)
    assert process.wait(timeout=100) in (128 + signal.SIGINT, -signal.SIGINT)
    assert "Traceback" not in Path("log-0.txt").read_text()


@pytest.mark.parametrize("name", ["../../../x", "/tmp/x", "a/b", "..", ".hidden", "", "x" * 200, "a\\nb"])
def test_a_grid_whose_name_leads_elsewhere_writes_nothing(name, crossgrad):
    Path("evil.toml").write_text(FEW.replace('"few"', json.dumps(name)) + 'graph = ["ring"]')
    before = sorted(Path().rglob("*"))
    status, _, err = crossgrad("sweep", "evil.toml")
    assert status == 2
    assert "name must be the name of one folder" in err
    assert sorted(Path().rglob("*")) == before


def test_escape_sequences_in_labels_do_not_reach_the_terminal(crossgrad, apart):
    Path("few.toml").write_text(FEW + '[axes.graph]\n"\\u001b[31mred" = { graph = "ring" }')
    status, out, err = apart("sweep", "few.toml", "--jobs", 1)
    assert status == 0
    _, rows, _ = crossgrad("query", "sweeps/few", "SELECT graph FROM cells")
    assert "\x1b" not in out + err + rows
    assert "\\x1b[31mred" in rows
