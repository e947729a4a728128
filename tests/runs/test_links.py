"""A run's folder may come from elsewhere: nothing outside it is written, removed or waited for."""

import hashlib
import json
import os
from pathlib import Path

import pytest
import torch

import crossgrad as cg
from crossgrad._runs.folder import RunFolder
from crossgrad._storage import atomic

EXPERIMENT = """
agents = 4
partition = "class"
model = { name = "mlp", hidden = [8] }
graph = "ring"
algorithm = "dpmsgd"
training = { steps = 8, evaluate_every = 2, threads = 1, batch_size = 8 }
"""


@pytest.fixture
def stopped(crossgrad, monkeypatch, tmp_path):
    """The folder of a run that was stopped in its midst, and a file of somebody else."""
    import signal

    from crossgrad._training.trainer import Training

    monkeypatch.chdir(tmp_path)
    Path("e.toml").write_text(EXPERIMENT)
    Path("victim").write_text("somebody's own\n")
    step = Training.step

    def and_stop(training):
        step(training)
        if training.step_number == 5:
            os.kill(os.getpid(), signal.SIGTERM)

    with monkeypatch.context() as patch:
        patch.setattr(Training, "step", and_stop)
        crossgrad("run", "e.toml", "-q")
    (folder,) = Path("runs").iterdir()
    assert list((folder / "checkpoints").iterdir())
    return folder


def refused(crossgrad, folder, *words):
    status, out, err = crossgrad("resume", folder)
    assert (status, out) == (2, "")
    assert err.startswith("crossgrad: ")
    assert err.count("\n") == 1
    assert all(word in err for word in words), err
    return True


@pytest.mark.parametrize("name", ["lock", "records.jsonl", "experiment.toml", "versions.json", "agents.json"])
def test_a_link_in_place_of_a_file_leaves_its_target_alone(name, stopped, crossgrad):
    (stopped / name).unlink()
    (stopped / name).symlink_to(Path("victim").resolve())
    assert refused(crossgrad, stopped, name)
    assert Path("victim").read_text() == "somebody's own\n"


@pytest.mark.parametrize("name", ["lock", "records.jsonl"])
def test_a_hard_link_in_place_of_a_file_had_the_other_file_written(name, stopped, crossgrad):
    Path("victim").write_bytes((stopped / name).read_bytes())
    before = Path("victim").read_bytes()
    (stopped / name).unlink()
    (stopped / name).hardlink_to(Path("victim").resolve())
    assert refused(crossgrad, stopped, name, "found 2 names (hard links)")
    assert Path("victim").read_bytes() == before


def test_checkpoints_that_are_a_link_have_nothing_removed_behind_it(stopped, crossgrad):
    (stopped / "checkpoints").rename("elsewhere")
    Path("elsewhere/other.part").write_text("somebody's own")
    (stopped / "checkpoints").symlink_to(Path("elsewhere").resolve())
    assert refused(crossgrad, stopped, "checkpoints must be a folder; found a link")
    assert Path("elsewhere/other.part").exists()


@pytest.mark.timeout(60)
@pytest.mark.parametrize("name", ["lock", "records.jsonl", "experiment.toml", "versions.json", "agents.json"])
def test_a_pipe_in_place_of_a_file_blocks_nobody(name, stopped, crossgrad):
    (stopped / name).unlink()
    os.mkfifo(stopped / name)
    assert refused(crossgrad, stopped, name)


@pytest.mark.parametrize("kind", ["dangling", "looping"])
def test_a_newest_checkpoint_that_is_a_broken_link_leaves_the_older_one_to_go_on_from(kind, stopped, crossgrad):
    (path,) = (stopped / "checkpoints").iterdir()
    newer = path.with_name(path.name.replace("step-5", "step-7"))
    newer.symlink_to("nowhere" if kind == "dangling" else newer.name)
    status, out, err = crossgrad("resume", stopped)
    assert status == 0
    assert f"Warning: {newer} " in err
    assert "Warning: an older checkpoint is used." in err
    assert "from step 5" in out


