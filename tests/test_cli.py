"""The command line as people use it: what it prints, what it writes, and how it ends when something is wrong."""

import fcntl
import gzip
import json
import os
import pty
import re
import signal
import struct
import subprocess
import sys
import termios
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pytest
import torch
from safetensors.torch import load_file

from crossgrad import __version__
from crossgrad.algorithms import ALGORITHMS
from crossgrad.cli.main import main
from crossgrad.data import DATASETS, PARTITIONS, load
from crossgrad.experiment import read
from crossgrad.graphs import GRAPHS
from crossgrad.models import MODELS
from crossgrad.rundir import make_folder
from crossgrad.schedule import SCHEDULES
from crossgrad.train import Training

EXAMPLE = Path(__file__).parents[1] / "examples" / "digits-ring.toml"
SMALL = """
name = "small"
agents = 4
partition = "class"
model = { name = "mlp", hidden = [16] }
graph = "ring"
algorithm = { name = "dpmsgd", momentum = 0.9 }
schedule = { name = "constant", lr = 0.05 }
training = { steps = 6, evaluate_every = 2, threads = 1 }
"""
FILES = {"experiment.toml", "versions.json", "records.jsonl", "model.safetensors", "summary.json", "lock"}
COMMANDS = ["run", "resume", "demo", "list", "graph", "partition", "theory", "data", "data fetch", "data where"]


WAIT = 100  # seconds for a process, which takes three on a machine that has nothing else to do


class Answer(NamedTuple):
    """How a command ended, and what it said."""

    status: int
    out: str
    err: str


@pytest.fixture(autouse=True)
def nowhere(monkeypatch, tmp_path):
    """An empty folder to work in, 80 columns, and no data sets on this machine."""
    (tmp_path / "work").mkdir()
    monkeypatch.chdir(tmp_path / "work")
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    for name in ("CROSSGRAD_DATA", "FORCE_COLOR", "PY_COLORS", "TTY_COMPATIBLE", "TTY_INTERACTIVE"):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture(autouse=True)
def ctrl_c():
    """Ctrl-C counts, here and in the processes that are started, even if the tests run in the background."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.fixture
def crossgrad(monkeypatch, capsys):
    """Runs the command in this process."""

    def call(*arguments: object) -> Answer:
        monkeypatch.setattr(sys, "argv", ["crossgrad", *map(str, arguments)])
        capsys.readouterr()
        with pytest.raises(SystemExit) as end:
            main()
        out, err = (re.sub(r"\x1b\[[0-9;]*m", "", text) for text in capsys.readouterr())
        return Answer(int(end.value.code or 0), out, err)

    return call


@pytest.fixture
def small() -> Path:
    """A run of a moment."""
    path = Path("small.toml")
    path.write_text(SMALL)
    return path


def start(*arguments: object, **options: object) -> subprocess.Popen:
    """The command in a process of its own."""
    command = [sys.executable, "-m", "crossgrad", *map(str, arguments)]
    streams = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    return subprocess.Popen(command, **(streams | options))


def only_run(folder: str | Path = "runs") -> Path:
    """The folder of the only run there was."""
    (run,) = Path(folder).iterdir()
    return run


def records_of(run: Path) -> list[dict]:
    return [json.loads(line) for line in (run / "records.jsonl").read_text().splitlines()]


def summary_of(run: Path) -> dict:
    return json.loads((run / "summary.json").read_text())


def accuracy_of(run: Path) -> float:
    """The accuracy on the test set of the model that a run left behind, with nothing of crossgrad but its layers."""
    experiment, test = read(run / "experiment.toml"), load("digits").test
    module = experiment.model.build(test.shape, 10)
    module.load_state_dict(load_file(run / "model.safetensors"))
    return float((module(test.inputs).argmax(dim=1) == test.labels).double().mean())


def is_one_sentence(answer: Answer, *words: str) -> bool:
    """Whether a user's mistake was answered as it should be."""
    assert answer.status == 2
    assert answer.out == ""
    assert answer.err.startswith("crossgrad: ")
    assert answer.err.count("\n") == 1
    assert "Traceback" not in answer.err
    missing = [word for word in words if word not in answer.err]
    assert not missing, answer.err
    return True


