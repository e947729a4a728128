"""Processes that die, hang or send nonsense: noticed in time, named, and made good by starting anew."""

import json
import os
import re
import signal
import socket
import time
from pathlib import Path

import pytest

PROOFS = Path(__file__).parents[2] / "proofs"


ROGUES = {
    "step": r"rank 1 was to send the model of agent 1 in step 2, but what arrived has step 1 instead of 2",
    "nan": r"rank 1 sent the model of agent 1 in step 2 with numbers that are not finite",
    "noise": r"rank 1 was to send the model of agent 1 in step 2, but what arrived has format",
    "short": r"rank 1 sent only a part of the model of agent 1 in step 0",
    "loss": r"this agent's loss must be finite; it is not \(the loss is nan(.|\n)*rank 1 \(agent 1\) has been lost",
}


def test_a_bad_message_is_reported_with_its_sender_and_ends_the_run(launch):
    ended = launch.alone(launch.workers / "rogue.py", *ROGUES)
    assert ended.status == 0, ended.err
    for case, seen in json.loads(ended.out).items():
        assert all(seen["statuses"]), seen
        assert re.search(ROGUES[case], seen["err"]), seen


def test_a_lie_a_message_too_long_or_a_step_that_hangs_names_its_rank_and_ends_with_status_3(
    launch,
):
    modes = ("huge count", "sum with NaN", "sum with 3e38", "vote of NaN", "long", "hanging")
    ended = launch.alone(PROOFS / "hostile_peers.py", *(word for mode in modes for word in ("--mode", mode)))
    assert ended.status == 0, ended.out + ended.err
    assert json.loads(ended.out)["held"] == len(modes)


def test_a_port_that_another_program_has_is_a_sentence_not_a_traceback(launch):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        address = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(taken.getsockname()[1])}
        ranks = {"RANK": "0", "LOCAL_RANK": "0", "WORLD_SIZE": "2", "LOCAL_WORLD_SIZE": "2"}
        ended = launch.alone("-m", "crossgrad", "run", "examples/digits-ring.toml", **address, **ranks)
    assert ended.status == 2
    assert ended.err.count("\n") == 1
    assert "another program has this port" in ended.err


@pytest.mark.slow
def test_a_run_of_which_a_process_was_killed_is_started_anew_and_ends_the_same(launch, tmp_path):
    proof = (PROOFS / "restarts.py", "--kills", 1, "--stops", 0, "--steps", 300, "--processes", 2)
    ended = launch.alone(*map(str, proof), "--out", tmp_path / "result.json")
    assert ended.status == 0, ended.out + ended.err
    result = json.loads((tmp_path / "result.json").read_text())
    assert result["final states equal"]
    assert result["times a lost process was named"] > 0


def test_ctrl_c_stops_all_processes_after_the_same_step(launch, tmp_path):
    run = ("crossgrad", "run", "examples/digits-ring.toml", "--json", "--out", tmp_path)
    run += ("training.steps=100000", "training.evaluate_every=5")
    running = launch.begin(launch.workers / "forked.py", "2", *run)
    for _ in range(3):
        assert running.process.stdout.readline().startswith('{"step"')
    os.killpg(running.process.pid, signal.SIGINT)
    ended = running.wait()
    assert ended.out.endswith("130 130\n")
    (folder,) = tmp_path.iterdir()
    (step,) = {path.name.split(".")[0].removeprefix("step-") for path in (folder / "checkpoints").iterdir()}
    assert f"Stopped after step {step}. `crossgrad resume {folder}` goes on from step {step}." in ended.err
    assert len(list((folder / "checkpoints").iterdir())) == 2


@pytest.mark.slow
def test_runs_that_are_killed_go_on_in_any_number_of_processes(launch, tmp_path):
    ended = launch.alone(PROOFS / "kills.py", "--kills", "2", "--seed", "1", "--out", tmp_path / "result.json")
    assert ended.status == 0, ended.out + ended.err


@pytest.mark.parametrize("store", [{"AGENT_STORE": "1"}, {}], ids=["torchrun's store", "rank 0's store"])
def test_processes_listen_on_the_loopback_interface_only(launch, namespace, store):
    two = (launch.workers / "forked.py", "2", launch.workers / "listening.py")
    ended = launch.alone(*two, NETWORK_NAMESPACE=namespace(), **store)
    *addresses, first, second = ended.out.split()
    assert (first, second) == ("0", "0"), ended.err
    assert set(addresses) == {"127.0.0.1"}