def test_a_folder_with_the_name_of_a_checkpoint_ended_the_run_when_old_ones_were_removed(stopped, crossgrad):
    (path,) = (stopped / "checkpoints").iterdir()
    path.with_name(path.name.replace("step-5", "step-99")).mkdir()
    status, _, err = crossgrad("resume", stopped, "--checkpoint-every", 0)
    assert status == 0
    assert "Warning: an older checkpoint is used." in err


def test_all_checkpoints_damaged_is_said_and_not_that_an_older_one_is_used(stopped, crossgrad):
    for path in (stopped / "checkpoints").iterdir():
        path.write_bytes(b"damaged")
    status, out, err = crossgrad("resume", stopped)
    assert status == 0
    assert "an older checkpoint" not in err
    assert "there is no other checkpoint, so the run begins again at step 0" in err
    assert "from the beginning" in out


def test_files_are_not_written_through_a_link_that_was_put_there_before(tmp_path):
    (tmp_path / "victim").write_text("own")
    (tmp_path / f"model.{os.getpid()}.part").symlink_to(tmp_path / "victim")
    atomic.write(tmp_path / "model", [b"new"])
    assert (tmp_path / "victim").read_text() == "own"
    assert (tmp_path / "model").read_bytes() == b"new"


def change_number(lines):
    record = json.loads(lines[0])
    return [json.dumps(record | {"accuracy": 0.999}).encode() + b"\n", *lines[1:]]


CHANGES = {
    "a number": change_number,
    "a list": lambda lines: [b"[]\n", *lines[1:]],
    "many lists": lambda lines: [b"[1]\n"] * 2000,
    "order": lambda lines: [lines[1], lines[0], *lines[2:]],
    "a blank": lambda lines: [lines[0].replace(b": ", b":  ", 1), *lines[1:]],
}


@pytest.mark.parametrize("change", CHANGES)
def test_records_that_were_changed_are_refused(change, stopped, crossgrad):
    path = stopped / "records.jsonl"
    path.write_bytes(b"".join(CHANGES[change](path.read_bytes().splitlines(keepends=True))))
    before = path.read_bytes()
    assert refused(crossgrad, stopped, "records have been changed")
    assert path.read_bytes() == before


def test_an_experiment_that_was_changed_is_refused_also_without_a_checkpoint(stopped, crossgrad):
    for path in (stopped / "checkpoints").iterdir():
        path.unlink()
    path = stopped / "experiment.toml"
    path.write_text(path.read_text().replace("seed = 0", "seed = 1"))
    assert refused(crossgrad, stopped, "experiment.toml must be what the run began with")


def test_the_digest_of_records_is_that_of_the_file(stopped):
    folder, content = RunFolder(stopped), (stopped / "records.jsonl").read_bytes()
    digest = hashlib.sha256(content).hexdigest()
    folder.keep_records(content.count(b"\n"), digest)
    assert folder.records_digest() == digest


@pytest.mark.parametrize("start", [5, ["x"], "model.safetensors"])
def test_versions_that_name_no_start_model_where_one_should_be_gave_a_traceback(start, stopped, crossgrad):
    path = stopped / "versions.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | {"start": start}))
    status, _, err = crossgrad("resume", stopped)
    assert status == 0, err


@pytest.mark.parametrize("make", [os.mkfifo, lambda path: path.symlink_to("/dev/zero")], ids=["pipe", "link"])
def test_fit_waited_for_ever_for_a_pipe_in_place_of_its_experiment(make, tmp_path):
    make(tmp_path / "experiment.toml")
    data = torch.eye(6), torch.arange(6) % 2
    with pytest.raises(ValueError, match=r"experiment\.toml must be a file"):
        cg.fit(torch.nn.Linear(6, 2), data, graph=cg.ring(3), steps=1, out=tmp_path)
