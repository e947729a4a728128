"""Starting runs of several processes, on one machine and on several; what goes wrong is said in one sentence."""

import json
import os
import re
import signal
import subprocess
from pathlib import Path

import pytest

RUN = ("-m", "crossgrad", "run", "examples/digits-ring.toml")


def the_one_in(parent):
    """The folder of the only run that was written here."""
    (folder,) = parent.iterdir()
    return folder


def contents(folder):
    """What a run has written, but for times and versions."""
    records = [json.loads(line) | {"seconds": 0} for line in (folder / "records.jsonl").read_text().splitlines()]
    summary = json.loads((folder / "summary.json").read_text())
    summary["last_record"]["seconds"] = 0
    files = {path.name for path in folder.iterdir()}
    model = (folder / "model.safetensors").read_bytes()
    texts = [(folder / name).read_text() for name in ("experiment.toml", "agents.json")]
    return files, records, summary, model, texts


@pytest.fixture(scope="module")
def alone(launch, tmp_path_factory):
    """The run of one process."""
    out = tmp_path_factory.mktemp("alone")
    ended = launch.alone(*RUN, "training.steps=20", "--out", out)
    assert ended.status == 0, ended.err
    return contents(the_one_in(out))


def test_torchrun_writes_one_folder_the_same_as_without(launch, alone, tmp_path):
    ended = launch.together(2, *RUN, "training.steps=20", "--out", tmp_path)
    assert ended.status == 0, ended.err
    assert contents(the_one_in(tmp_path)) == alone
    assert ended.out.count("Records, model and settings") == 1


def test_the_option_processes_writes_the_same_run_as_torchrun(launch, alone, tmp_path):
    ended = launch.alone(*RUN, "training.steps=20", "--processes", "2", "--out", tmp_path)
    assert (ended.status, ended.err) == (0, ""), ended.err
    assert contents(the_one_in(tmp_path)) == alone
    assert ended.out.count("Records, model and settings") == 1


@pytest.mark.slow
def test_ctrl_c_saves_a_run_of_several_processes_which_then_goes_on_with_the_same_bits(launch, tmp_path):
    changes = ("training.steps=1500", "training.evaluate_every=20", "training.deterministic=true")
    smooth = launch.alone(*RUN, *changes, "--out", tmp_path / "smooth")
    assert smooth.status == 0, smooth.err
    running = launch.start(launch.python(*RUN, *changes, "--processes=2", "--out", tmp_path / "stopped"))
    while not running.process.stdout.readline().startswith("step 40/"):
        assert running.process.poll() is None
    running.process.send_signal(signal.SIGINT)
    stopped = running.wait()
    folder = the_one_in(tmp_path / "stopped")
    assert stopped.status == 130
    assert re.fullmatch(
        rf"Stopped after step (\d+)\. `crossgrad resume {folder}` goes on from step \1\.\n", stopped.err
    )
    resumed = launch.alone("-m", "crossgrad", "resume", folder, "--processes", "2", "--quiet")
    assert (resumed.status, resumed.out, resumed.err) == (0, f"{folder}\n", "")
    assert contents(folder) == contents(the_one_in(tmp_path / "smooth"))


@pytest.mark.slow
def test_a_process_that_is_killed_ends_the_run_with_the_way_to_go_on(launch, tmp_path):
    changes = ("training.steps=100000", "training.evaluate_every=20")
    running = launch.start(launch.python(*RUN, *changes, "--processes", "2", "--out", tmp_path))
    while not running.process.stdout.readline().startswith("step 20/"):
        assert running.process.poll() is None
    children = Path(f"/proc/{running.process.pid}/task/{running.process.pid}/children").read_text().split()
    os.kill(int(children[1]), signal.SIGKILL)
    ended = running.wait()
    assert ended.status == 3
    assert "rank 1 (agents 5 to 9) has been lost" in ended.err
    assert f"`crossgrad resume {the_one_in(tmp_path)} --processes 2` goes on." in ended.err


@pytest.mark.slow
def test_two_launchers_give_the_same_run(launch, alone, tmp_path):
    port = launch.free_port()
    nodes = [(("--nnodes", "2", "--node-rank", str(rank)), None) for rank in range(2)]
    assert run_on(launch, nodes, "127.0.0.1", port, tmp_path, GLOO_SOCKET_IFNAME="lo") == alone


