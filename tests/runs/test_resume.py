"""Runs that are stopped go on as if they had never been: files, bits, and what is said where that cannot be."""

import json
import os
import shutil
import signal
from pathlib import Path

import pytest

from crossgrad._runs.folder import RunFolder
from crossgrad._runs.runner import Stop
from crossgrad._storage import tensorfile
from crossgrad._storage.tensorfile import TensorFile
from crossgrad._training.trainer import Training

EXPERIMENT = """
name = "short"
agents = 4
partition = "class"
model = { name = "mlp", hidden = [8] }
graph = "ring"
algorithm = { name = "compcga", momentum = 0.9 }
schedule = { name = "cosine", lr = 0.05 }
training = { steps = 12, evaluate_every = 4, threads = 1, batch_size = 8 }
"""


@pytest.fixture(autouse=True)
def workplace(monkeypatch, tmp_path, terminal_signals):
    """An empty folder to work in, and signals as a terminal would have them."""
    monkeypatch.chdir(tmp_path)
    Path("short.toml").write_text(EXPERIMENT)


@pytest.fixture
def stopped(crossgrad, monkeypatch):
    """Starts a run and stops it by a signal after this many steps; its folder."""

    def stop(after, number=signal.SIGINT, *changes):
        step = Training.step

        def and_stop(training):
            step(training)
            if training.step_number == after:
                os.kill(os.getpid(), number)

        with monkeypatch.context() as patch:
            patch.setattr(Training, "step", and_stop)
            status, _, err = crossgrad("run", "short.toml", "-q", "--out", f"stopped-{after}", *changes)
        assert status == 128 + number
        (folder,) = Path(f"stopped-{after}").iterdir()
        assert err == f"Stopped after step {after}. `crossgrad resume {folder}` goes on from step {after}.\n"
        return folder

    return stop


def contents(folder):
    """What a run has written, but for the time it took."""
    records = [json.loads(line) | {"seconds": 0} for line in (folder / "records.jsonl").read_text().splitlines()]
    summary = json.loads((folder / "summary.json").read_text())
    summary["last_record"]["seconds"] = 0
    return records, summary, (folder / "model.safetensors").read_bytes()


def only(parent):
    (folder,) = Path(parent).iterdir()
    return folder


# The same bits


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_stopped_run_goes_on_as_if_it_had_never_stopped(crossgrad, stopped, number):
    assert crossgrad("run", "short.toml", "-q", "--out", "whole")[0] == 0
    folder = stopped(5, number)
    status, out, err = crossgrad("resume", folder)
    assert (status, err) == (0, "")
    assert f"Going on from step 5 of 12: {folder}\n" in out
    assert contents(folder) == contents(only("whole"))
    assert not (folder / "checkpoints").exists()


def test_the_last_good_models_survive_where_the_run_diverges_after_it_was_resumed(crossgrad, stopped):
    changes = ["schedule.lr=100", "algorithm=dpsgd", "training.evaluate_every=3", "training.steps=30"]
    assert crossgrad("run", "short.toml", "-q", "--out", "whole", *changes)[0] == 0
    folder = stopped(5, signal.SIGINT, *changes)
    assert crossgrad("resume", folder, "-q")[0] == 0
    assert contents(folder) == contents(only("whole"))
    assert contents(folder)[1]["ended"] == "diverged"


def test_records_that_were_written_after_the_checkpoint_are_written_again_and_once(crossgrad, stopped):
    folder = stopped(5)
    with (folder / "records.jsonl").open("a") as file:
        file.write('{"step": 8, "left": "by a process that was killed"}\n{"step": 12, "cut o')
    assert crossgrad("resume", folder, "-q")[0] == 0
    assert [record["step"] for record in contents(folder)[0]] == [0, 4, 8, 12]


def test_a_run_without_a_checkpoint_begins_again(crossgrad, stopped):
    folder = stopped(5)
    shutil.rmtree(folder / "checkpoints")
    status, out, _ = crossgrad("resume", folder)
    assert status == 0
    assert "Going on from the beginning" in out
    assert [record["step"] for record in contents(folder)[0]] == [0, 4, 8, 12]


def test_the_state_of_all_agents_is_kept_if_so_wished(crossgrad):
    assert crossgrad("run", "short.toml", "-q", "--out", "kept", "--keep-state")[0] == 0
    (path,) = (only("kept") / "checkpoints").iterdir()
    assert TensorFile(path).shapes["state.x"][0] == 4


# What cannot go on


def refused(answer, *words):
    """Whether it ended in one sentence that has these words."""
    status, out, err = answer
    return status == 2 and not out and err.count("\n") == 1 and all(word in err for word in words)


