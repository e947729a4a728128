"""Programs in processes of their own, forked from one that has imported torch and crossgrad already.

A fresh Python takes three seconds for these imports, a fork a few milliseconds. The processes are as real as others:
they have their own standard streams, environment, folder and signal handlers, and can be killed. `ForkServer.start` is
used as `subprocess.Popen`; the command is what follows `python`: `-m crossgrad ...`, `-c code ...` or `script.py ...`.
Workers that such a process starts with multiprocessing's method spawn are forked from it as well.
"""

import atexit
import builtins
import contextlib
import gc
import importlib
import json
import multiprocessing.util
import os
import runpy
import select
import signal
import socket
import struct
import subprocess
import sys
import threading
import types
from collections.abc import Callable
from typing import Any, NoReturn

POLL_SECONDS = 0.01


class Forked:
    """A process that the server forked: what a test uses of `subprocess.Popen`."""

    def __init__(self, args: list[str], pid: int, status: socket.socket, ours: dict[str, Any]) -> None:
        self.args, self.pid, self.status = args, pid, status
        self.stdin, self.stdout, self.stderr = (ours.get(name) for name in ("stdin", "stdout", "stderr"))
        self.returncode: int | None = None

    def wait(self, timeout: float | None = None) -> int:
        if self.returncode is None:
            self.status.settimeout(timeout)
            try:
                (self.returncode,) = struct.unpack("i", self.status.recv(4))
            except TimeoutError:
                raise subprocess.TimeoutExpired(self.args, timeout or 0) from None
            self.status.close()
        return self.returncode

    def poll(self) -> int | None:
        if self.returncode is None and select.select([self.status], [], [], 0)[0]:
            self.wait()
        return self.returncode

    def send_signal(self, number: int) -> None:
        if self.poll() is None:
            with contextlib.suppress(ProcessLookupError):  # it has ended, and its status is on the way
                os.kill(self.pid, number)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)

    def communicate(self, timeout: float | None = None) -> tuple[Any, Any]:
        """What it still says on its streams, and its end."""
        said: dict[str, Any] = {"stdout": None, "stderr": None}

        def read(name: str) -> None:
            with getattr(self, name) as stream:
                said[name] = stream.read()

        readers = [threading.Thread(target=read, args=(name,), daemon=True) for name in said if getattr(self, name)]
        for reader in readers:
            reader.start()
        for reader in readers:
            reader.join(timeout)
            if reader.is_alive():
                raise subprocess.TimeoutExpired(self.args, timeout or 0)
        self.wait(timeout)
        return said["stdout"], said["stderr"]

    def __enter__(self) -> "Forked":
        return self

    def __exit__(self, *_: object) -> None:
        for stream in (self.stdin, self.stdout, self.stderr):
            if stream is not None:
                stream.close()
        self.wait()


class ForkServer:
    """The process that has imported everything; it ends with the one that made it."""

    def __init__(self) -> None:
        self.socket, theirs = socket.socketpair()
        with theirs:
            command = [sys.executable, __file__, str(theirs.fileno())]
            self.process = subprocess.Popen(command, pass_fds=[theirs.fileno()], start_new_session=True)

    def start(
        self, command: list[Any], *, cwd: Any = None, env: Any = None, text: bool = False,
        start_new_session: bool = False, stdin: Any = None, stdout: Any = None, stderr: Any = None,
    ) -> Forked:  # fmt: skip
        args = list(map(str, command))
        theirs, close, ours = [], [], {}
        for number, (name, given) in enumerate({"stdin": stdin, "stdout": stdout, "stderr": stderr}.items()):
            if given == subprocess.PIPE and number:
                read, write = os.pipe()
                ours[name] = open(read, "r" if text else "rb")  # noqa: SIM115
                theirs.append(write)
                close.append(write)
            elif given == subprocess.DEVNULL or (given is None and number == 0):
                theirs.append(os.open(os.devnull, os.O_RDWR))
                close.append(theirs[-1])
            elif given == subprocess.STDOUT:
                theirs.append(theirs[1])
            else:
                theirs.append(number if given is None else given if isinstance(given, int) else given.fileno())
        status, end = socket.socketpair()
        environment = dict(os.environ if env is None else env)
        request = {"args": args, "cwd": str(cwd or os.getcwd()), "env": environment, "session": start_new_session}
        payload = json.dumps(request).encode()
        socket.send_fds(self.socket, [struct.pack("i", len(payload))], [*theirs, end.fileno()])
        self.socket.sendall(payload)
        end.close()
        for number in close:
            os.close(number)
        (pid,) = struct.unpack("i", status.recv(4))
        return Forked(args, pid, status, ours)

    def run(self, command: list[Any], timeout: float = 240, **options: Any) -> subprocess.CompletedProcess:
        """As `subprocess.run` with captured text."""
        streams = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
        process = self.start(command, **(streams | options))
        try:
            out, err = process.communicate(timeout)
        except subprocess.TimeoutExpired:
            process.kill()
            raise
        return subprocess.CompletedProcess(process.args, process.wait(), out, err)

    def close(self) -> None:
        self.socket.close()
        self.process.wait()


# The server


