"""Starting the processes of a run on this machine, as torchrun does, by its own functions."""

import logging
import os
import signal
import socket
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from tempfile import TemporaryDirectory
from types import FrameType
from typing import Any, NamedTuple

import torch.distributed as dist
from torch.distributed.elastic.multiprocessing import DefaultLogsSpecs, PContext, start_processes

from crossgrad._processes.heartbeat import LOST_STATUS
from crossgrad._processes.torchrun import FOLDER_KEY

LAUNCHER_POLL_SECONDS = 0.1
HOST = "127.0.0.1"
SIGNALS = tuple(getattr(signal, name) for name in ("SIGINT", "SIGTERM", "SIGHUP") if hasattr(signal, name))


class LaunchResult(NamedTuple):
    """How the processes ended."""

    status: int  # of the whole run: 0, or that of the process that failed
    folder: str  # of the run; empty if there is none yet
    killed: dict[int, int]  # the signals by which ranks were ended from outside


def launch(processes: int, arguments: Sequence[str]) -> LaunchResult:
    """Start Python with these arguments in several processes of one run, and wait for their end.

    The environment of each is that of torchrun, with one thread unless OMP_NUM_THREADS says otherwise. SIGINT, SIGTERM
    and SIGHUP are handed on to all processes; by Ctrl-Z they stop with this one, and go on with it. The store in which
    they meet lives in this process and listens on the loopback interface only; when this process ends, for whatever
    reason, so do they.

    Args:
        processes: how many, at least 1.
        arguments: of Python, such as `-m crossgrad run experiment.toml`.
    """
    listening = socket.create_server((HOST, 0))
    port = int(listening.getsockname()[1])
    store = _store(port, listening.detach())
    common = {
        "WORLD_SIZE": str(processes),
        "LOCAL_WORLD_SIZE": str(processes),
        "MASTER_ADDR": HOST,
        "MASTER_PORT": str(port),
        "TORCHELASTIC_USE_AGENT_STORE": "True",
        "OMP_NUM_THREADS": os.environ.get("OMP_NUM_THREADS", "1"),
    }
    ranks = range(processes)
    logging.getLogger("torch.distributed.elastic").setLevel(logging.CRITICAL)  # the processes say what went wrong
    with TemporaryDirectory() as logs, _handing_on_signals() as running:
        context = start_processes(
            name="crossgrad",
            entrypoint=sys.executable,
            args={rank: (*_safe_path(), *arguments) for rank in ranks},
            envs={rank: common | {"RANK": str(rank), "LOCAL_RANK": str(rank)} for rank in ranks},
            logs_specs=DefaultLogsSpecs(log_dir=logs),  # nothing is written there
        )
        running.take_over(context)
        result = None
        while result is None:
            result = context.wait(timeout=0, period=LAUNCHER_POLL_SECONDS)
            time.sleep(LAUNCHER_POLL_SECONDS)
    folder = store.get(FOLDER_KEY).decode() if store.check([FOLDER_KEY]) else ""
    return how_it_ended(
        {rank: failure.exitcode for rank, failure in result.failures.items()}, running.handed_on, folder
    )


def how_it_ended(statuses: dict[int, int], handed_on: list[int], folder: str) -> LaunchResult:
    """How the processes ended, by the statuses of those that failed and the signals that were handed on to them."""
    # Once a process has failed, start_processes ends the others by SIGTERM: that is no reason of its own.
    expected = {int(signal.SIGTERM), *handed_on}
    killed = {rank: -status for rank, status in sorted(statuses.items()) if status < 0 and -status not in expected}
    others = [status for _, status in sorted(statuses.items()) if status > 0]
    stopped = 128 + handed_on[0] if statuses and handed_on else 0  # before they could save: by the signal itself
    return LaunchResult(next(iter(others), LOST_STATUS if killed else stopped), folder, killed)


def _store(port: int, listening: int) -> Any:
    """The store in which the processes meet, on a socket that listens already."""
    return dist.TCPStore(  # type: ignore[attr-defined]
        HOST, port, is_master=True, wait_for_workers=False, master_listen_fd=listening
    )


def _safe_path() -> tuple[str, ...]:
    """Options that keep the present folder out of the processes' module path, unless it is in this process's."""
    return () if sys.path[0] in ("", os.getcwd()) else ("-P",)


class _Running:
    """Forwards signals to the processes, including signals that arrived before the processes were started."""

    def __init__(self) -> None:
        self.context: PContext | None = None
        self.handed_on: list[int] = []

    def take_over(self, context: PContext) -> None:
        self.context = context
        _register(self.note)  # start_processes has set its own
        for number in self.handed_on:
            self._send(number)

    def note(self, number: int, _: FrameType | None) -> None:
        self.handed_on.append(number)
        self._send(number)

    def pause(self, *_: object) -> None:
        """Ctrl-Z: the processes, which have sessions of their own, stop and go on with this one."""
        self._send(signal.SIGSTOP)
        os.kill(os.getpid(), signal.SIGSTOP)
        self._send(signal.SIGCONT)

    def _send(self, number: int) -> None:
        if self.context is None:
            return  # it is sent once they have been started
        for pid in self.context.pids().values():
            try:
                os.kill(pid, number)
            except ProcessLookupError:
                continue  # it has ended


def _register(handler: Any) -> None:
    for number in SIGNALS:
        signal.signal(number, handler)


@contextmanager
def _handing_on_signals() -> Iterator[_Running]:
    also = ("SIGQUIT", "SIGTSTP")  # start_processes sets the first one too
    changed = (*SIGNALS, *(getattr(signal, name) for name in also if hasattr(signal, name)))
    before = {number: signal.getsignal(number) for number in changed}
    running = _Running()
    _register(running.note)
    if hasattr(signal, "SIGTSTP") and before[signal.SIGTSTP] == signal.SIG_DFL:
        signal.signal(signal.SIGTSTP, running.pause)
    try:
        yield running
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