# Help and lists


@pytest.mark.parametrize("command", ["", *COMMANDS])
def test_every_command_has_help_with_examples_on_lines_of_their_own(crossgrad, command):
    answer = crossgrad(*command.split(), "--help")
    assert answer.status == 0
    lines = [line.strip() for line in answer.out.splitlines()]
    examples = lines[lines.index("Examples:") + 1 :]
    assert sum(line.startswith(f"crossgrad {command}") for line in examples) >= 2
    assert all(len(line) <= 80 for line in answer.out.splitlines())
    assert not any("toml" in line and not line.startswith("crossgrad") for line in examples), "an example is broken up"


def test_the_help_is_shown_where_a_command_is_missing(crossgrad):
    for arguments in ([], ["data"]):
        answer = crossgrad(*arguments)
        assert answer.status in (0, 2)
        assert "Usage: " in answer.out
        assert "Examples:" in answer.out


def test_the_version_is_that_of_the_package(crossgrad):
    assert crossgrad("--version") == Answer(0, f"crossgrad {__version__}\n", "")


def test_help_and_version_come_without_importing_torch():
    code = (
        "import sys; from crossgrad.cli import main\ntry: main()\nexcept SystemExit: sys.exit('torch' in sys.modules)"
    )
    for option in ("--help", "--version"):
        assert subprocess.run([sys.executable, "-c", code, option], capture_output=True, timeout=WAIT).returncode == 0


@pytest.mark.parametrize(
    ("arguments", "hint"),
    [
        (["nonsense"], "No such command 'nonsense'"),
        (["lisst"], "Did you mean 'list'"),
        (["--nonsense"], "No such option"),
        (["run"], "Missing argument 'EXPERIMENT.toml'"),
        (["graph"], "Missing argument"),
        (["run", "small.toml", "--agents", "3"], "No such option"),
        (["graph", "ring", "--agents", "many"], "--agents"),
        (["graph", "ring", "--seed", "-1"], "--seed"),
        (["demo", "--steps", "0"], "--steps"),
        (["demo", "--jobs", "0"], "--jobs"),
    ],
)
def test_a_command_that_is_not_understood_says_how_to_get_help(crossgrad, arguments, hint):
    answer = crossgrad(*arguments)
    assert answer.status == 2
    assert hint in answer.err
    assert "--help" in answer.err
    assert "Traceback" not in answer.err


LISTS = {
    "algorithms": ALGORITHMS, "graphs": GRAPHS, "data": DATASETS, "models": MODELS, "partitions": PARTITIONS,
    "schedules": SCHEDULES,
}  # fmt: skip


@pytest.mark.parametrize("what", LISTS)
def test_a_list_has_every_name_with_a_line_about_it(crossgrad, what):
    answer = crossgrad("list", what)
    assert answer.status == 0
    assert answer.out.splitlines()[0].strip() == what
    for name in LISTS[what]:
        assert re.search(rf"^{re.escape(name)} +\S+", answer.out, re.MULTILINE), name


def test_the_list_of_everything_has_all_lists(crossgrad):
    assert crossgrad("list").out == "".join(crossgrad("list", what).out for what in LISTS)


def test_a_list_of_nonsense_is_refused(crossgrad):
    assert is_one_sentence(crossgrad("list", "nonsense"), "'nonsense'", *LISTS)
    assert is_one_sentence(crossgrad("list", "graph"), "Did you mean 'graphs'?")


# Graphs and partitions


@pytest.mark.parametrize("agents", [1, 2, 41])
@pytest.mark.parametrize("name", [name for name in GRAPHS if name not in ("edge-list", "weight-matrix")])
def test_every_graph_is_described(crossgrad, name, agents):
    answer = crossgrad("graph", name, "--agents", agents)
    assert answer.status == 0
    facts = dict(re.findall(r"^(\S.*?)  +(\S.*?) *$", answer.out, re.MULTILINE))
    assert facts["agents"] == str(agents)
    assert facts["messages per step"] == ("0" if agents == 1 else "2" if agents == 2 else facts["messages per step"])
    assert 0 <= float(facts["sqrt(rho)"]) < 1
    assert float(facts["sqrt(rho)"]) + float(facts["spectral gap"]) == pytest.approx(1, abs=1e-3)
    assert ("Weights" in answer.out) == (agents <= 12)
    assert ("directed, so" in answer.out) == ("exponential" in name and agents == 41)


