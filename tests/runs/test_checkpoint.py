"""Checkpoints hold all that decides how a run goes on, and damaged files are never believed."""

import os
from dataclasses import replace
from functools import cache
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from PIL import Image
from safetensors.torch import load_file
from torch import nn

import crossgrad as cg
from crossgrad._processes.group import SingleProcess
from crossgrad._runs.checkpoint import Checkpoints
from crossgrad._runs.data_digests import FileDigests, data_digests
from crossgrad._storage import atomic, tensorfile
from crossgrad._storage.damage import DamagedFileError
from crossgrad._storage.stateful import Stateful, flatten
from crossgrad._storage.tensorfile import TensorFile
from crossgrad._training.settings import TrainingSettings
from crossgrad._training.trainer import Training
from crossgrad.algorithms import ALGORITHMS
from crossgrad.algorithms.api import Needs
from crossgrad.data import Samples, load, split
from crossgrad.data.files import tables
from crossgrad.data.files.tables import from_image_folder, from_npy


@cache
def dealt():
    data = load("digits").train.take(range(600))
    return data, split(data, cg.Dirichlet(0.5)(data.labels.numpy(), 5, 0))


def a_training(algorithm):
    """Batch normalisation, dropout, unequal data, faults, a graph that changes: all that has a state."""
    torch.manual_seed(0)
    model = nn.Sequential(nn.Flatten(), nn.Linear(64, 7), nn.BatchNorm1d(7), nn.Dropout(0.2), nn.Linear(7, 10))
    data, agents = dealt()
    graph = (
        cg.chain(5)
        if Needs.TREE in algorithm.needs
        else cg.ring(5)
        if Needs.FIXED in algorithm.needs
        else cg.random_matchings(5)
    )
    settings = TrainingSettings(cg.Constant(0.05), batch_size=16, steps=9, evaluate_every=3)
    faults = cg.Faults() if Needs.RELIABLE in algorithm.needs else cg.Faults(leave=0.1, away=3, drop=0.2)
    return Training(model, agents, algorithm, graph, settings, data.take(range(50)), faults=faults)


COMPRESSED = {
    "edm in compressed rounds": lambda: cg.Gossip(cg.Quantised(3), 2, True, 0.5).around(cg.EDM(0.9)),
    "gradient tracking in compressed rounds": lambda: cg.Gossip(cg.TopK(0.3), 2).around(cg.GradientTracking()),
    "dpsgd in accelerated rounds": lambda: cg.Gossip(rounds=3, chebyshev=True).around(cg.DPSGD()),
}


@pytest.mark.parametrize("name", sorted(ALGORITHMS | COMPRESSED))
def test_a_checkpoint_holds_all_that_decides_how_a_run_goes_on(name, tmp_path):
    whole, first, continued = (a_training((ALGORITHMS | COMPRESSED)[name]()) for _ in range(3))
    for training, steps in ((whole, 9), (first, 4)):
        training.evaluate()
        for _ in range(steps):
            training.step()
    Checkpoints(tmp_path, first, "e").save(1)
    progress = Checkpoints(tmp_path, continued, "e").go_on(SingleProcess())
    assert (progress.step, progress.records) == (4, 1)
    for _ in range(5):
        continued.step()
    assert replace(continued.evaluate(), seconds=0) == replace(whole.evaluate(), seconds=0)
    assert unlike(continued, whole) == []


def unlike(one, other):
    """The names in which the states of two runs differ, but for the seconds that they took."""
    mine, theirs = (flatten(training.state_dict()) for training in (one, other))
    assert mine.keys() == theirs.keys()
    bits = [{name: bytes_of(value) for name, value in state.items()} for state in (mine, theirs)]
    return [name for name in mine if name != "seconds" and bits[0][name] != bits[1][name]]


def bytes_of(value):
    return value.contiguous().view(-1).view(torch.uint8).tolist() if isinstance(value, torch.Tensor) else value


class Walk(Stateful):
    """A part with a state of its own: one number per agent that changes with every step."""

    def __init__(self, agents):
        self.place = torch.zeros(agents)


