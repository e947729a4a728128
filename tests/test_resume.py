"""Runs that are stopped go on as if they had never been: files, bits, and what is said where that cannot be."""

import json
import os
import shutil
import signal
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import load_file
from torch import nn

import crossgrad as cg
from crossgrad import durable, snapshot, tensorfile
from crossgrad.algorithms import ALGORITHMS
from crossgrad.algorithms.api import Needs
from crossgrad.checkpoint import Checkpoints
from crossgrad.data import load, split
from crossgrad.group import Alone
from crossgrad.rundir import RunFolder
from crossgrad.running import Stop
from crossgrad.tensorfile import DamagedFileError, TensorFile
from crossgrad.train import Settings, Training

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
def workplace(monkeypatch, tmp_path):
    """An empty folder to work in, and signals as a terminal would have them."""
    monkeypatch.chdir(tmp_path)
    Path("short.toml").write_text(EXPERIMENT)
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


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


def a_training(algorithm):
    """Batch normalisation, dropout, unequal data, faults, a graph that changes: all that has a state."""
    torch.manual_seed(0)
    model = nn.Sequential(nn.Flatten(), nn.Linear(64, 7), nn.BatchNorm1d(7), nn.Dropout(0.2), nn.Linear(7, 10))
    data = load("digits").train
    agents = split(data, cg.Dirichlet(0.5)(data.class_labels(), 5, 0, data.classes))
    graph = cg.ring(5) if Needs.FIXED in algorithm.needs else cg.random_matchings(5)
    settings = Settings(cg.Constant(0.05), batch_size=16, steps=9, evaluate_every=3)
    faults = cg.Faults(leave=0.1, away=3, drop=0.2)
    return Training(model, agents, algorithm, graph, settings, data.take(range(50)), faults=faults)


@pytest.mark.parametrize("name", sorted(ALGORITHMS))
def test_a_checkpoint_holds_all_that_decides_how_a_run_goes_on(name, tmp_path):
    whole, first, continued = (a_training(ALGORITHMS[name]()) for _ in range(3))
    for training, steps in ((whole, 9), (first, 4)):
        training.evaluate()
        for _ in range(steps):
            training.step()
    Checkpoints(tmp_path, first, "e").save(1)
    progress = Checkpoints(tmp_path, continued, "e").go_on(Alone())
    assert (progress.step, progress.records) == (4, 1)
    for _ in range(5):
        continued.step()
    assert replace(continued.evaluate(), seconds=0) == replace(whole.evaluate(), seconds=0)
    now, then = snapshot.take(continued, 2), snapshot.take(whole, 2)
    assert replace(now.progress, seconds=0) == replace(then.progress, seconds=0)
    for mine, theirs in ((now.rows, then.rows), (now.edges, then.edges)):
        assert mine.keys() == theirs.keys()
        assert [key for key in mine if mine[key].numpy().tobytes() != theirs[key].numpy().tobytes()] == []


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


def test_only_the_newest_two_checkpoints_stay(crossgrad, monkeypatch, tmp_path):
    training = a_training(ALGORITHMS["dpsgd"]())
    checkpoints = Checkpoints(tmp_path / "c", training, "e")
    for step in range(1, 6):
        training.step()
        checkpoints.save(0)
        checkpoints.forget(step)
    assert sorted(path.name for path in (tmp_path / "c").iterdir()) == [
        "step-4.agents-0-4.safetensors",
        "step-5.agents-0-4.safetensors",
    ]


def test_a_damaged_checkpoint_is_named_and_the_one_before_it_is_used(crossgrad, stopped):
    assert crossgrad("run", "short.toml", "-q", "--out", "whole")[0] == 0
    folder = stopped(5, signal.SIGINT, "--checkpoint-every", "0")
    newest = folder / "checkpoints" / "step-5.agents-0-3.safetensors"
    content = bytearray(newest.read_bytes())
    content[-100] ^= 1
    newest.write_bytes(content)
    status, out, err = crossgrad("resume", folder)
    assert status == 0
    assert err == f"Beware: {newest} is damaged: it is not what was written. An older checkpoint is used.\n"
    assert "Going on from step 4" in out
    assert contents(folder) == contents(only("whole"))


def test_none_of_a_thousand_damaged_files_is_believed(tmp_path):
    training = a_training(ALGORITHMS["sgp"]())
    training.step()
    Checkpoints(tmp_path / "c", training, "e").save(0)
    (path,) = (tmp_path / "c").iterdir()
    whole, chance = path.read_bytes(), np.random.default_rng(0)
    for number in range(1000):
        content, place = bytearray(whole), int(chance.integers(len(whole)))
        if number % 4 == 0:
            content = content[:place]
        elif number % 4 == 1:
            content[place:place] = chance.bytes(1 + number % 9)
        else:
            content[place] ^= 1 << int(chance.integers(8))
        if content == whole:
            continue
        path.write_bytes(content)
        with pytest.raises(DamagedFileError):
            TensorFile(path)