def test_the_weights_of_twelve_agents_fit_into_eighty_columns(crossgrad):
    lines = crossgrad("graph", "fully-connected", "--agents", 12).out.splitlines()
    assert lines[1:13] == [" ".join(["0.083"] * 12)] * 12


def test_a_graph_takes_options_and_a_seed(crossgrad):
    sparse, dense, again = (
        crossgrad("graph", "erdos-renyi", f"probability={p}", "-n", 20, "--seed", 3).out for p in (0.3, 0.9, 0.3)
    )
    assert sparse == again != dense
    assert crossgrad("graph", "erdos-renyi", "probability=0.3", "-n", 20, "--seed", 4).out != sparse


def test_a_slow_graph_is_warned_of(crossgrad):
    assert (
        "Beware: it mixes slowly: differences between agents take about 128 steps"
        in crossgrad("graph", "ring", "-n", 41).out
    )
    assert "Beware" not in crossgrad("graph", "ring", "-n", 10).out


def test_a_graph_that_lets_averages_drift_is_warned_of(crossgrad):
    Path("one way.txt").write_text("0 1\n1 2\n2 0\n0 2\n")
    answer = crossgrad("graph", "edge-list", "path=one way.txt", "directed=true", "-n", 3)
    assert answer.status == 0
    assert "column-stochastic" in answer.out
    assert "its rows do not sum to 1: plain averaging drifts. Use SGP." in answer.out
    Path("rows.txt").write_text("0.5 0.5 0\n0 0.5 0.5\n0.4 0.2 0.4\n")
    answer = crossgrad("graph", "weight-matrix", "path=rows.txt", "-n", 3)
    assert answer.status == 0
    assert "row-stochastic" in answer.out
    assert "no algorithm takes it" in answer.out


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["rign"], ["graph.name: there is no 'rign'", "Did you mean 'ring'?"]),
        (["ring", "--agents", "0"], ["agents", "found 0"]),
        (["ring", "--agents", "-3"], ["agents", "found -3"]),
        (["ring", "--agents", "100000000"], ["agents should be at most 1,000,000"]),
        (["fully-connected", "--agents", "1000000"], ["use fewer agents or a sparser graph"]),
        (["ring", "weight=3"], ["graph.weight: ring has no key 'weight'", "It takes no options"]),
        (["erdos-renyi", "probability=2"], ["probability", "found 2.0"]),
        (["erdos-renyi", "probability=often"], ["graph.probability must be a valid number", "'often'"]),
        (["erdos-renyi", "0.5"], ["a change is written key=value"]),
        (["edge-list"], ["edge-list needs path"]),
        (["edge-list", "path=nothing.txt"], ["nothing.txt: expected a file, found nothing"]),
        (["edge-list", "path=parts.txt", "-n", "4"], ["parts.txt", "found 2 parts", "agents 0 and 2"]),
        (["edge-list", "path=parts.txt", "-n", "5"], ["parts.txt"]),
        (["weight-matrix", "path=parts.txt"], ["parts.txt"]),
        (["weight-matrix", "path=/dev/null"], ["/dev/null"]),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else None,
)
def test_a_graph_that_cannot_be_is_refused(crossgrad, arguments, words):
    Path("parts.txt").write_text("0 1\n2 3\n")
    assert is_one_sentence(crossgrad("graph", *arguments), *words)


def test_a_path_of_odd_characters_or_great_length_is_shown_in_one_short_line(crossgrad):
    assert is_one_sentence(
        crossgrad("graph", "edge-list", "path=no\nsuch\x1b[31m.txt"), r"no\nsuch\x1b[31m.txt: expected"
    )
    answer = crossgrad("graph", "edge-list", "path=" + "x" * 5000)
    assert is_one_sentence(answer, "File name too long")
    assert len(answer.err) < 1000


