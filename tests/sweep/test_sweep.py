"""A sweep runs every cell once, whatever is stopped, killed or started twice, and its results can be queried."""

import json
import os
import shutil
import signal
import sqlite3
import threading
from dataclasses import replace
from pathlib import Path

import pytest
from safetensors.torch import load_file

from crossgrad._runs.folder import RunFolder
from crossgrad._runs.results import PACKED, pack_results, read_results, united
from crossgrad._runs.runner import SilentListener, Stop
from crossgrad._sweep.grid import read_grid
from crossgrad._sweep.store import Store
from crossgrad._sweep.worker import Worker, folder_of

LONG = "training.steps=1500"


def models(sweep):
    """Every cell's averaged model, as the bytes of its tensors."""
    files = {path.parent.name: load_file(path) for path in sweep.glob("cells/*/model.safetensors")}
    return {cell: {name: t.numpy().tobytes() for name, t in tensors.items()} for cell, tensors in files.items()}


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """A sweep that nothing disturbed, made once: its folder."""
    return tmp_path_factory.mktemp("whole")


@pytest.fixture
def undisturbed(whole, apart):
    if not (whole / "small").exists():
        status, out, err = apart("sweep", "small.toml", "--out", whole, "--jobs", 1)
        assert (status, err) == (0, "")
        assert "8 of 8 cells have ended." in out
    return whole / "small"


def test_a_cell_is_the_run_that_crossgrad_run_would_make(undisturbed, crossgrad, grid):
    cell = folder_of(undisturbed, grid.cells[0])
    status, out, _ = crossgrad("run", cell / "experiment.toml", "training.threads=1", "-q", "--out", "alone")
    assert status == 0
    assert read_results(out.strip())[0].last.loss == read_results(cell)[0].last.loss
    assert read_results(cell)[0].last.step == 12


def test_cells_that_have_ended_are_not_run_again(undisturbed, crossgrad):
    before = {path: path.stat().st_mtime_ns for path in undisturbed.glob("cells/*/summary.json")}
    status, out, _ = crossgrad("sweep", "small.toml", "--out", undisturbed.parent)
    assert status == 0
    assert "8 cells, 8 of them run before." in out
    assert {path: path.stat().st_mtime_ns for path in undisturbed.glob("cells/*/summary.json")} == before


def test_results_can_be_queried(undisturbed, crossgrad, grid):
    status, out, _ = crossgrad("query", undisturbed, "SELECT method, graph, seed, loss FROM cells ORDER BY cell")
    assert status == 0
    head, *rows = [line.split("\t") for line in out.splitlines()]
    assert head == ["method", "graph", "seed", "loss"]
    losses = {tuple(result.labels.values()): result.last.loss for result in read_results(undisturbed)}
    assert {(graph, seed, method): float(loss) for method, graph, seed, loss in rows} == losses
    _, out, _ = crossgrad("query", undisturbed, "SELECT count(*) FROM records")
    assert out.split() == ["count(*)", str(8 * 4)]


@pytest.mark.parametrize(
    ("sql", "reason"),
    [
        ("DROP TABLE cells", "authoriz"),
        ("DELETE FROM records", "authoriz"),
        ("VACUUM INTO 'copy.sqlite'", "authoriz"),
        ("ATTACH 'other.sqlite' AS other", "authoriz"),
        ("PRAGMA writable_schema = 1", "authoriz"),
        ("CREATE TEMP TABLE t (a)", "authoriz"),
        ("SELECT nonsense", "no such column: nonsense"),
        ("", "the query is empty"),
        ("SELECT 1; SELECT 2", "one statement at a time"),
    ],
)
def test_a_query_that_is_none_or_would_change_something_is_refused(undisturbed, crossgrad, sql, reason):
    status, out, err = crossgrad("query", undisturbed, sql)
    assert (status, out) == (2, "")
    assert err.startswith("crossgrad: ")
    assert reason in err
    assert err.count("\n") == 1
    assert "cells (cell, ended, reason, step," in err
    assert "method" in err, "the labels are columns too"
    assert not list(Path().glob("*.sqlite")), "a query has written a file"
    _, out, _ = crossgrad("query", undisturbed, "SELECT count(*) FROM cells")
    assert out.split()[-1] == "8"