def serve(requests: socket.socket) -> dict[str, Any] | None:
    """Fork for each request and tell how each process ended: None at the end, in a forked process what it shall do."""
    running: dict[int, socket.socket] = {}
    while True:
        ready = select.select([requests], [], [], POLL_SECONDS if running else None)[0]
        for pid in list(running):
            ended, status = os.waitpid(pid, os.WNOHANG)
            if ended:
                with running.pop(pid) as waiting, contextlib.suppress(OSError):  # nobody wants to know
                    waiting.sendall(struct.pack("i", os.waitstatus_to_exitcode(status)))
        if not ready:
            continue
        length, streams, _, _ = socket.recv_fds(requests, 4, 4)
        if not length:
            return None
        payload = b""
        while len(payload) < struct.unpack("i", length)[0]:
            payload += requests.recv(65536)
        request = json.loads(payload)
        pid = os.fork()
        if not pid:
            requests.close()
            for waiting in running.values():
                waiting.close()
            begin(request, streams)
            return request
        for number in streams[:3]:
            os.close(number)
        running[pid] = socket.socket(fileno=streams[3])
        running[pid].sendall(struct.pack("i", pid))


def begin(request: dict[str, Any], streams: list[int]) -> None:
    """Give this forked process its streams, folder, environment and the signal handlers of a terminal."""
    if request["session"]:
        os.setsid()
    else:
        os.setpgid(0, 0)
    for number, given in enumerate(streams[:3]):
        os.dup2(given, number)
    for given in streams:
        os.close(given)
    os.environ.clear()
    os.environ.update(request["env"])
    os.chdir(request["cwd"])
    for name in ("stdin", "stdout", "stderr"):
        number = ("stdin", "stdout", "stderr").index(name)
        buffering = 1 if number == 2 or os.isatty(number) else -1
        errors = ("strict", "strict", "backslashreplace")[number]
        stream = open(number, "w" if number else "r", buffering, closefd=False, errors=errors)  # noqa: SIM115
        setattr(sys, name, stream)
        setattr(sys, f"__{name}__", stream)
    sys.path[:0] = [place for place in request["env"].get("PYTHONPATH", "").split(os.pathsep) if place not in sys.path]
    signal.signal(signal.SIGINT, signal.default_int_handler)
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_DFL)
    importlib.import_module("torch").set_num_threads(int(request["env"].get("OMP_NUM_THREADS", os.cpu_count())))
    multiprocessing.util.spawnv_passfds = spawn_by_fork


start_program = multiprocessing.util.spawnv_passfds


def spawn_by_fork(path: bytes, arguments: list[str], kept: list[int]) -> int:
    """Stands in for `multiprocessing.util.spawnv_passfds`: a spawned worker is a fork that has imported everything."""
    if "--multiprocessing-fork" not in arguments:
        return start_program(path, arguments, kept)
    sys.stdout.flush()
    pid = os.fork()
    if not pid:
        for number in signal.valid_signals():  # those that are ignored stay so, as they do in a new program
            if callable(signal.getsignal(number)):
                signal.signal(number, signal.default_int_handler if number == signal.SIGINT else signal.SIG_DFL)
        nothing = os.open(os.devnull, os.O_RDWR)
        for number in map(int, os.listdir("/proc/self/fd")):
            if number > 2 and number not in (*kept, nothing):
                with contextlib.suppress(OSError):  # the listing's own
                    os.fstat(number)
                    os.dup2(nothing, number)
        sys.argv = ["-c", "--multiprocessing-fork"]
        to_the_end(exec, arguments[arguments.index("-c") + 1], {})
    return pid


def to_the_end(deed: Callable[..., object], *arguments: Any) -> NoReturn:
    """Do it and end this process as Python does, but for the second that it takes to free every object."""
    status: Any = 0
    try:
        deed(*arguments)
    except SystemExit as end:
        status = end.code
        if status is not None and not isinstance(status, int):
            print(status, file=sys.stderr)
            status = 1
    except BaseException as error:
        sys.excepthook(type(error), error, error.__traceback__)
        status = -signal.SIGINT if isinstance(error, KeyboardInterrupt) else 1
    threading._shutdown()
    atexit._run_exitfuncs()
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except OSError as error:
            print(f"Exception ignored in: {stream}\n{type(error).__name__}: {error}", file=sys.__stderr__)
            status = 120
    if status == -signal.SIGINT:
        signal.signal(signal.SIGINT, signal.SIG_DFL)
        os.kill(os.getpid(), signal.SIGINT)
    os._exit(status or 0)


def execute(arguments: list[str]) -> None:
    """As `python ARGUMENTS`."""
    first, *rest = arguments
    if first == "-m":
        sys.argv = rest
        sys.path[0] = os.getcwd()
        runpy.run_module(rest[0], run_name="__main__", alter_sys=True)
    elif first == "-c":
        sys.argv = ["-c", *rest[1:]]
        sys.path[0] = ""
        main = sys.modules["__main__"] = types.ModuleType("__main__")
        main.__dict__["__builtins__"] = builtins
        exec(compile(rest[0], "<string>", "exec"), main.__dict__)
    else:
        sys.argv = arguments
        sys.path[0] = os.path.dirname(os.path.abspath(first))
        main = sys.modules["__main__"] = types.ModuleType("__main__")
        main.__dict__.update({"__file__": first, "__builtins__": builtins})
        with open(first) as file:
            exec(compile(file.read(), first, "exec"), main.__dict__)


if __name__ == "__main__":
    for name in ("torch._dynamo", "crossgrad._cli.execution", "crossgrad.optim"):  # vmap imports the first
        importlib.import_module(name)
    importlib.import_module("torch").set_num_threads(1)  # children of one with OpenMP threads would hang
    importlib.import_module("crossgrad.data").load("digits")
    gc.collect()
    gc.freeze()  # what is collected no more is copied by no fork
    wanted = serve(socket.socket(fileno=int(sys.argv[1])))
    if wanted is not None:
        to_the_end(execute, wanted["args"])