@pytest.mark.parametrize("name", PARTITIONS)
def test_every_partition_has_a_table_and_a_picture(crossgrad, name):
    answer = crossgrad("partition", name, "--agents", 7, "--picture", "split.png")
    assert answer.status == 0
    lines = answer.out.splitlines()
    assert lines[0].split() == ["agent", "samples", *"0123456789"]
    assert [line.split()[0] for line in lines[1:9]] == [*"0123456", "all"]
    assert sum(int(line.split()[1]) for line in lines[1:8]) == int(lines[8].split()[1]) == 1437
    assert lines[9] == "Drawn in split.png"
    width, height = size_of_png(Path("split.png"))
    assert 600 < width < 3000
    assert 200 < height < 3000


def size_of_png(path: Path) -> tuple[int, int]:
    content = path.read_bytes()
    assert content.startswith(b"\x89PNG\r\n\x1a\n")
    assert content.endswith(b"IEND\xaeB`\x82")
    return struct.unpack(">II", content[16:24])


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["clas"], ["partition.name: there is no 'clas'", "Did you mean 'class'?"]),
        (["dirichlet", "alpha=0"], ["alpha", "above 0"]),
        (["dirichlet", "beta=1"], ["partition.beta: dirichlet has no key 'beta'"]),
        (["class", "--agents", "0"], ["agents"]),
        (["class", "--agents", "5000"], ["5000 agents"]),
        (["class", "--data", "digit"], ["'digit'", "did you mean digits?"]),
        (["class", "--data", "mnist"], ["mnist was looked for in", "crossgrad data fetch mnist"]),
        (["class", "--picture", "there.png"], ["there.png exists already and is not overwritten"]),
        (["class", "--picture", "split.jpg"], ["a picture is a .png, .svg or .pdf file; found split.jpg"]),
        (["class", "--picture", "split"], ["a picture is a .png, .svg or .pdf file; found split"]),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else None,
)
def test_a_partition_that_cannot_be_is_refused_before_anything_is_done(crossgrad, arguments, words):
    Path("there.png").write_text("mine")
    assert is_one_sentence(crossgrad("partition", *arguments), *words)
    assert Path("there.png").read_text() == "mine"


@pytest.mark.parametrize("picture", ["/proc/split.png", "nowhere/split.svg", "/dev/null/split.pdf"])
def test_a_picture_where_nothing_can_be_written_is_refused(crossgrad, picture):
    answer = crossgrad("partition", "class", "--picture", picture)
    assert answer.status == 2
    assert answer.err.startswith(f"crossgrad: {picture}: ")
    assert answer.err.count("\n") == 1


# Data sets


def test_where_data_sets_are_looked_for_is_said(crossgrad, tmp_path):
    answer = crossgrad("data", "where")
    assert answer.status == 0
    assert "digits: comes with scikit-learn" in answer.out
    for name in ("mnist", "fashion-mnist", "cifar10"):
        assert f"{name}: not found; looked in {tmp_path / 'cache' / 'crossgrad' / name}" in answer.out
        assert f"crossgrad data fetch {name}\n" in answer.out


def test_a_data_set_that_is_there_is_found(crossgrad, tmp_path):
    fake_mnist(tmp_path / "cache" / "crossgrad" / "mnist")
    assert crossgrad("data", "where", "mnist").out == f"mnist: found in {tmp_path / 'cache' / 'crossgrad' / 'mnist'}\n"
    assert crossgrad("data", "where", "digits").out == "digits: comes with scikit-learn\n"


def test_a_data_set_nobody_knows_is_neither_found_nor_fetched(crossgrad):
    assert is_one_sentence(crossgrad("data", "where", "minst"), "'minst'", "Did you mean 'mnist'?")
    assert is_one_sentence(crossgrad("data", "fetch", "nonsense"), "'nonsense'", "cifar10", "mnist")
    assert is_one_sentence(crossgrad("data", "fetch", "digits"), "comes with scikit-learn")


