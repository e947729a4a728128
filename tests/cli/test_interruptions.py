"""Ctrl-C, full disks and readers that leave: nothing is lost, and no traceback is seen."""

import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from crossgrad._training.trainer import Training

WAIT = 100  # seconds for a process, which takes three on a machine that has nothing else to do


def test_ctrl_c_ends_a_run_after_the_step_and_keeps_its_state(
    files, crossgrad, small, monkeypatch, only_run, summary_of
):
    step = Training.step

    def interrupted(training):
        if training.step_number == 2:
            os.kill(os.getpid(), signal.SIGINT)
        step(training)

    monkeypatch.setattr(Training, "step", interrupted)
    answer = crossgrad("run", small)
    assert answer.status == 130
    assert answer.err == f"Stopped after step 3. `crossgrad resume {only_run()}` goes on from step 3.\n"
    assert summary_of(only_run())["ended"] == "interrupted"
    assert summary_of(only_run())["steps"] == 3
    assert {file.name for file in only_run().iterdir()} == files | {"checkpoints"}
    signal.raise_signal(signal.SIGINT)  # the process is about to end: nothing is left to interrupt


def test_a_second_ctrl_c_does_not_wait_for_the_step(files, crossgrad, small, monkeypatch, only_run):
    def endless(_):
        while True:
            os.kill(os.getpid(), signal.SIGINT)

    monkeypatch.setattr(Training, "step", endless)
    answer = crossgrad("run", small)
    assert answer.status == 130
    assert answer.err == f"Stopped after step 0. `crossgrad resume {only_run()}` goes on from the beginning.\n"
    assert {file.name for file in only_run().iterdir()} == files - {"model.safetensors", "summary.json"}


def test_ctrl_c_at_the_start_ends_it_quietly(crossgrad, small, monkeypatch):
    def interrupted(*_, **__):
        raise KeyboardInterrupt

    monkeypatch.setattr(Training, "__init__", interrupted)
    assert crossgrad("run", small) == (130, "", "")
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


def test_a_run_that_is_killed_by_ctrl_c_keeps_its_records_model_and_summary(
    files, small, start, only_run, records_of, summary_of, accuracy_of
):
    process = start("run", small, "training.steps=1000000", "training.evaluate_every=5")
    deadline = time.monotonic() + WAIT
    while not any(len(path.read_text().splitlines()) > 2 for path in Path("runs").glob("*/records.jsonl")):
        assert time.monotonic() < deadline
        time.sleep(0.02)
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=WAIT)
    assert process.returncode == 130
    run = only_run()
    assert re.fullmatch(rf"Stopped after step (\d+)\. `crossgrad resume {run}` goes on from step \1\.\n", err)
    assert {file.name for file in run.iterdir()} == files | {"checkpoints"}
    steps = [record["step"] for record in records_of(run)]
    assert steps == list(range(0, len(steps) * 5, 5))
    assert summary_of(run)["ended"] == "interrupted"
    assert summary_of(run)["model_of_step"] >= steps[-1]
    assert 0 <= accuracy_of(run) <= 1


def test_a_reader_that_leaves_is_no_reason_for_a_traceback(small, start):
    process = start("run", small, "training.steps=100000", "training.evaluate_every=1")
    assert process.stdout.readline().startswith("step 0/100000")
    process.stdout.close()
    assert process.stderr.read() == ""
    process.stderr.close()
    assert process.wait(timeout=WAIT) == 1


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="this system has no device that is always full")
@pytest.mark.parametrize("unbuffered", ["", "1"])  # what is buffered is written only when Python ends
def test_standard_output_that_is_full_is_said_in_a_sentence(unbuffered):
    command = [sys.executable, "-m", "crossgrad", "data", "where"]  # a fresh one: how Python itself ends matters here
    environ = os.environ | {"PYTHONUNBUFFERED": unbuffered}
    with open("/dev/full", "w") as full:
        process = subprocess.run(command, stdout=full, stderr=subprocess.PIPE, text=True, timeout=WAIT, env=environ)
    assert process.returncode == 2
    assert process.stderr == "crossgrad: the disk: No space left on device.\n"


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


def test_a_disk_that_is_full_from_the_start_is_said_in_a_sentence(crossgrad, small, tiny_disk, is_one_sentence):
    (tiny_disk / "filler").write_bytes(bytes(1 << 20))
    answer = crossgrad("run", small, "--out", tiny_disk, "--quiet")
    assert is_one_sentence(answer, str(tiny_disk), "No space left on device")


@pytest.mark.parametrize("room", [20_480, pytest.param(90_000, marks=pytest.mark.slow)])  # for no checkpoint, for one
def test_a_run_pauses_on_a_full_disk_and_loses_nothing(crossgrad, small, tiny_disk, room, start, only_run, records_of):
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


def test_a_folder_that_can_only_be_read_is_said_in_a_sentence(crossgrad, small, tiny_disk, is_one_sentence):
    subprocess.run(["mount", "-o", "remount,ro", str(tiny_disk)], check=True)
    assert is_one_sentence(crossgrad("run", small, "--out", tiny_disk), str(tiny_disk), "Read-only file system")


@pytest.mark.slow
def test_a_disk_that_can_only_be_read_for_a_while_pauses_a_run(small, tiny_disk, start, records_of):
    """Its folder is mounted over itself, read-only: the disk itself is busy, as the run keeps its lock open."""
    process = start("run", small, "training.steps=400", "training.evaluate_every=1", "--out", tiny_disk, "--quiet")
    while not (files := list(tiny_disk.glob("*/records.jsonl"))):
        time.sleep(0.01)
    folder = str(files[0].parent)
    subprocess.run(["mount", "--bind", folder, folder], check=True)
    try:
        # Not while a file is open for writing: then the system says that the folder is busy.
        while subprocess.run(["mount", "-o", "remount,bind,ro", folder], capture_output=True).returncode:
            assert process.poll() is None
        assert "Read-only file system" in process.stderr.readline()
    finally:
        subprocess.run(["umount", "-l", folder], check=True)
    out, _ = process.communicate(timeout=WAIT)
    assert process.returncode == 0
    assert [record["step"] for record in records_of(Path(out.strip()))] == list(range(401))


def test_a_run_that_is_paused_can_be_stopped_and_resumed(crossgrad, small, tiny_disk, start, records_of):
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