@pytest.mark.slow
def test_two_network_namespaces_joined_by_a_cable_give_the_same_run(launch, namespace, alone, tmp_path):
    """As two machines: each has its own loopback, and only the cable between them."""
    here, there = namespace(), namespace()
    ip("link", "add", "cable", "netns", here, "type", "veth", "peer", "name", "cable", "netns", there)
    for name, address in ((here, "10.77.0.1/24"), (there, "10.77.0.2/24")):
        ip("-n", name, "address", "add", address, "dev", "cable")
        ip("-n", name, "link", "set", "cable", "up")
    nodes = [(("--nnodes", "2", "--node-rank", str(rank)), name) for rank, name in enumerate((here, there))]
    assert run_on(launch, nodes, "10.77.0.1", 29500, tmp_path, GLOO_SOCKET_IFNAME="cable") == alone


@pytest.mark.slow
def test_ten_processes_with_one_agent_each_on_a_star(launch, tmp_path):
    run = ("crossgrad", *RUN[2:], "graph=star", "training.steps=5", "--out", tmp_path)
    ended = launch.alone(launch.workers / "forked.py", "0,10", *run)
    assert ended.status == 0, ended.err
    one, ten = sorted(tmp_path.iterdir())
    assert contents(one) == contents(ten)


@pytest.mark.slow
def test_a_wider_model_gives_the_same_bits_in_any_number_of_processes(launch, tmp_path):
    """Matrices large enough for other kernels: gradients must not depend on how many are taken together."""
    run = ("crossgrad", *RUN[2:], "model.hidden=[300, 150]", "training.batch_size=33")
    exact = ("training.steps=5", "training.deterministic=true", "--out", tmp_path)
    ended = launch.alone(launch.workers / "forked.py", "0,3", *run, *exact)
    assert ended.status == 0, ended.err
    one, three = sorted(tmp_path.iterdir())
    assert contents(one) == contents(three)


def test_more_processes_than_agents_are_refused_in_one_sentence(launch, tmp_path):
    run = ("crossgrad", *RUN[2:], "agents=1", "--out", tmp_path)
    ended = launch.alone(launch.workers / "forked.py", "2", *run, AGENT_STORE="1")  # as torchrun, which outlives rank 0
    assert ended.out == "2 2\n"
    assert ended.err.startswith("crossgrad: ")
    assert ended.err.count("\n") == 1
    assert "2 processes were started for 1 agents" in ended.err
    assert not list(tmp_path.iterdir())


def test_processes_with_unlike_experiments_or_models_all_notice(launch):
    """Models of unlike sizes must never reach gloo, which believes a short message and aborts at a long one."""
    ended = launch.alone(launch.workers / "forked.py", "3", launch.workers / "disagree.py")
    assert ended.out.endswith("\n0 0 0\n"), ended.out + ended.err
    assert ended.out.count("all processes must run the same experiment") == 3 * 3
    assert ended.out.count("that of rank 1 differs from that of rank 0") == 3 * 3


@pytest.mark.slow
def test_twelve_runs_in_a_row_all_end_with_status_zero(launch, tmp_path):
    run = ("crossgrad", *RUN[2:], "training.steps=5", "-q", "--out", tmp_path)
    ended = launch.alone(launch.workers / "forked.py", ",".join(["3"] * 12), *run)
    assert ended.status == 0, ended.err
    assert ended.out.splitlines().count("0 0 0") == 12, ended.out
    assert ended.err == ""
    assert len(list(tmp_path.iterdir())) == 12


def run_on(launch, nodes, master, port, out, **environment):
    """One run by two launchers with two processes each."""
    run = (*RUN, "training.steps=20", "--out", out)
    both = [
        launch.start(launch.torchrun(2, *options, *run, master=master, port=port), inside=name, **environment)
        for options, name in nodes
    ]
    ends = [launcher.wait() for launcher in both]
    assert [ended.status for ended in ends] == [0, 0], ends
    return contents(the_one_in(out))


def ip(*arguments: str) -> None:
    subprocess.run(["ip", *arguments], check=True)