def test_a_folder_to_fetch_into_that_is_a_file_is_refused(crossgrad):
    Path("file").write_text("mine")
    assert is_one_sentence(crossgrad("data", "fetch", "mnist", "--into", "file"), "file")


def test_a_missing_data_set_says_where_it_was_looked_for_and_what_to_run(crossgrad, small, tmp_path):
    answer = crossgrad("run", small, "data=mnist")
    assert is_one_sentence(answer, str(tmp_path / "cache" / "crossgrad" / "mnist"), "`crossgrad data fetch mnist`")
    assert not Path("runs").exists()


def fake_mnist(folder: Path) -> Path:
    """Forty images of noise in files as the real ones."""
    folder.mkdir(parents=True)
    rng = np.random.default_rng(0)
    for prefix in ("train", "t10k"):
        for kind, array in (("images-idx3", rng.integers(0, 256, (40, 28, 28))), ("labels-idx1", np.arange(40) % 10)):
            header = bytes([0, 0, 8, array.ndim]) + np.array(array.shape, ">u4").tobytes()
            content = gzip.compress(header + array.astype(np.uint8).tobytes())
            (folder / f"{prefix}-{kind}-ubyte.gz").write_bytes(content)
    return folder


def test_a_run_on_files_of_mnist_and_on_broken_ones(crossgrad, small):
    folder = fake_mnist(Path("my data"))
    assert crossgrad("run", small, "data=mnist", "data.root=my data", "--quiet").status == 0
    images = folder / "train-images-idx3-ubyte.gz"
    whole = images.read_bytes()
    for broken in (whole[: len(whole) // 2], b"", b"<html>Not found</html>", gzip.compress(b"\0\0\x08\x03")):
        images.write_bytes(broken)
        answer = crossgrad("run", small, "data=mnist", "data.root=my data")
        assert is_one_sentence(answer, "small.toml: ", str(images), "fetch or copy it again")


# Runs


def test_a_run_leaves_everything_in_a_folder_of_its_own(crossgrad, small):
    answer = crossgrad("run", small, "seed=3")
    assert answer.status == 0
    assert answer.err == ""
    run = only_run()
    assert run.name.endswith("-small")
    assert {file.name for file in run.iterdir()} == FILES
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


def test_the_model_on_disk_has_the_accuracy_of_the_last_record(crossgrad, small):
    crossgrad("run", small, "training.steps=30", "--quiet")
    run = only_run()
    assert accuracy_of(run) == records_of(run)[-1]["accuracy"] > 0.15


def test_the_experiment_of_a_run_gives_the_same_bits_again(crossgrad, small):
    crossgrad("run", small, "algorithm=compcga", "--out", "first", "--quiet")
    first = only_run("first")
    crossgrad("run", first / "experiment.toml", "--out", "second", "--quiet")
    second = only_run("second")
    for name in ("experiment.toml", "model.safetensors"):
        assert (first / name).read_bytes() == (second / name).read_bytes()
    for one, other in zip(records_of(first), records_of(second), strict=True):
        assert one | {"seconds": 0} == other | {"seconds": 0}


def test_another_seed_gives_another_model(crossgrad, small):
    for seed in (0, 1):
        crossgrad("run", small, f"seed={seed}", "--out", f"seed{seed}", "--quiet")
    zero, one = ((only_run(f"seed{seed}") / "model.safetensors").read_bytes() for seed in (0, 1))
    assert zero != one


def test_a_quiet_run_prints_only_its_folder(crossgrad, small):
    answer = crossgrad("run", small, "--quiet")
    assert answer == Answer(0, f"{only_run()}\n", "")


def test_a_json_run_prints_only_its_records(crossgrad, small):
    answer = crossgrad("run", small, "--json")
    assert answer.status == 0
    assert answer.err == ""
    assert [json.loads(line) for line in answer.out.splitlines()] == records_of(only_run())


def test_a_run_in_epochs_counts_its_steps(crossgrad, small):
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
def test_any_name_makes_a_folder_inside_the_output_folder(crossgrad, small, name):
    answer = crossgrad("run", small, f'name="{name}"', "training.steps=1", "--out", "out")
    assert answer.status == 0
    assert only_run("out").parent == Path("out")
    assert read(only_run("out") / "experiment.toml").name == name


def test_a_folder_named_like_markup_is_printed_as_it_is(crossgrad, small):
    answer = crossgrad("run", small, "--out", "runs[/red][bold]")
    assert answer.status == 0
    assert f"Records, model and settings: {only_run('runs[/red][bold]')}\n" in answer.out


@pytest.mark.parametrize("out", ["small.toml", "small.toml/x", "/dev/null", "/dev/null/x", "/proc/x"])
def test_an_output_folder_that_cannot_be_written_is_refused(crossgrad, small, out):
    assert is_one_sentence(crossgrad("run", small, "--out", out), "--out", out)
    assert small.read_text() == SMALL


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
        (["nonsense"], ["a change is written key=value"]),
    ],
    ids=lambda value: " ".join(value),
)
def test_an_experiment_that_cannot_run_is_refused_and_leaves_nothing(crossgrad, small, changes, words):
    assert is_one_sentence(crossgrad("run", small, *changes), "small.toml: ", *words)
    assert not Path("runs").exists()