def with_a_new_part(owner):
    """A run whose oracle or network has a part of which no other line of code knows."""
    training = a_training(ALGORITHMS["dpsgd"]())
    part = getattr(training, owner).new_part = Walk(5)
    step = training.algorithm.step

    class Walking(type(training.algorithm)):
        def step(self, *arguments):
            part.place += torch.arange(5) + part.place
            return step(*arguments)

    training.algorithm = Walking()
    return training


@pytest.mark.parametrize("owner", ["oracle", "context", "judge"])
def test_a_part_that_is_new_to_the_run_is_resumed(owner, tmp_path):
    whole, first, continued = (with_a_new_part(owner) for _ in range(3))
    for training, steps in ((whole, 7), (first, 4)):
        for _ in range(steps):
            training.step()
    Checkpoints(tmp_path, first, "e").save(0)
    Checkpoints(tmp_path, continued, "e").go_on(SingleProcess())
    for _ in range(3):
        continued.step()
    assert getattr(whole, owner).new_part.place[4] > 0
    assert unlike(continued, whole) == []


def test_a_checkpoint_without_a_part_that_the_run_has_is_not_read(tmp_path):
    Checkpoints(tmp_path, a_training(ALGORITHMS["dpsgd"]()), "e").save(0)
    checkpoints = Checkpoints(tmp_path, with_a_new_part("oracle"), "e")
    assert checkpoints.go_on(SingleProcess()) is None
    assert "oracle.new_part.place must be (5, 'F32'), as in this run; found None" in checkpoints.problems[0]


def test_a_part_whose_state_cannot_be_saved_is_refused_by_name(tmp_path):
    training = a_training(ALGORITHMS["dpsgd"]())
    training.oracle.seen = {}
    with pytest.raises(TypeError, match=r"Oracle.seen must be a tensor, a plain value or a Stateful object .* dict"):
        Checkpoints(tmp_path, training, "e").save(0)


def test_models_that_are_good_and_present_are_stored_once(tmp_path):
    training = a_training(ALGORITHMS["dpsgd"]())
    sizes = {}
    for number in range(2):
        Checkpoints(tmp_path / str(number), training, "e").save(0)
        sizes[number] = next((tmp_path / str(number)).iterdir()).stat().st_size
        training.step()
    assert sizes[1] - sizes[0] >= training.state.x.nbytes


def test_a_loaded_state_shares_no_memory_with_the_one_it_was_taken_from():
    one, other = a_training(ALGORITHMS["cga"]()), a_training(ALGORITHMS["cga"]())
    one.step()
    other.load_state_dict(one.state_dict())
    before = other.state.x.clone()
    one.step()
    assert torch.equal(other.state.x, before)


def test_only_the_newest_two_checkpoints_stay(tmp_path):
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


def test_a_run_whose_checkpoints_were_removed_while_it_looked_for_digests_in_them_ends_well(tmp_path, monkeypatch):
    checkpoints = Checkpoints(tmp_path / "checkpoints", a_training(cg.DPSGD()), "e")
    checkpoints.save(0)
    scan = os.scandir

    def too_late(path):
        Path(path).rmdir()
        return scan(path)

    monkeypatch.setattr(os, "scandir", too_late)
    checkpoints.forget_all()
    assert not checkpoints.folder.exists()


@pytest.mark.parametrize("moment", ["iterdir", "rmdir"])
def test_a_run_whose_checkpoints_another_process_removed_a_moment_before_ends_well(tmp_path, monkeypatch, moment):
    """When a run has ended, all its processes remove the folder, and one of them is the first."""
    checkpoints = Checkpoints(tmp_path / "checkpoints", a_training(cg.DPSGD()), "e")
    checkpoints.save(0)
    usual = getattr(Path, moment)

    def too_late(path):
        path.rmdir() if moment == "iterdir" else usual(path)
        return usual(path)

    monkeypatch.setattr(Path, moment, too_late)
    checkpoints.forget_all()
    assert not checkpoints.folder.exists()


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


def test_changed_data_is_refused(tmp_path):
    training, other = a_training(ALGORITHMS["dpsgd"]()), a_training(ALGORITHMS["dpsgd"]())
    Checkpoints(tmp_path, training, "e").save(0)
    other.agents[2].labels[0] = (other.agents[2].labels[0] + 1) % 10
    with pytest.raises(ValueError, match="the data of agent 2 must be what the run began with"):
        Checkpoints(tmp_path, other, "e").go_on(SingleProcess())


