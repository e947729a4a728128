"""One damaged cell is named and set aside; sweeps, queries, reports and packs go on with the rest."""

import io
import json
import os
import shutil
import signal
import sqlite3
import threading
from contextlib import closing
from pathlib import Path

import pytest
from rich.console import Console

from crossgrad._cli.overview import Overview, _last_record
from crossgrad._runs.results import read_results
from crossgrad._runs.runner import SilentListener, Stop
from crossgrad._sweep.grid import parse_grid
from crossgrad._sweep.store import Store
from crossgrad._sweep.worker import Worker, folder_of

THREE = """
name = "three"
[experiment]
agents = 3
partition = "iid"
graph = "ring"
model = { name = "mlp", hidden = [4] }
algorithm = "dpsgd"
training = { steps = 2, evaluate_every = 2, batch_size = 8 }
[axes]
seed = [0, 1, 2]
"""
CELLS = parse_grid(THREE).cells
SWEEP = Path("sweeps/three")


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """A sweep that has ended, to be copied."""
    folder = tmp_path_factory.mktemp("whole")
    Worker(folder, SilentListener(), Stop()).run_all(CELLS)
    return folder


@pytest.fixture
def bad(whole, monkeypatch, tmp_path):
    """The folder of a cell to be damaged, in a sweep whose store is to be made again."""
    monkeypatch.chdir(tmp_path)
    Path("three.toml").write_text(THREE)
    shutil.copytree(whole, SWEEP)
    (SWEEP / "results.sqlite").unlink()
    return folder_of(SWEEP, CELLS[1])


def change_summary(cell, **parts):
    path = cell / "summary.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | parts))


def damage_summary(cell):
    (cell / "summary.json").write_text("{")


def damage_reason(cell):
    change_summary(cell, reason={"a": 1})


def damage_record(cell):
    with (cell / "records.jsonl").open("a") as file:
        file.write("[]\n")


def cut_last_record(cell):
    path = cell / "records.jsonl"
    path.write_bytes(path.read_bytes()[:-20])


def drop_last_record(cell):
    path = cell / "records.jsonl"
    path.write_bytes(path.read_bytes().splitlines(keepends=True)[0])


def remove_records(cell):
    (cell / "records.jsonl").unlink()


def damage_experiment(cell):
    (cell / "experiment.toml").write_text("agents = ")


def date_in_experiment(cell):
    with (cell / "experiment.toml").open("r+") as file:
        text = file.read()
        file.seek(0)
        file.write("date = 2026-01-31\n" + text)


def damage_labels(cell):
    (cell / "cell.json").write_text('{"labels": [1]}')


def halve_a_character(cell):
    (cell / "cell.json").write_text('{"labels": {"seed": "\\ud800"}}')


def link_summary(cell):
    (cell / "summary.json").unlink()
    (cell / "summary.json").symlink_to("/dev/zero")


def link_experiment(cell):
    (cell / "experiment.toml").unlink()
    (cell / "experiment.toml").symlink_to("/dev/zero")


def remove_experiment(cell):
    (cell / "experiment.toml").unlink()


def loop_in_place_of_experiment(cell):
    (cell / "experiment.toml").unlink()
    (cell / "experiment.toml").symlink_to("experiment.toml")


def damage_versions(cell):
    (cell / "versions.json").write_text("[[1]]")


DAMAGE = [
    damage_summary,
    damage_reason,
    damage_record,
    cut_last_record,
    drop_last_record,
    remove_records,
    damage_experiment,
    date_in_experiment,
    damage_labels,
    halve_a_character,
    link_summary,
    link_experiment,
    remove_experiment,
    loop_in_place_of_experiment,
    damage_versions,
]


@pytest.mark.parametrize("damage", DAMAGE, ids=lambda damage: damage.__name__)
def test_one_damaged_cell_is_set_aside_by_sweep_store_query_pack_and_report(damage, bad, crossgrad):
    damage(bad)
    damaged = {}
    assert len(read_results(SWEEP, damaged)) == len(CELLS) - 1
    assert damaged.keys() == {bad.name}
    assert Store(SWEEP).refresh() == damaged
    status, out, err = crossgrad("query", SWEEP, "SELECT count(*) FROM cells")
    assert (status, out.split()[-1]) == (0, str(len(CELLS) - 1))
    assert f"{bad.name} is left out" in err
    status, out, err = crossgrad("pack", SWEEP, "packed")
    assert status == 0
    assert f"{len(CELLS) - 1} runs are packed" in out
    assert bad.name in err
    status, _, err = crossgrad("report", SWEEP, "--out", "page.html")
    assert (status, err) == (0, "")
    assert bad.name in Path("page.html").read_text()


def test_a_value_that_sqlite_cannot_hold_is_its_cells_own_matter(bad, monkeypatch):
    from crossgrad._sweep import store

    numbers, ends = store._numbers_of_record, iter([1.0, 10**30])
    monkeypatch.setattr(store, "_numbers_of_record", lambda record: numbers(record) | {"odd": next(ends, 1.0)})
    assert Store(SWEEP).refresh().keys() == {folder_of(SWEEP, CELLS[0]).name}
    _, ((cells, records),) = Store(SWEEP).query("SELECT (SELECT count(*) FROM cells), (SELECT count(*) FROM records)")
    assert (cells, records) == (2, 4)


def test_more_labels_than_a_table_has_columns_are_their_cells_own_matter(bad):
    (bad / "cell.json").write_text(json.dumps({"labels": {f"axis {n}": "x" for n in range(2001)}}))
    assert "can have 2000 columns" in Store(SWEEP).refresh()[bad.name]
    assert Store(SWEEP).query("SELECT count(*) FROM cells")[1] == [(2,)]