def test_an_experiment_that_is_not_there_is_refused(crossgrad):
    assert is_one_sentence(crossgrad("run", "nothing.toml"), "nothing.toml: there is no such file")
    assert is_one_sentence(crossgrad("run", "."), "found a folder")


@pytest.mark.parametrize("failure", [MemoryError(), RuntimeError("DefaultCPUAllocator: can't allocate memory")])
def test_too_little_memory_is_said_in_a_sentence(crossgrad, small, monkeypatch, failure):
    def fail(*_, **__):
        raise failure

    monkeypatch.setattr(Training, "__init__", fail)
    assert is_one_sentence(crossgrad("run", small), "there is not enough memory")


def test_a_diverging_run_says_so_and_keeps_the_last_good_state(crossgrad, small):
    changes = ["algorithm.momentum=0.98", "schedule.lr=100", "training.steps=40", "training.evaluate_every=2"]
    answer = crossgrad("run", small, *changes)
    assert answer.status == 0
    assert "The run diverged: " in answer.out
    run = only_run()
    summary, records = summary_of(run), records_of(run)
    assert summary["ended"] == "diverged"
    assert summary["status"] == records[-1]["status"] != "ok"
    assert f"The models of step {summary['model_of_step']}, the last good ones, are kept." in answer.out
    (good,) = [record for record in records if record["step"] == summary["model_of_step"]]
    assert accuracy_of(run) == good["accuracy"]
    assert all(torch.isfinite(value).all() for value in load_file(run / "model.safetensors").values())


# Interruptions


def test_ctrl_c_ends_a_run_after_the_step_and_keeps_its_state(crossgrad, small, monkeypatch):
    step = Training.step

    def interrupted(training):
        if training.step_number == 2:
            os.kill(os.getpid(), signal.SIGINT)
        step(training)

    monkeypatch.setattr(Training, "step", interrupted)
    before = signal.getsignal(signal.SIGINT)
    answer = crossgrad("run", small)
    assert answer.status == 130
    assert answer.err == f"Stopped after step 3. `crossgrad resume {only_run()}` goes on from step 3.\n"
    assert summary_of(only_run())["ended"] == "interrupted"
    assert summary_of(only_run())["steps"] == 3
    assert {file.name for file in only_run().iterdir()} == FILES | {"checkpoints"}
    assert signal.getsignal(signal.SIGINT) is before


def test_a_second_ctrl_c_does_not_wait_for_the_step(crossgrad, small, monkeypatch):
    def endless(_):
        while True:
            os.kill(os.getpid(), signal.SIGINT)

    monkeypatch.setattr(Training, "step", endless)
    answer = crossgrad("run", small)
    assert answer.status == 130
    assert answer.err == f"Stopped after step 0. `crossgrad resume {only_run()}` goes on from the beginning.\n"
    assert {file.name for file in only_run().iterdir()} == FILES - {"model.safetensors", "summary.json"}


