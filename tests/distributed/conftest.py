"""Runs of several processes, each in time or not at all."""

import os
import shutil
import signal
import subprocess
import sys
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from fork_server import ForkServer
from ports import free_port

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
PATIENCE = 250  # seconds; a busy machine takes ten times as long as a quiet one

collect_ignore_glob = ["workers/*"]  # programs that torchrun starts


class Ended(NamedTuple):
    """How a command ended."""

    status: int
    out: str
    err: str


class Running:
    """A command on its way; `start` is `subprocess.Popen`, or as that."""

    def __init__(self, start: Callable[..., Any], command: list[Any], **environment: str) -> None:
        inherited = {name: value for name, value in os.environ.items() if not name.startswith("GLOO_")}
        inherited |= {"OMP_NUM_THREADS": "1", "TORCH_CPP_LOG_LEVEL": "ERROR", "COLUMNS": "200"}
        pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
        self.process = start(command, cwd=ROOT, env=inherited | environment, text=True, **pipes)

    def wait(self) -> Ended:
        """Wait for its end; a command that hangs is ended, and torchrun ends its processes with itself."""
        try:
            out, err = self.process.communicate(timeout=PATIENCE)
        except subprocess.TimeoutExpired:
            self.process.send_signal(signal.SIGTERM)
            out, err = self.process.communicate(timeout=40)
            pytest.fail(f"{' '.join(self.process.args)} hung:\n{out}\n{err}")
        return Ended(self.process.returncode, out, err)


def python(*arguments: str | Path) -> list[str]:
    return [sys.executable, *map(str, arguments)]


def torchrun(processes: int, *arguments: str | Path, master: str = "127.0.0.1", port: int | None = None) -> list[str]:
    where = ["--master-addr", master, "--master-port", str(port or free_port())]
    return python("-m", "torch.distributed.run", "--nproc-per-node", str(processes), *where, *map(str, arguments))


class Launcher:
    """Starts scripts and commands in one process or in several."""

    workers, root = HERE / "workers", ROOT
    free_port, python = staticmethod(free_port), staticmethod(python)

    def __init__(self, forks: ForkServer) -> None:
        self.forks = forks

    def start(self, command: list[str], inside: str | None = None, **environment: str) -> Running:
        """Start a command, inside a network namespace if one is named."""
        command = [*(["ip", "netns", "exec", inside] if inside else []), *command]
        return Running(subprocess.Popen, command, **environment)

    def begin(self, *arguments: str | Path, **environment: str) -> Running:
        """As `python ARGUMENTS`, forked from a process that has imported everything."""
        return Running(self.forks.start, list(arguments), **environment)

    def alone(self, *arguments: str | Path, **environment: str) -> Ended:
        """As `begin`, until its end."""
        return self.begin(*arguments, **environment).wait()

    def together(self, processes: int, *arguments: str | Path, inside: str | None = None, **environment: str) -> Ended:
        return self.start(torchrun(processes, *arguments), inside, **environment).wait()

    def forked(self, counts: str, *arguments: str | Path, **environment: str) -> Ended:
        """As `together` for each of these numbers (0: alone), in forked processes."""
        ended = self.alone(self.workers / "forked.py", counts, *arguments, **environment)
        processes = sum(max(1, int(count)) for count in counts.split(","))
        assert ended.out.split() == ["0"] * processes, ended.out + ended.err
        return ended

    def torchrun(self, processes: int, *arguments: str | Path, master: str, port: int) -> list[str]:
        return torchrun(processes, *arguments, master=master, port=port)


@pytest.fixture(scope="session")
def launch(forks: ForkServer) -> Launcher:
    return Launcher(forks)


@pytest.fixture
def namespace() -> Iterator[Callable[[], str]]:
    """Makes network namespaces, each with its own loopback; they are gone after the test."""
    if shutil.which("ip") is None:
        pytest.skip("network namespaces need the command ip (package iproute2)")
    made: list[str] = []

    def make() -> str:
        name = f"cg{uuid.uuid4().hex[:8]}"
        added = subprocess.run(["ip", "netns", "add", name], capture_output=True, text=True, check=False)
        if added.returncode:
            pytest.skip(f"network namespaces are not permitted here: {added.stderr.strip()}")
        made.append(name)
        subprocess.run(["ip", "-n", name, "link", "set", "lo", "up"], check=True)
        return name

    try:
        yield make
    finally:
        for name in made:
            subprocess.run(["ip", "netns", "delete", name], check=True)
