"""docs/extending.md: every file in it runs, in a folder outside the tree."""

import gzip
import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from crossgrad._report.page import write_page
from crossgrad._runs.results import pack_results, read_results

DOCUMENT = Path(__file__).parents[2] / "docs" / "extending.md"
BLOCK = re.compile(r"```(?:python|toml)\n# (\S+)\n(.*?)```", re.DOTALL)
KINDS = ("model", "data", "graph", "partition", "algorithm", "codec", "task", "metric")
WAIT = 100


@pytest.fixture
def crossgrad(forks):
    """Runs the command in a process of its own."""

    def call(folder, *arguments, env=None):
        command = ["-m", "crossgrad", *arguments]
        return forks.run(command, cwd=folder, timeout=WAIT, env={**os.environ, **(env or {})})

    return call


@pytest.fixture
def outside(tmp_path):
    """The files of the document in a folder of their own."""
    for name, text in BLOCK.findall(DOCUMENT.read_text()):
        if name != "pyproject.toml":
            (tmp_path / name).write_text(text)
    return tmp_path


def with_plugins(*kinds):
    return [word for kind in kinds for word in ("--plugin", f"my_{kind}.py")]


def test_one_example_of_each_kind_runs_and_the_run_notes_its_plugins(outside, crossgrad):
    """And what is missing is named: by run in one sentence, by resume with the file that the run began with."""
    done = crossgrad(outside, "run", "everything.toml", *with_plugins(*KINDS), "--keep-state")
    assert (done.returncode, done.stderr) == (0, "")
    (run,) = (outside / "runs").iterdir()
    record = json.loads((run / "records.jsonl").read_text().splitlines()[-1])
    assert record["accuracy"] > 0.6
    assert 0 <= record["metrics"]["sure_share"]["averaged"] <= 1
    parameters, messages = 2 * 16 + 16 + 16 * 2 + 2, 2 * (6 + 2)
    assert record["bytes_sent"] == 20 * messages * parameters * 2  # the codec's two bytes for each number
    noted = json.loads((run / "versions.json").read_text())["plugins"]
    assert {Path(file).name for file in noted} == {f"my_{kind}.py" for kind in KINDS}
    assert all(len(digest) == 64 for digest in noted.values())
    (run / "summary.json").unlink()
    refused = crossgrad(outside, "resume", run, *with_plugins(*KINDS[1:]))
    assert refused.returncode == 2
    assert f"{outside / 'my_model.py'}, with which the run began, is not loaded" in refused.stderr
    assert "model.name: there is no 'my-net'" in refused.stderr
    assert refused.stderr.count("\n") == 1


GRID = """
name = "grid"
[experiment]
agents = 6
graph = "ring"
algorithm = "dpsgd"
partition = "iid"
data = { name = "two-moons", samples = 60 }
training = { steps = 2, threads = 1 }
[axes.net]
small = { model = { name = "my-net", width = 2 } }
large = { model = { name = "my-net", width = 4 } }
"""


def test_a_sweep_hands_plugin_files_to_its_workers_and_its_results_are_read_without_them(outside, crossgrad):
    """One of the two comes from an installed package: a folder on the path with its metadata."""
    info = outside / "my_nets-1.2.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: my-nets\nVersion: 1.2\n")
    (info / "entry_points.txt").write_text("[crossgrad.model]\nmy-net = packaged:MyNet\n")
    (outside / "packaged.py").write_text((outside / "my_model.py").read_text().replace("@crossgrad.register", "# "))
    (outside / "grid.toml").write_text(GRID)
    path = os.pathsep.join(filter(None, (str(outside), os.environ.get("PYTHONPATH"))))
    command = [sys.executable, "-m", "crossgrad", "sweep", "grid.toml", *with_plugins("data"), "--jobs", "2"]
    environment = {**os.environ, "PYTHONPATH": path}  # real workers: forked ones would have the command's plug-ins
    done = subprocess.run(command, cwd=outside, env=environment, timeout=WAIT, capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")
    cells = [json.loads(file.read_text())["plugins"] for file in outside.glob("sweeps/grid/cells/*/versions.json")]
    assert [{Path(name).name: version[:3] for name, version in plugins.items()} for plugins in cells] == [
        {"my-nets": "1.2", "my_data.py": cells[0][str(outside / "my_data.py")][:3]}
    ] * 2
    pack_results(read_results(outside / "sweeps" / "grid"), outside / "packed.gz")
    assert gzip.decompress((outside / "packed.gz").read_bytes()).count(b'"my-net"') == 2
    write_page(outside / "sweeps" / "grid", outside / "report.html")
    assert "my-net" in (outside / "report.html").read_text()
    listed = crossgrad(outside, "list", "models", env={"PYTHONPATH": path, "COLUMNS": "200"})
    assert "Two layers with tanh between them. (my-nets 1.2)" in listed.stdout


@pytest.mark.slow
def test_processes_load_the_same_plugins_and_come_to_the_same_bits(outside, crossgrad):
    """And a resumed run says that a plug-in has been changed."""
    plugins = with_plugins(*KINDS)
    one = crossgrad(outside, "run", "everything.toml", *plugins, "training.deterministic=true", "--out", "one")
    two = crossgrad(
        outside,
        "run",
        "everything.toml",
        *plugins,
        "training.deterministic=true",
        "--out",
        "two",
        "-p",
        "2",
        "--keep-state",
    )
    assert (one.returncode, two.returncode) == (0, 0)
    (single,), (shared,) = (outside / "one").iterdir(), (outside / "two").iterdir()
    assert (single / "model.safetensors").read_bytes() == (shared / "model.safetensors").read_bytes()
    (shared / "summary.json").unlink()
    with (outside / "my_metric.py").open("a") as file:
        file.write("# a remark\n")
    again = crossgrad(outside, "resume", shared, *plugins)
    assert "my_metric.py has been changed since the run began" in again.stderr