def test_ctrl_c_at_the_start_ends_it_quietly(crossgrad, small, monkeypatch):
    def interrupted(*_, **__):
        raise KeyboardInterrupt

    monkeypatch.setattr(Training, "__init__", interrupted)
    assert crossgrad("run", small) == Answer(130, "", "")
    assert not Path("runs").exists()


@pytest.mark.parametrize("module", ["typer", "torch"])
def test_ctrl_c_while_modules_are_imported_ends_it_quietly(small, module):
    code = f"""
import runpy, sys
class Interrupt:
    def find_spec(self, name, path=None, target=None):
        if name == {module!r}:
            raise KeyboardInterrupt
sys.meta_path.insert(0, Interrupt())
sys.argv = ["crossgrad", "run", "small.toml"]
runpy.run_module("crossgrad", run_name="__main__", alter_sys=True)
"""
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=WAIT)
    assert (ended.returncode, ended.stdout, ended.stderr) == (130, "", "")


def test_a_run_that_is_killed_by_ctrl_c_keeps_its_records_model_and_summary(small):
    process = start("run", small, "training.steps=1000000", "training.evaluate_every=5")
    deadline = time.monotonic() + WAIT
    while not any(len(path.read_text().splitlines()) > 2 for path in Path("runs").glob("*/records.jsonl")):
        assert time.monotonic() < deadline
        time.sleep(0.05)
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=WAIT)
    assert process.returncode == 130
    run = only_run()
    assert re.fullmatch(rf"Stopped after step (\d+)\. `crossgrad resume {run}` goes on from step \1\.\n", err)
    assert {file.name for file in run.iterdir()} == FILES | {"checkpoints"}
    steps = [record["step"] for record in records_of(run)]
    assert steps == list(range(0, len(steps) * 5, 5))
    assert summary_of(run)["ended"] == "interrupted"
    assert summary_of(run)["model_of_step"] >= steps[-1]
    assert 0 <= accuracy_of(run) <= 1


def test_a_reader_that_leaves_is_no_reason_for_a_traceback(small):
    process = start("run", small, "training.steps=100000", "training.evaluate_every=1")
    assert process.stdout.readline().startswith("step 0/100000")
    process.stdout.close()
    assert process.stderr.read() == ""
    process.stderr.close()
    assert process.wait(timeout=WAIT) == 1


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="this system has no device that is always full")
def test_standard_output_that_is_full_is_said_in_a_sentence():
    with open("/dev/full", "w") as full:
        process = start("data", "where", stdout=full)
        _, err = process.communicate(timeout=WAIT)
    assert process.returncode == 2
    assert err == "crossgrad: the disk: No space left on device.\n"


@pytest.fixture
def tiny_disk(tmp_path):
    """A disk of one megabyte."""
    disk = tmp_path / "disk"
    disk.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", str(disk)]
    try:
        mounted = subprocess.run(mount, capture_output=True).returncode == 0
    except FileNotFoundError:
        mounted = False
    if not mounted:
        pytest.skip("this machine does not let us mount a small disk")
    yield disk
    subprocess.run(["umount", "--lazy", str(disk)], check=True)


def test_a_disk_that_is_full_from_the_start_is_said_in_a_sentence(crossgrad, small, tiny_disk):
    (tiny_disk / "filler").write_bytes(bytes(1 << 20))
    answer = crossgrad("run", small, "--out", tiny_disk, "--quiet")
    assert is_one_sentence(answer, str(tiny_disk), "No space left on device")


@pytest.mark.parametrize("room", [20_480, pytest.param(90_000, marks=pytest.mark.slow)])  # for no checkpoint, for one
def test_a_run_pauses_on_a_full_disk_and_loses_nothing(crossgrad, small, tiny_disk, room):
    changes = ["model.hidden=[100]", "training.steps=12", "training.evaluate_every=1", "agents=1"]
    crossgrad("run", small, *changes)
    (tiny_disk / "filler").write_bytes(bytes((1 << 20) - room))
    process = start("run", small, *changes, "--out", tiny_disk, "--quiet", "--checkpoint-every", 0)
    assert "Paused: " in (said := process.stderr.readline())
    assert str(tiny_disk) in said
    assert "No space left on device" in said
    (tiny_disk / "filler").unlink()
    out, _ = process.communicate(timeout=WAIT)
    assert process.returncode == 0
    paused, smooth = records_of(Path(out.strip())), records_of(only_run())
    assert [record | {"seconds": 0} for record in paused] == [record | {"seconds": 0} for record in smooth]
    assert (Path(out.strip()) / "model.safetensors").read_bytes() == (only_run() / "model.safetensors").read_bytes()