def test_selecting_all_of_the_cells_prints_no_json(undisturbed, crossgrad):
    _, out, _ = crossgrad("query", undisturbed, "SELECT * FROM cells")
    assert "{" not in out
    _, out, _ = crossgrad("query", undisturbed, "SELECT experiment FROM experiments LIMIT 1")
    assert json.loads(out.splitlines()[1])["agents"] == 4


def test_a_store_of_an_earlier_version_is_made_again(undisturbed):
    with sqlite3.connect(undisturbed / "results.sqlite") as database:
        database.execute("ALTER TABLE cells ADD COLUMN experiment TEXT")
    Store(undisturbed).refresh()
    columns, rows = Store(undisturbed).query("SELECT * FROM cells")
    assert "experiment" not in columns
    assert len(rows) == 8


def test_the_store_is_made_again_from_the_cells_folders(undisturbed):
    def content():
        with sqlite3.connect(undisturbed / "results.sqlite") as database:
            return [sorted(database.execute(f"SELECT * FROM {table}"), key=str) for table in ("cells", "records")]

    before = content()
    (undisturbed / "results.sqlite").unlink()
    Store(undisturbed).refresh()
    assert content() == before


def test_many_may_write_into_the_store_at_once(undisturbed, tmp_path):
    results = read_results(undisturbed)
    threads = [
        threading.Thread(target=lambda r=result: [Store(tmp_path).add(r, r.labels) for _ in range(5)])
        for result in results
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    _, rows = Store(tmp_path).query("SELECT cell, count(*) FROM records GROUP BY cell")
    assert dict(rows) == {result.name: 4 for result in results}


def test_a_packed_sweep_reads_as_the_sweep_itself(undisturbed, tmp_path):
    pack_results(read_results(undisturbed), tmp_path / PACKED)
    assert read_results(tmp_path) == read_results(undisturbed)
    first = (tmp_path / PACKED).read_bytes()
    pack_results(read_results(tmp_path), tmp_path / PACKED)
    assert (tmp_path / PACKED).read_bytes() == first


def test_packing_adds_to_what_was_packed_before_and_spoils_no_other_folder(undisturbed, crossgrad):
    status, out, _ = crossgrad("pack", undisturbed, "packed")
    assert status == 0
    assert "8 runs are packed in packed" in out
    every = read_results("packed")
    assert every == read_results(undisturbed)
    pack_results(every[:5], Path("packed", PACKED))  # as if these three were packed on another day
    assert crossgrad("pack", undisturbed, "packed")[1].rstrip().endswith("5 of them from before")
    assert read_results("packed") == every
    Path("other").mkdir()
    Path("other", "mine").touch()
    status, _, err = crossgrad("pack", undisturbed, "other")
    assert status == 2
    assert "must be new, empty or one that was packed into; other is not" in err


def test_a_sweep_beside_packed_runs_has_both(undisturbed, tmp_path):
    every = read_results(undisturbed)
    shutil.copytree(undisturbed / "cells", tmp_path / "cells")
    for run in every[:3]:
        shutil.rmtree(tmp_path / "cells" / run.name)
    begun = [replace(run, summary=None, records=()) for run in every[3:]]
    pack_results(every[:3] + begun, tmp_path / PACKED)
    assert read_results(tmp_path) == every
    assert united(every, begun) == every  # a run that only began does not replace one that ended


@pytest.mark.parametrize("damage", [b"", b"{}\n", b"nonsense"])
def test_a_damaged_pack_is_refused(undisturbed, tmp_path, damage):
    pack_results(read_results(undisturbed), tmp_path / PACKED)
    whole = (tmp_path / PACKED).read_bytes()
    (tmp_path / PACKED).write_bytes(damage or whole[:-20])
    with pytest.raises(ValueError, match="is damaged"):
        read_results(tmp_path)


def test_killed_and_started_again_it_ends_as_if_nothing_had_been(start, until, apart):
    """All processes are killed at once, then a stop is asked for, then it runs to its end."""
    text = Path("small.toml").read_text().replace("seed = [0, 1]", "seed = [0]").replace(', "fully-connected"', "")
    Path("small.toml").write_text(text)
    steps = ("training.steps=150", "training.evaluate_every=50")
    arguments = ("sweep", "small.toml", *steps, "--checkpoint-every", 0, "--jobs", 1)
    process = start(*arguments, "--out", "killed")
    until(lambda: list(Path("killed").glob("small/cells/*/checkpoints/*")))
    os.killpg(process.pid, signal.SIGKILL)
    assert process.wait() == -signal.SIGKILL
    ended = len(list(Path("killed").glob("small/cells/*/summary.json")))
    assert ended < 2

    def workers():
        return {path.read_text() for path in Path("killed").glob("small/cells/*/lock")} - {""}

    before = workers()
    process = start(*arguments, "--out", "killed")
    until(lambda: workers() - before)
    process.send_signal(signal.SIGTERM)
    status = process.wait(100)
    assert status in (128 + signal.SIGTERM, 0)  # 0 if it ended before the signal came
    log = Path("log-1.txt").read_text()
    assert status == 0 or "Run the same command again to resume." in log
    assert "Traceback" not in log

    status, out, _ = apart("sweep", "small.toml", *steps, "--jobs", 1, "--out", "killed")
    assert status == 0
    assert "2 of 2 cells have ended." in out
    Worker(Path("calm/small"), SilentListener(), Stop()).run_all(read_grid("small.toml", steps).cells)
    assert models(Path("killed/small")) == models(Path("calm/small"))


def test_a_cell_that_cannot_be_run_does_not_keep_the_others_from_it(apart):
    text = Path("small.toml").read_text().replace('graph = ["ring", "fully-connected"]', "agents = [5000, 4]")
    Path("small.toml").write_text(text.replace("agents = 4", 'graph = "ring"', 1))
    status, out, _ = apart("sweep", "small.toml", "--out", "some", "--jobs", 1)
    assert status == 1
    assert out.count("Could not be run: 5000, ") == 4
    assert "4 of 8 cells have ended." in out


def test_a_cell_that_somebody_is_at_is_left_to_them(apart, grid):
    folder = folder_of(Path("busy/small"), grid.cells[0])
    folder.mkdir(parents=True)
    held = RunFolder(folder)
    held.lock()
    status, out, _ = apart("sweep", "small.toml", "--out", "busy", "--jobs", 1)
    held.unlock()
    assert status == 1
    assert "7 of 8 cells have ended." in out
    assert not (folder / "experiment.toml").exists()


def test_a_worker_killed_in_a_cell_ended_the_sweep_with_the_other_cells_not_run(start, until):
    both = 'graph = "ring", algorithm = "dpsgd"'
    long = f'long = {{ {both}, "training.steps" = 1000000 }}\nshort = {{ {both} }}'
    Path("small.toml").write_text(Path("small.toml").read_text().partition("[axes]")[0] + f"[axes.length]\n{long}\n")
    process = start("sweep", "small.toml", "--out", "lost", "--jobs", 1)
    until(lambda: list(Path("lost").glob("small/cells/*/records.jsonl")))
    (cell,) = Path("lost").glob("small/cells/*")
    os.kill(int((cell / "lock").read_text()), signal.SIGKILL)
    assert process.wait(100) == 1
    log = Path("log-0.txt").read_text()
    assert "Could not be run: long: its process was ended from outside (signal 9); is there enough memory?" in log
    assert "1 of 2 cells have ended." in log
    assert not (cell / "summary.json").exists()


def test_cells_can_be_jobs_of_an_engine(crossgrad, undisturbed):
    pytest.importorskip("submitit")
    status, out, _ = crossgrad("sweep", "small.toml", "--out", "jobs", "--cluster", "local", "--jobs", 2)
    assert status == 0
    assert "8 of 8 cells have ended." in out
    assert models(Path("jobs/small")) == models(undisturbed)


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (("--cluster", "slrum"), "--cluster must be one of slurm, local; found 'slrum'."),
        (("--cluster", "local", "--option", "timeout"), "--option must be key=value"),
        (("--cluster", "local", "--option", "nonsense=3"), "takes these jobs; local does not"),
        (("--cluster", "slurm"), "takes these jobs; slurm does not"),
    ],
)
def test_what_a_cluster_cannot_do_is_said(crossgrad, monkeypatch, arguments, sentence):
    monkeypatch.setenv("PATH", "")
    status, _, err = crossgrad("sweep", "small.toml", "--out", "none", *arguments)
    assert status == 2
    assert sentence in err
    assert "Traceback" not in err


def test_labels_survive_in_the_cells_folders(undisturbed, grid):
    assert {tuple(r.labels.items()) for r in read_results(undisturbed)} == {tuple(c.labels.items()) for c in grid.cells}
    cell = folder_of(undisturbed, grid.cells[0]) / "cell.json"
    assert json.loads(cell.read_text()) == {"labels": grid.cells[0].labels, "steps": 12}
