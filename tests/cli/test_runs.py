"""A run leaves everything in a folder of its own, and overwrites nothing."""

import json
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file

from crossgrad import __version__
from crossgrad._runs.new_folder import make_folder
from crossgrad._training.trainer import Training
from crossgrad.experiments.files import read


def test_a_run_leaves_everything_in_a_folder_of_its_own(files, crossgrad, small, only_run, records_of, summary_of):
    answer = crossgrad("run", small, "seed=3")
    assert answer.status == 0
    assert answer.err == ""
    run = only_run()
    assert run.name.endswith("-small")
    assert {file.name for file in run.iterdir()} == files
    assert f"Records, model and settings: {run}\n" in answer.out

    assert read(run / "experiment.toml") == read(small, ["seed=3"])
    versions = json.loads((run / "versions.json").read_text())
    assert versions["crossgrad"] == __version__
    assert versions["torch"] == torch.__version__
    assert versions["threads"] == 1

    records = records_of(run)
    assert [record["step"] for record in records] == [0, 2, 4, 6]
    assert all(record["status"] == "ok" and len(record["agent_accuracy"]) == 4 for record in records)
    assert f"{records[-1]['accuracy']:.1%}" in answer.out

    summary = summary_of(run)
    assert summary["ended"] == "finished"
    assert summary["steps"] == summary["model_of_step"] == 6
    assert summary["last_record"] == records[-1]


def test_the_model_on_disk_has_the_accuracy_of_the_last_record(crossgrad, small, only_run, records_of, accuracy_of):
    crossgrad("run", small, "training.steps=30", "--quiet")
    run = only_run()
    assert accuracy_of(run) == records_of(run)[-1]["accuracy"] > 0.15


def test_the_experiment_of_a_run_gives_the_same_bits_again(crossgrad, small, only_run, records_of):
    crossgrad("run", small, "algorithm=compcga", "--out", "first", "--quiet")
    first = only_run("first")
    crossgrad("run", first / "experiment.toml", "--out", "second", "--quiet")
    second = only_run("second")
    for name in ("experiment.toml", "model.safetensors"):
        assert (first / name).read_bytes() == (second / name).read_bytes()
    for one, other in zip(records_of(first), records_of(second), strict=True):
        assert one | {"seconds": 0} == other | {"seconds": 0}


def test_another_seed_gives_another_model(crossgrad, small, only_run):
    for seed in (0, 1):
        crossgrad("run", small, f"seed={seed}", "--out", f"seed{seed}", "--quiet")
    zero, one = ((only_run(f"seed{seed}") / "model.safetensors").read_bytes() for seed in (0, 1))
    assert zero != one


def test_a_quiet_run_prints_only_its_folder(crossgrad, small, only_run):
    answer = crossgrad("run", small, "--quiet")
    assert answer == (0, f"{only_run()}\n", "")


def test_a_json_run_prints_only_its_records(crossgrad, small, only_run, records_of):
    answer = crossgrad("run", small, "--json")
    assert answer.status == 0
    assert answer.err == ""
    assert [json.loads(line) for line in answer.out.splitlines()] == records_of(only_run())


def test_a_run_in_epochs_counts_its_steps(crossgrad, small, only_run, records_of):
    answer = crossgrad("run", small, "training={epochs = 0.5, batch_size = 90, threads = 1}")
    assert answer.status == 0
    assert records_of(only_run())[-1]["epoch"] >= 0.5


def test_runs_of_the_same_second_have_folders_of_their_own(crossgrad, small):
    folders = {crossgrad("run", small, "training.steps=1", "--quiet").out for _ in range(3)}
    assert len(folders) == 3
    with ThreadPoolExecutor(8) as pool:
        made = list(pool.map(lambda _: make_folder("many", "run"), range(64)))
    assert len(set(made)) == 64