def test_several_machines_need_to_be_told_which_network(launch):
    environment = {"RANK": "0", "WORLD_SIZE": "2", "LOCAL_WORLD_SIZE": "1", "LOCAL_RANK": "0"}
    run = ("-m", "crossgrad", "run", "examples/digits-ring.toml")
    ended = launch.alone(*run, MASTER_ADDR="127.0.0.1", MASTER_PORT="1", **environment)
    assert ended.status == 2
    assert ended.err.count("\n") == 1
    assert "such as GLOO_SOCKET_IFNAME=eth0" in ended.err


@pytest.mark.timeout(300)
def test_a_reason_that_only_another_rank_knows_is_said_with_its_rank_and_agents(launch, tmp_path):
    """Agent 3's data changes on the machine of rank 1; rank 1's newest checkpoint is damaged."""
    two = (launch.workers / "forked.py", "2", launch.workers / "reasons.py")
    run = ["run", launch.root / "examples/digits-ring.toml", "agents=4", "training.steps=6", "-q", f"--out={tmp_path}"]
    stopped = launch.alone(*two, "stop", *run, "--checkpoint-every=0")
    assert stopped.out.split()[-2:] != ["0", "0"], stopped.err
    (folder,) = tmp_path.iterdir()
    newest = max(folder.glob("checkpoints/*agents-2-3*"), key=lambda path: int(path.name.split(".")[0][5:]))
    changed = launch.alone(*two, "data", "resume", folder)
    assert "rank 1 (agents 2 to 3): the data of agent 3 must be what the run began with" in changed.err
    newest.write_bytes(b"damaged")
    damaged = launch.alone(*two, "plain", "resume", folder)
    assert f"Warning: rank 1 (agents 2 to 3): {newest}" in damaged.err
    assert damaged.out.split()[-2:] == ["0", "0"], damaged.err


@pytest.mark.timeout(300)
def test_a_full_disk_or_too_little_memory_of_another_rank_was_said_without_its_rank_or_not_at_all(launch, tmp_path):
    two = (launch.workers / "forked.py", "2", launch.workers / "reasons.py")
    run = [
        "run",
        launch.root / "examples/digits-ring.toml",
        "agents=4",
        "training.steps=6",
        "-q",
        "--checkpoint-every=0",
    ]
    full = launch.alone(*two, "full", *run, f"--out={tmp_path}")
    assert "Paused: rank 1 (agents 2 to 3): the disk of rank 1: No space left on device. The run goes on" in full.err
    assert full.out.split()[-2:] == ["0", "0"], full.err
    memory = launch.alone(*two, "memory", *run, f"--out={tmp_path}")
    assert "rank 1 (agents 2 to 3): there is not enough memory for this." in memory.err
    assert memory.out.split()[-2:] == ["3", "2"], memory.err
    assert "Traceback" not in full.err + memory.err


@pytest.mark.timeout(300)
def test_a_stopped_process_that_holds_the_store_was_noticed_only_after_five_minutes(launch, tmp_path):
    run = ("-m", "crossgrad", "run", "examples/digits-ring.toml", "training.steps=100000", "training.evaluate_every=5")
    more = {"WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(launch.free_port())}
    both = [
        launch.begin(*run, "-q", "--lost-after=8", "--out", tmp_path, RANK=rank, LOCAL_RANK=rank, **more)
        for rank in ("0", "1")
    ]
    while not list(tmp_path.glob("*/records.jsonl")):
        assert both[0].process.poll() is None
    os.kill(both[0].process.pid, signal.SIGSTOP)
    try:
        ended = both[1].wait()
    finally:
        both[0].process.kill()
        both[0].wait()
    assert ended.status == 3
    assert "rank 1 ends: rank 0 (agents 0 to 4) has not been heard of for 8 seconds." in ended.err


@pytest.mark.slow
def test_after_ctrl_z_and_fg_a_run_of_several_processes_goes_on(launch, tmp_path):
    run = ("-m", "crossgrad", "run", "examples/digits-ring.toml", "training.steps=200", "training.evaluate_every=5")
    running = launch.start(launch.python(*run, "-q", "--processes=2", "--lost-after=5", "--out", tmp_path))
    process = running.process.pid
    while not list(tmp_path.glob("*/records.jsonl")):
        assert running.process.poll() is None
    workers = Path(f"/proc/{process}/task/{process}/children").read_text().split()
    os.kill(process, signal.SIGTSTP)
    for each in (*workers, process):
        while Path(f"/proc/{each}/stat").read_text().rpartition(") ")[2][0] != "T":
            time.sleep(0.01)
    time.sleep(8)
    os.kill(process, signal.SIGCONT)
    ended = running.wait()
    assert ended.status == 0, ended.err