@pytest.mark.parametrize("agent", range(4))
def test_one_changed_number_of_the_last_sample_is_refused(agent, tmp_path):
    training, other = a_training(ALGORITHMS["dpsgd"]()), a_training(ALGORITHMS["dpsgd"]())
    Checkpoints(tmp_path, training, "e").save(0)
    other.agents[agent].inputs[-1, -1] += 1e-6
    with pytest.raises(ValueError, match=f"the data of agent {agent} must be what the run began with"):
        Checkpoints(tmp_path, other, "e").go_on(SingleProcess())


@pytest.mark.parametrize("held_out", ["validation", "own_test"])
def test_a_changed_sample_that_was_held_out_from_an_agent_was_not_noticed(held_out, tmp_path):
    def with_held_out():
        training, (data, _) = a_training(ALGORITHMS["dpsgd"]()), dealt()
        setattr(training, held_out, [data.take([5 * n, 5 * n + 1]) for n in range(5)])
        return training

    training, other = with_held_out(), with_held_out()
    Checkpoints(tmp_path, training, "e").save(0)
    assert Checkpoints(tmp_path, with_held_out(), "e").go_on(SingleProcess()) is not None
    getattr(other, held_out)[3].inputs[-1, -1] += 1e-6
    with pytest.raises(ValueError, match="the data of agent 3 must be what the run began with"):
        Checkpoints(tmp_path, other, "e").go_on(SingleProcess())


def test_a_changed_test_set_is_refused(tmp_path):
    training, other = a_training(ALGORITHMS["dpsgd"]()), a_training(ALGORITHMS["dpsgd"]())
    test = training.agents[0]
    training.test, other.test = test, Samples(test.inputs.clone(), test.labels.clone())
    Checkpoints(tmp_path, training, "e").save(0)
    assert Checkpoints(tmp_path, other, "e").go_on(SingleProcess()) is not None
    other.test.inputs[-1, -1] += 1e-6
    with pytest.raises(ValueError, match="the test set must be what the run began with"):
        Checkpoints(tmp_path, other, "e").go_on(SingleProcess())


def test_a_checkpoint_of_another_shape_is_not_read(tmp_path):
    training = a_training(ALGORITHMS["dpsgd"]())
    training.step()
    Checkpoints(tmp_path / "c", training, "e").save(0)
    (path,) = (tmp_path / "c").iterdir()
    file = TensorFile(path)
    tensors = {name: file.rows(name, 0, shape[0]) for name, shape in file.shapes.items()}
    tensorfile.write(path, tensors | {"state.x": tensors["state.x"][:, :-1]}, file.about)
    checkpoints = Checkpoints(tmp_path / "c", training, "e")
    assert checkpoints.go_on(SingleProcess()) is None
    assert "state.x must be (5, 549, 'F32'), as in this run; found (5, 548, 'F32')" in checkpoints.problems[0]


def test_thousands_of_files_with_names_of_checkpoints_took_minutes_and_were_all_named(tmp_path, monkeypatch):
    listdir, looks = os.listdir, []
    monkeypatch.setattr(os, "listdir", lambda path: looks.append(path) or listdir(path))
    for step in range(500):
        (tmp_path / f"step-{step}.agents-0-4.safetensors").touch()
    checkpoints = Checkpoints(tmp_path, a_training(ALGORITHMS["dpsgd"]()), "e")
    assert checkpoints.go_on(SingleProcess()) is None
    assert len(checkpoints.problems) == 20
    assert looks.count(tmp_path) == 1


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.int32, torch.bool])
def test_a_run_in_half_precision_could_not_save(dtype, tmp_path):
    """It was a KeyError, and of bfloat16 inputs a TypeError."""
    rows = torch.arange(12).view(4, 3).to(dtype)
    tensorfile.write(tmp_path / "a", {"x": rows, "y": rows.double()}, {})
    file = TensorFile(tmp_path / "a")
    assert torch.equal(file.rows("x", 1, 3), rows[1:3])
    assert file.dtypes["x"] == tensorfile.SAFETENSORS_DTYPES[dtype]


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_a_run_in_half_precision_is_kept_with_its_state_and_refuses_changed_data(dtype, tmp_path):
    data, agents = dealt()
    settings = TrainingSettings(cg.Constant(0.05), batch_size=16, steps=2, dtype=dtype)

    def training(agents):
        torch.manual_seed(0)
        return Training(nn.Sequential(nn.Flatten(), nn.Linear(64, 10)), agents, cg.DPSGD(), cg.ring(5), settings, data)

    first = training(agents)
    first.step()
    Checkpoints(tmp_path, first, "").save(0)
    second = training(agents)
    assert Checkpoints(tmp_path, second, "").go_on(SingleProcess()).step == 1
    assert not unlike(first, second)
    agents[4].inputs[-1, 0] += 1
    with pytest.raises(ValueError, match="the data of agent 4 must be what the run began with"):
        Checkpoints(tmp_path, training(agents), "").go_on(SingleProcess())
    agents[4].inputs[-1, 0] -= 1


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
    with pytest.raises(DamagedFileError, match="must be a file"):
        TensorFile(tmp_path / "t")