def test_a_damaged_checkpoint_is_named_and_the_one_before_it_is_used(crossgrad, stopped):
    assert crossgrad("run", "short.toml", "-q", "--out", "whole")[0] == 0
    folder = stopped(5, signal.SIGINT, "--checkpoint-every", "0")
    newest = folder / "checkpoints" / "step-5.agents-0-3.safetensors"
    content = bytearray(newest.read_bytes())
    content[-100] ^= 1
    newest.write_bytes(content)
    status, out, err = crossgrad("resume", folder)
    assert status == 0
    said = "its SHA-256 must be the one in its header; found another. Put back a copy, or move it away."
    assert err == f"Warning: {newest} is damaged: {said}\nWarning: an older checkpoint is used.\n"
    assert "Going on from step 4" in out
    assert contents(folder) == contents(only("whole"))


def test_a_run_that_has_ended_is_not_resumed(crossgrad):
    crossgrad("run", "short.toml", "-q", "--out", "whole")
    assert refused(crossgrad("resume", only("whole")), "has finished")


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda path: None, ["there is no such folder"]),
        (lambda path: path.write_text(""), ["there is no such folder"]),
        (lambda path: path.mkdir(), ["must be the folder of a run", "experiment.toml"]),
    ],
)
def test_what_is_no_folder_of_a_run_is_refused(crossgrad, make, words):
    make(Path("nothing"))
    assert refused(crossgrad("resume", "nothing"), "nothing", *words)


def test_a_changed_experiment_is_refused(crossgrad, stopped):
    folder = stopped(5)
    path = folder / "experiment.toml"
    path.write_text(path.read_text().replace("momentum = 0.9", "momentum = 0.8"))
    assert refused(crossgrad("resume", folder), "must be of the run's experiment.toml; that has been changed")


def test_a_run_went_on_with_another_graph_after_its_file_of_edges_was_changed(crossgrad, stopped):
    edges = Path("edges.txt")
    edges.write_text("0 1\n1 2\n2 3\n")
    folder = stopped(6, signal.SIGINT, f'graph={{name="edge-list", path="{edges.resolve()}"}}')
    edges.write_text("0 1\n1 2\n2 3\n3 0\n")
    status, _, err = crossgrad("resume", folder)
    assert status == 2
    assert "the graph must be what the run began with" in err
    edges.write_text("# the same graph\n2 3\n1 2\n0 1\n")
    assert crossgrad("resume", folder).status == 0


def test_a_file_of_another_format_is_refused(crossgrad, stopped):
    folder = stopped(5)
    (path,) = (folder / "checkpoints").iterdir()
    tensorfile.write(path, {}, {"format": "crossgrad checkpoint 1"})
    assert refused(crossgrad("resume", folder), "must be a 'crossgrad checkpoint 3'", "found 'crossgrad checkpoint 1'")


def test_records_that_were_cut_are_refused(crossgrad, stopped):
    folder = stopped(5)
    (folder / "records.jsonl").write_text("")
    assert refused(crossgrad("resume", folder), "records.jsonl must have the 2 records", "it has 0 whole")


def test_a_run_that_is_still_going_on_is_not_resumed(crossgrad, stopped):
    folder = stopped(5)
    holder = RunFolder(folder)
    holder.lock()
    try:
        assert refused(crossgrad("resume", folder), f"still going on, in process {os.getpid()}")
    finally:
        holder.unlock()


def test_other_versions_are_named(crossgrad, stopped):
    folder = stopped(5)
    versions = json.loads((folder / "versions.json").read_text())
    (folder / "versions.json").write_text(json.dumps(versions | {"torch": "2.6.0"}))
    status, _, err = crossgrad("resume", folder, "-q")
    assert status == 0
    assert err.startswith(f"Warning: torch was 2.6.0 and is {versions['torch']}, so the last bits may differ")


def test_a_process_that_was_killed_while_it_wrote_leaves_nothing_that_is_read(crossgrad, stopped):
    folder = stopped(5)
    left = folder / "checkpoints" / "step-9.agents-0-3.safetensors.77.part"
    left.write_bytes(b"half")
    assert crossgrad("resume", folder, "-q")[0] == 0
    assert not left.exists()


def test_signals_that_a_process_was_told_to_ignore_stay_ignored():
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        with Stop() as stop:
            os.kill(os.getpid(), signal.SIGHUP)
            assert not stop.wanted
    finally:
        signal.signal(signal.SIGHUP, before)


def test_a_checkpoint_folder_that_cannot_be_read_made_the_run_begin_again(crossgrad, stopped, monkeypatch):
    folder = stopped(5)
    listdir, before = os.listdir, (folder / "records.jsonl").read_bytes()

    def closed(path="."):  # root may read everything, so a mode would not do
        if Path(path).name == "checkpoints":
            raise PermissionError(13, "Permission denied", str(path))
        return listdir(path)

    with monkeypatch.context() as patch:
        patch.setattr(os, "listdir", closed)
        status, _, err = crossgrad("resume", folder, "-q")
    assert status == 2
    assert f"{folder / 'checkpoints'} must be readable to go on with the run; Permission denied." in err
    assert (folder / "records.jsonl").read_bytes() == before
    assert crossgrad("resume", folder, "-q")[0] == 0