def test_what_is_in_the_output_folder_already_stays_as_it_is(crossgrad, small):
    Path("out").mkdir()
    Path("out/notes.txt").write_text("mine")
    crossgrad("run", small, "--out", "out", "--quiet")
    crossgrad("run", small, "--out", "out", "--quiet")
    assert Path("out/notes.txt").read_text() == "mine"
    assert len(list(Path("out").iterdir())) == 3


@pytest.mark.parametrize("name", ["", "...", "/", "../../x", "x" * 5000, "a b/c", "Größe", "[/bold]"])
def test_any_name_makes_a_folder_inside_the_output_folder(crossgrad, small, name, only_run):
    answer = crossgrad("run", small, f'name="{name}"', "training.steps=1", "--out", "out")
    assert answer.status == 0
    assert only_run("out").parent == Path("out")
    assert read(only_run("out") / "experiment.toml").name == name


def test_a_folder_named_like_markup_is_printed_as_it_is(crossgrad, small, only_run):
    answer = crossgrad("run", small, "--out", "runs[/red][bold]")
    assert answer.status == 0
    assert f"Records, model and settings: {only_run('runs[/red][bold]')}\n" in answer.out


@pytest.mark.parametrize("out", ["small.toml", "small.toml/x", "/dev/null", "/dev/null/x", "/proc/x"])
def test_an_output_folder_that_cannot_be_written_is_refused(crossgrad, small, out, is_one_sentence):
    before = small.read_text()
    assert is_one_sentence(crossgrad("run", small, "--out", out), "--out", out)
    assert small.read_text() == before


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        (["agents=0"], ["agents must be at least 1; found 0"]),
        (["agents=100000000"], ["100000000 agents"]),
        (["algorithm=cag"], ["algorithm.name: there is no 'cag'", "Did you mean 'cga'?"]),
        (["algorithm=cga", "graph=exponential"], ["CGA needs an undirected graph"]),
        (["training.threads=0"], ["threads must be 1 to 1024"]),
        (["training.device=cuda:7"], ["cuda:7"]),
        (["model.hidden=[1000000000000000]"], ["model"]),
        (["nonsense"], ["a change must be key=value"]),
    ],
    ids=lambda value: " ".join(value),
)
def test_an_experiment_that_cannot_run_is_refused_and_leaves_nothing(crossgrad, small, changes, words, is_one_sentence):
    assert is_one_sentence(crossgrad("run", small, *changes), "small.toml: ", *words)
    assert not Path("runs").exists()


def test_an_experiment_that_is_not_there_is_refused(crossgrad, is_one_sentence):
    missing = crossgrad("run", "nothing.toml")
    assert is_one_sentence(missing, "nothing.toml: expected a TOML file; there is no such file")
    assert is_one_sentence(crossgrad("run", "."), "found a folder")


@pytest.mark.parametrize("failure", [MemoryError(), RuntimeError("DefaultCPUAllocator: can't allocate memory")])
def test_too_little_memory_is_said_in_a_sentence(crossgrad, small, monkeypatch, failure, is_one_sentence):
    def fail(*_, **__):
        raise failure

    monkeypatch.setattr(Training, "__init__", fail)
    assert is_one_sentence(crossgrad("run", small), "there is not enough memory")


def test_a_diverging_run_says_so_and_keeps_the_last_good_state(
    crossgrad, small, only_run, records_of, summary_of, accuracy_of
):
    changes = ["algorithm.momentum=0.98", "schedule.lr=100", "training.steps=40", "training.evaluate_every=2"]
    answer = crossgrad("run", small, *changes)
    assert answer.status == 0
    assert "The run diverged: " in answer.out
    run = only_run()
    summary, records = summary_of(run), records_of(run)
    assert summary["ended"] == "diverged"
    assert summary["status"] == records[-1]["status"] != "ok"
    step = summary["model_of_step"]
    kept = f"The models of step {step}, the last good ones, are kept." if step else "The initial models are kept"
    assert kept in answer.out
    (good,) = [record for record in records if record["step"] == summary["model_of_step"]]
    assert accuracy_of(run) == good["accuracy"]
    assert all(torch.isfinite(value).all() for value in load_file(run / "model.safetensors").values())