def test_a_file_that_could_not_be_written_leaves_the_old_one(tmp_path):
    def failing():
        yield b"new"
        raise OSError(28, "No space left on device")

    atomic.write(tmp_path / "f", [b"old"])
    with pytest.raises(OSError, match="No space left") as error:
        atomic.write(tmp_path / "f", failing())
    assert error.value.filename == str(tmp_path / "f")
    assert (tmp_path / "f").read_bytes() == b"old"
    assert [path.name for path in tmp_path.iterdir() if path.is_file() and path.suffix == ".part"] == []


def change_byte(path, place):
    content = bytearray(path.read_bytes())
    content[place] ^= 1
    path.write_bytes(content)


@pytest.fixture
def four_agents_of_files(tmp_path):
    """Of the data of four agents, two with rows of a mapped .npy file and two with an image each."""
    np.save(tmp_path / "x.npy", np.arange(12.0).reshape(6, 2))
    np.save(tmp_path / "y.npy", np.arange(6) % 2)
    for number, name in enumerate(["cat", "dog"]):
        (tmp_path / "images" / name).mkdir(parents=True)
        Image.fromarray(np.full((3, 3, 3), number, np.uint8)).save(tmp_path / "images" / name / "0.bmp")

    def digests(files=None):
        rows, images = from_npy(tmp_path / "x.npy", tmp_path / "y.npy"), from_image_folder(tmp_path / "images")
        agents = [rows.take([0, 5]), rows.take([1, 2]), images.take([0]), images.take([1])]
        training = SimpleNamespace(agents=agents, validation=None, own_test=None)
        return data_digests(training, files or FileDigests(tmp_path / "none", "0-3")).tolist()

    return digests


def test_one_changed_byte_of_an_input_that_is_read_when_needed_was_not_noticed(tmp_path, four_agents_of_files):
    digests = four_agents_of_files
    before = digests()
    assert digests() == before
    change_byte(tmp_path / "x.npy", -1)
    change_byte(tmp_path / "images" / "dog" / "0.bmp", -1)
    assert [now == then for now, then in zip(digests(), before, strict=True)] == [False, True, True, False]


def test_files_that_have_not_changed_are_hashed_once(tmp_path, four_agents_of_files, monkeypatch):
    kept = tmp_path / "kept"
    kept.mkdir()
    first = FileDigests(kept, "0-3")
    before = four_agents_of_files(first)
    first.save()
    read = []
    monkeypatch.setattr(tables._Rows, "stored", lambda self, index: read.append(index) or b"")
    monkeypatch.setattr(tables._Images, "stored", lambda self, index: read.append(self.paths[index].parent.name) or b"")
    assert four_agents_of_files(FileDigests(kept, "0-1")) == before
    assert read == []
    change_byte(tmp_path / "images" / "dog" / "0.bmp", -1)
    os.utime(tmp_path / "x.npy", (1, 1))
    assert four_agents_of_files(FileDigests(kept, "0-3"))[:3:2] != before[:3:2]
    assert read == [0, 5, 1, 2, "dog"]
    first.own.write_text("[")
    four_agents_of_files(FileDigests(kept, "0-3"))
    assert read.count("cat") == 1, "what cannot be read is hashed again"
    first.forget()
    assert [*kept.iterdir()] == []
