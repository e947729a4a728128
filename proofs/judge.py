"""Whether a reader did right by one input: it returned, or it refused in one sentence, and did nothing else."""

import faulthandler
import os
import resource
import shutil
import signal
import sys
import time
import warnings
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from targets import OddFiles, Target

MAX_SENTENCE_CHARACTERS = 1000  # characters of a sentence
WAITING = 4  # times as long as it may work, a reader may wait; other programs may be at work too

# What no reader has any business to do; "open" only where it is for writing.
FORBIDDEN = (
    "os.system",
    "os.exec",
    "os.posix_spawn",
    "os.fork",
    "os.spawn",
    "subprocess.Popen",
    "pty.spawn",
    "os.kill",
)
FORBIDDEN += ("socket.connect", "socket.bind", "urllib.Request", "ctypes.dlopen", "pickle.find_class", "os.startfile")
FORBIDDEN += ("os.mkdir", "os.remove", "os.rename", "os.rmdir", "os.link", "os.symlink", "os.chmod", "os.truncate")
WRITING = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND

_seen: list[str] = []  # what the reader at work did that it should not
_reading = False


@dataclass(frozen=True)
class Verdict:
    """What came of one input; `fault` is empty where the reader did right."""

    number: int
    accepted: bool
    fault: str
    seconds: float  # of work
    megabytes: float  # peak, above what the process took at first


def watch() -> None:
    """Take note of forbidden deeds and of warnings from here on. There is no way back."""
    global _base
    _base = _peak()
    sys.addaudithook(_audit)
    faulthandler.register(signal.SIGPROF, chain=True)  # shows where it is, then ends
    warnings.simplefilter("always")
    warnings.showwarning = lambda message, category, *_, **__: _seen.append(f"{category.__name__}: {message}")


def limit_memory(more: int) -> None:
    """Let this process ask for so many bytes more than it has, so that a fault does not take the machine with it."""
    has = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (has + more, resource.RLIM_INFINITY))


def judge(target: Target, folder: Path, number: int, *, must_accept: bool, seconds: float) -> Verdict:
    """Read one input, which lies in `folder`; a process that works on it for longer than `seconds` is ended."""
    global _reading
    _seen.clear()
    before = _names(folder.parent)
    error: BaseException | None = None
    faulthandler.dump_traceback_later(WAITING * seconds, exit=True)
    signal.setitimer(signal.ITIMER_PROF, seconds)
    began, _reading = time.process_time(), True
    try:
        target.read(folder)
    except (Exception, SystemExit) as raised:
        error = raised
    _reading = False
    took = time.process_time() - began
    signal.setitimer(signal.ITIMER_PROF, 0)
    faulthandler.cancel_dump_traceback_later()
    if _names(folder.parent) != before:
        _seen.append("files were made or removed")
    fault = "; ".join(dict.fromkeys(_seen)) or (_fault(error, target, folder) if error else "")
    if error and must_accept:
        fault = fault or f"a valid file was refused: {error}"
    return Verdict(number, error is None, fault, took, _peak() - _base)


def _fault(error: BaseException, target: Target, folder: Path) -> str:
    """What is wrong with how the reader refused, if anything."""
    if isinstance(error, UnicodeError) or not isinstance(error, ValueError | OSError):
        return f"{type(error).__name__}: {error}"[:MAX_SENTENCE_CHARACTERS]
    sentence = f"{error.filename}: {error.strerror}." if isinstance(error, OSError) and error.strerror else str(error)
    if len(sentence) > MAX_SENTENCE_CHARACTERS:
        return f"{len(sentence)} characters: {sentence[:200]}"
    if not sentence.isprintable() or len(sentence.split()) < 3:
        return f"no readable sentence: {sentence!r}"
    if target.names_file and str(folder) not in sentence:
        return f"the file is not named: {sentence!r}"
    return ""


def _audit(event: str, arguments: tuple[Any, ...]) -> None:
    if not _reading:
        return
    if event == "open":
        path, _, flags = arguments
        if flags & WRITING and path != os.devnull:
            _seen.append(f"opened {path!r} for writing")
    elif event.startswith(FORBIDDEN):
        _seen.append(f"{event} {arguments!r:.100}")


def lay_out(files: OddFiles, folder: Path) -> None:
    """Write the files of one input."""
    for name, content in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        if isinstance(content, bytes):
            (folder / name).write_bytes(content)
        else:
            odd, meant = content
            odd(folder / name, meant)


def clear(folder: Path) -> None:
    """Remove whatever is in the folder."""
    for entry in os.scandir(folder):
        if entry.is_dir(follow_symlinks=False):
            shutil.rmtree(entry)
        else:
            os.unlink(entry)


def _names(folder: Path) -> set[str]:
    return {os.path.join(at, name) for at, folders, files in os.walk(folder) for name in (*folders, *files)}


def _peak() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


_base = 0.0