def test_a_folder_that_can_only_be_read_is_said_in_a_sentence(crossgrad, small, tiny_disk):
    subprocess.run(["mount", "-o", "remount,ro", str(tiny_disk)], check=True)
    assert is_one_sentence(crossgrad("run", small, "--out", tiny_disk), str(tiny_disk), "Read-only file system")


@pytest.mark.slow
def test_a_disk_that_can_only_be_read_for_a_while_pauses_a_run(small, tiny_disk):
    process = start("run", small, "training.steps=150", "training.evaluate_every=1", "--out", tiny_disk, "--quiet")
    while not list(tiny_disk.glob("*/records.jsonl")):
        time.sleep(0.01)
    # Not while a file is open for writing: then the system says that the disk is busy.
    while subprocess.run(["mount", "-o", "remount,ro", str(tiny_disk)], capture_output=True).returncode:
        assert process.poll() is None
    assert "Read-only file system" in process.stderr.readline()
    subprocess.run(["mount", "-o", "remount,rw", str(tiny_disk)], check=True)
    out, _ = process.communicate(timeout=WAIT)
    assert process.returncode == 0
    assert [record["step"] for record in records_of(Path(out.strip()))] == list(range(151))


def test_a_run_that_is_paused_can_be_stopped_and_resumed(crossgrad, small, tiny_disk):
    (tiny_disk / "filler").write_bytes(bytes((1 << 20) - 12288))
    changes = ["training.steps=60", "training.evaluate_every=1", "agents=1"]
    process = start("run", small, *changes, "--out", tiny_disk)
    assert "Paused: " in process.stderr.readline()
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=WAIT)
    assert process.returncode == 130
    assert "goes on from" in err
    (tiny_disk / "filler").unlink()
    (folder,) = (path for path in tiny_disk.iterdir() if path.is_dir())
    assert crossgrad("resume", folder, "--quiet").status == 0
    assert [record["step"] for record in records_of(folder)] == list(range(61))


# Terminals


def on_a_terminal(*arguments: object, columns: int = 80) -> tuple[int, str]:
    """Status and output of the command on a terminal of this width."""
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
    environment = {**os.environ, "TERM": "xterm-256color"}
    del environment["COLUMNS"]
    process = start(*arguments, stdin=theirs, stdout=theirs, stderr=theirs, env=environment)
    os.close(theirs)
    chunks = []
    try:
        while chunk := os.read(ours, 65536):
            chunks.append(chunk)
    except OSError:  # on Linux the end of a terminal is an error
        pass
    os.close(ours)
    return process.wait(timeout=WAIT), b"".join(chunks).decode()


def test_a_terminal_shows_live_progress_that_fits_into_its_lines(small):
    status, seen = on_a_terminal("run", small, "training.steps=300", "training.evaluate_every=20")
    assert status == 0
    assert "\x1b[1A" in seen, "nothing is drawn over"
    lines = [line for line in re.split(r"[\r\n]+", re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", seen)) if line.strip()]
    assert all(len(line) <= 80 for line in lines if not line.startswith("Records"))
    assert not any("…" in line for line in lines), "something is cut off"
    assert any(re.search(r"^training ━.* +\d+/300 \S+ steps/s \d:\d\d:\d\d left$", line) for line in lines)
    assert any(re.search(r"^step \d+  loss \S+  accuracy \S+ \(mean agent \S+, worst \S+\)$", line) for line in lines)
    assert lines[-1].strip() == f"Records, model and settings: {only_run()}"


def test_the_example_that_the_help_names_is_there():
    assert read(EXAMPLE).name == "digits-ring"