def test_a_run_that_has_ended_is_not_resumed(crossgrad):
    crossgrad("run", "short.toml", "-q", "--out", "whole")
    assert refused(crossgrad("resume", only("whole")), "has ended (finished)")


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda path: None, ["there is no such folder"]),
        (lambda path: path.write_text(""), ["there is no such folder"]),
        (lambda path: path.mkdir(), ["no folder of a run", "experiment.toml"]),
    ],
)
def test_what_is_no_folder_of_a_run_is_refused(crossgrad, make, words):
    make(Path("nothing"))
    assert refused(crossgrad("resume", "nothing"), "nothing", *words)


def test_a_changed_experiment_is_refused(crossgrad, stopped):
    folder = stopped(5)
    path = folder / "experiment.toml"
    path.write_text(path.read_text().replace("momentum = 0.9", "momentum = 0.8"))
    assert refused(crossgrad("resume", folder), "experiment.toml has been changed")


def test_changed_data_is_refused(tmp_path):
    training, other = a_training(ALGORITHMS["dpsgd"]()), a_training(ALGORITHMS["dpsgd"]())
    Checkpoints(tmp_path, training, "e").save(0)
    other.agents[2].labels[0] = (other.agents[2].labels[0] + 1) % 10
    with pytest.raises(ValueError, match="the data of agent 2 is not the data that the run began with"):
        Checkpoints(tmp_path, other, "e").go_on(Alone())


def test_a_file_of_a_later_format_is_refused(crossgrad, stopped):
    folder = stopped(5)
    (path,) = (folder / "checkpoints").iterdir()
    tensorfile.write(path, {}, {"format": "crossgrad checkpoint 2"})
    assert refused(crossgrad("resume", folder), "crossgrad checkpoint 2", "reads 'crossgrad checkpoint 1'")


def test_a_checkpoint_of_another_shape_is_not_read(tmp_path):
    training = a_training(ALGORITHMS["dpsgd"]())
    Checkpoints(tmp_path / "c", training, "e").save(0)
    (path,) = (tmp_path / "c").iterdir()
    file = TensorFile(path)
    tensors = {name: file.rows(name, 0, shape[0]) for name, shape in file.shapes.items()}
    tensorfile.write(path, tensors | {"state.x": tensors["state.x"][:, :-1]}, file.about)
    checkpoints = Checkpoints(tmp_path / "c", training, "e")
    assert checkpoints.go_on(Alone()) is None
    assert "expected state.x of (5, 549, 'F32'), found (5, 548, 'F32')" in checkpoints.problems[0]


def test_records_that_were_cut_are_refused(crossgrad, stopped):
    folder = stopped(5)
    (folder / "records.jsonl").write_text("")
    assert refused(crossgrad("resume", folder), "records.jsonl has 0 whole records", "after 2")


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
    assert err.startswith(f"Beware: torch was 2.6.0 and is {versions['torch']}, so the last bits may differ")


# Files


def test_tensors_are_read_back_row_by_row(tmp_path):
    tensors = {
        "a": torch.arange(12.0, dtype=torch.float64).view(4, 3),
        "b": torch.arange(4, dtype=torch.uint8),
        "c": torch.zeros(4, 0),
        "d": torch.tensor([[1.5, -0.0], [float("inf"), float("nan")]]),
    }
    tensorfile.write(tmp_path / "t", tensors, {"who": 'a "name"'})
    file = TensorFile(tmp_path / "t")
    assert file.about["who"] == 'a "name"'
    for name, tensor in tensors.items():
        assert file.rows(name, 1, 2).numpy().tobytes() == tensor[1:2].numpy().tobytes()
    assert load_file(tmp_path / "t").keys() == tensors.keys()


@pytest.mark.parametrize(
    "content", [b"", b"\0" * 8, b"\xff" * 8 + b"x", (1 << 23).to_bytes(8, "little") + b"{}", b"x" * 100]
)
def test_a_header_that_lies_is_refused(tmp_path, content):
    (tmp_path / "t").write_bytes(content)
    with pytest.raises(DamagedFileError, match="damaged"):
        TensorFile(tmp_path / "t")


def test_a_pipe_in_place_of_a_file_is_refused_at_once(tmp_path):
    os.mkfifo(tmp_path / "t")
    with pytest.raises(DamagedFileError, match="no file"):
        TensorFile(tmp_path / "t")


def test_a_file_that_could_not_be_written_leaves_the_old_one(tmp_path):
    def failing():
        yield b"new"
        raise OSError(28, "No space left on device")

    durable.write(tmp_path / "f", [b"old"])
    with pytest.raises(OSError, match="No space left") as error:
        durable.write(tmp_path / "f", failing())
    assert error.value.filename == str(tmp_path / "f")
    assert (tmp_path / "f").read_bytes() == b"old"
    assert [path.name for path in tmp_path.iterdir() if path.is_file() and path.suffix == ".part"] == []


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