def test_a_reason_that_is_no_file_kept_the_page_from_being_written(bad, crossgrad):
    (bad / "failed.txt").mkdir()
    status, _, err = crossgrad("report", SWEEP, "--out", "page.html")
    assert (status, err) == (0, "")
    assert "failed.txt must be a file" in Path("page.html").read_text()


def test_a_sweep_with_a_damaged_cell_names_it_and_ends_with_status_1(bad, crossgrad, apart):
    damage_summary(bad)
    status, out, _ = apart("sweep", "three.toml", "--jobs", 1)
    assert status == 1
    assert f"Could not be run: {CELLS[1].experiment.name}: " in out
    assert "summary.json is damaged" in out
    assert "2 of 3 cells have ended." in out


def test_a_cell_that_was_damaged_after_its_end_is_named_by_the_next_sweep(bad, crossgrad, apart):
    damage_record(bad)
    status, out, _ = apart("sweep", "three.toml", "--jobs", 1)
    assert status == 1
    assert f"Left out of the results: {bad.name}: " in out
    assert "3 of 3 cells have ended." in out


@pytest.mark.parametrize("name", ["results.sqlite", "results.sqlite-journal"])
def test_a_link_in_place_of_the_stores_journal_leaves_its_target_alone(name, bad, crossgrad, apart):
    Path("victim").write_text("somebody's own\n")
    (SWEEP / name).symlink_to(Path("victim").resolve())
    status, _, err = apart("sweep", "three.toml", "--jobs", 1)
    assert status == 2
    assert f"{name} must be a file; found a link" in err
    assert Path("victim").read_text() == "somebody's own\n"


@pytest.mark.parametrize("name", ["results.sqlite-journal", "results.sqlite-wal"])
def test_a_query_waited_for_ever_for_a_pipe_in_place_of_sqlites_journal(name, bad, crossgrad):
    Store(SWEEP).refresh()
    os.mkfifo(SWEEP / name)
    status, _, err = crossgrad("query", SWEEP, "SELECT 1")
    assert status == 2
    assert f"{name} must be a file" in err


def test_a_view_in_place_of_a_table_kept_a_query_going_for_ever(bad, crossgrad):
    Store(SWEEP).refresh()
    with closing(sqlite3.connect(SWEEP / "results.sqlite")) as database:
        database.execute("DROP TABLE cells")
        endless = "WITH RECURSIVE c(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM c) SELECT x AS cell FROM c"
        database.execute(f"CREATE VIEW cells AS {endless}")
    status, _, err = crossgrad("query", SWEEP, "SELECT 1")
    assert status == 2
    assert "must have a table cells; found a view. Remove the file" in err


def test_ctrl_c_did_not_end_a_query_that_never_ends(bad):
    Store(SWEEP).refresh()
    endless = "WITH RECURSIVE c(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM c) SELECT count(*) FROM c"

    def ask():
        threading.Timer(0.5, os.kill, (os.getpid(), signal.SIGINT)).start()
        Store(SWEEP).query(endless)

    with pytest.raises(KeyboardInterrupt):
        ask()


def test_a_sweep_wrote_into_the_folder_that_a_link_in_its_own_leads_to(bad, apart):
    Path("victim").mkdir()
    shutil.rmtree(bad)
    bad.symlink_to(Path("victim").resolve())
    status, out, _ = apart("sweep", "three.toml", "--jobs", 1)
    assert status == 1
    assert f"{bad.name} must be a folder; found a link. Remove the link." in out
    shutil.rmtree(SWEEP / "cells")
    (SWEEP / "cells").symlink_to(Path("victim").resolve())
    status, _, err = apart("sweep", "three.toml", "--jobs", 1)
    assert (status, list(Path("victim").iterdir())) == (2, [])
    assert "cells must be a folder; found a link" in err


def test_a_file_in_place_of_a_cells_folder_is_named_as_such(bad, apart):
    """It was "[Errno 20] Not a directory: '.../failed.txt'"."""
    shutil.rmtree(bad)
    bad.write_text("somebody's own\n")
    status, out, _ = apart("sweep", "three.toml", "--jobs", 1)
    assert status == 1
    assert f"{bad.name} must be a folder; found a file. Remove it." in out
    assert bad.read_text() == "somebody's own\n"


def test_pack_copied_the_file_that_a_link_leads_to(bad, crossgrad):
    Path("secret").write_text("somebody's own\n")
    (SWEEP / "table.md").symlink_to(Path("secret").resolve())
    status, _, err = crossgrad("pack", SWEEP, "packed")
    assert status == 2
    assert "table.md must be a file; found a link" in err
    assert not Path("packed/table.md").exists()


@pytest.mark.parametrize("line", [b"[]\n", b"7\n", b'{"step": "x"}\n', b"{\n", b"[" * 100_000 + b"\n"])
def test_a_last_record_that_is_none_does_not_crash_the_overview(line, tmp_path):
    (tmp_path / "records.jsonl").write_bytes(line)
    assert _last_record(tmp_path / "records.jsonl") is None


def test_an_overview_of_a_damaged_cell_keeps_it_open(bad):
    damage_summary(bad)
    overview = Overview(SWEEP, CELLS, Console(file=io.StringIO()))
    overview.look()
    assert overview.waiting == CELLS[1:2]
    assert "summary.json is damaged" in overview.failures()[0]
