"""What goes wrong in one cell is that cell's own matter: it is named with its reason, and the others are run."""

import json
import os
import signal
import time
from pathlib import Path

import pytest

from crossgrad._cli.overview import Overview, _last_record
from crossgrad._runs.results import read_results
from crossgrad._runs.runner import REPEAT_SECONDS, SilentListener, Stop
from crossgrad._sweep.grid import read_grid
from crossgrad._sweep.store import Store
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


def damage_summary(cell):
    (cell / "summary.json").write_text("{")


def damage_record(cell):
    with (cell / "records.jsonl").open("a") as file:
        file.write("[]\n")


def damage_experiment(cell):
    (cell / "experiment.toml").write_text("agents = ")


def damage_labels(cell):
    (cell / "cell.json").write_text('{"labels": [1]}')


def link_summary(cell):
    (cell / "summary.json").unlink()
    (cell / "summary.json").symlink_to("/dev/zero")


DAMAGE = [damage_summary, damage_record, damage_experiment, damage_labels, link_summary]


@pytest.mark.parametrize("damage", DAMAGE, ids=lambda damage: damage.__name__)
def test_one_damaged_cell_is_set_aside_by_sweep_store_overview_pack_and_report(damage, crossgrad):
    cells = few('graph = ["ring", "star", "chain"]')
    folders = list(run_all(cells).values())
    bad = folders[1]
    damage(bad)
    (Path("sweeps/few") / "results.sqlite").unlink()
    damaged = {}
    assert len(read_results("sweeps/few", damaged)) == len(cells) - 1
    assert damaged.keys() == {bad.name}
    Store(Path("sweeps/few")).refresh()
    _, ((count,),) = Store(Path("sweeps/few")).query("SELECT count(*) FROM cells")
    assert count == len(cells) - 1
    status, out, err = crossgrad("pack", "sweeps/few", "packed")
    assert status == 0
    assert f"{len(cells) - 1} runs are packed" in out
    assert bad.name in err
    status, _, err = crossgrad("report", "sweeps/few", "--out", "page.html")
    assert (status, err) == (0, "")
    assert bad.name in Path("page.html").read_text()


def test_a_sweep_with_a_damaged_cell_names_it_and_ends_with_status_1(crossgrad):
    cells = few('graph = ["ring", "star"]')
    folders = list(run_all(cells[:3]).values())
    damage_summary(folders[0])
    status, out, _ = crossgrad("sweep", "few.toml", "--jobs", 1)
    assert status == 1
    assert f"Could not be run: {cells[0].experiment.name}: " in out
    assert "summary.json is damaged" in out
    assert "3 of 4 cells have ended." in out


@pytest.mark.parametrize("line", [b"[]\n", b"7\n", b'{"step": "x"}\n', b"{\n", b"[" * 100_000 + b"\n"])
def test_a_last_record_that_is_none_does_not_crash_the_overview(line, tmp_path):
    (tmp_path / "records.jsonl").write_bytes(line)
    assert _last_record(tmp_path / "records.jsonl") is None


def test_an_overview_of_a_damaged_cell_keeps_it_open(tmp_path):
    import io

    from rich.console import Console

    cells = few('graph = ["ring"]')
    damage_summary(next(iter(run_all(cells).values())))
    overview = Overview(Path("sweeps/few"), cells, Console(file=io.StringIO()))
    overview.look()
    assert overview.waiting == cells[:1]
    assert "summary.json is damaged" in overview.failures()[0]


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
    assert "Stopped. The same command goes on where it was." in log
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


@pytest.mark.timeout(200)
def test_a_storm_of_signals_ends_without_a_traceback(start, until):
    process = start("sweep", "small.toml", "training.steps=100000", "--jobs", 1, "--checkpoint-every", 0.5)
    until(lambda: list(Path("sweeps/small/cells").glob("*/checkpoints/step-*.safetensors")))
    for _ in range(400):
        if process.poll() is not None:
            break
        os.kill(process.pid, signal.SIGINT)
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


def test_escape_sequences_in_labels_do_not_reach_the_terminal(crossgrad):
    Path("few.toml").write_text(FEW + '[axes.graph]\n"\\u001b[31mred" = { graph = "ring" }')
    status, out, err = crossgrad("sweep", "few.toml", "--jobs", 1)
    assert status == 0
    _, rows, _ = crossgrad("query", "sweeps/few", "SELECT graph FROM cells")
    assert "\x1b" not in out + err + rows
    assert "\\x1b[31mred" in rows
