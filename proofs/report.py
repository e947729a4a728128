"""What all proofs do alike: lines of progress, the environment of the commands, the result as JSON."""

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

from crossgrad import __version__

SOURCE = Path(__file__).parents[1] / "src"


def say(progress: str) -> None:
    """Print where the proof is: over the line before on a terminal, on a line of its own elsewhere."""
    if sys.stderr.isatty():
        print(f"\r\x1b[K{progress}", end="", file=sys.stderr, flush=True)
    else:
        print(progress, file=sys.stderr, flush=True)


def environment(**more: str) -> dict[str, str]:
    """For commands that use this checkout, with one thread and without PyTorch's warnings."""
    path = os.pathsep.join(filter(None, (str(SOURCE), os.environ.get("PYTHONPATH", ""))))
    return os.environ | {"OMP_NUM_THREADS": "1", "TORCH_CPP_LOG_LEVEL": "ERROR", "PYTHONPATH": path} | more


def as_text(result: dict[str, Any]) -> str:
    """The result as JSON, with the versions."""
    return json.dumps(result | {"crossgrad": __version__, "torch": torch.__version__}, indent=2)


def finish(result: dict[str, Any], out: Path | None, problems: list[str]) -> None:
    """Print the result, write it to a file, and end with status 1 if something did not hold."""
    text = as_text(result)
    print("\n" + text)
    if out:
        out.write_text(text + "\n")
    sys.exit(bool(problems))


class NotPossibleError(Exception):
    """This kind of disturbance cannot be made here."""


class Kinds:
    """Disturbances of several kinds, each repeated; the figures are written after each of them.

    Args:
        out: a JSON file for the figures, if there is one; kinds that are not repeated now keep those in it.
        times: how often a kind is repeated.
        add: whether to add to the figures of a kind that is repeated now; else they are replaced.
    """

    def __init__(self, out: Path | None, times: int, add: bool = False) -> None:
        self.out, self.times, self.add, self.problems = out, times, add, list[str]()
        before = json.loads(out.read_text()) if out is not None and out.exists() else {}
        self.kinds: dict[str, dict[str, Any]] = before.get("kinds", {})

    def repeat(self, kind: str, once: Callable[[int], None]) -> None:
        """Call `once` with 0, 1, ...; an AssertionError says what did not hold."""
        before = self.kinds.get(kind, {}) if self.add else {}
        held, problems, began = 0, list[str](), time.monotonic()
        for number in range(self.times):
            try:
                once(number)
                held += 1
            except (AssertionError, subprocess.TimeoutExpired) as problem:
                problems.append(f"{number}: {problem}")
                self.problems.append(f"{kind}: {problem}")
            except NotPossibleError as reason:
                self.kinds[kind] = {"not possible here": str(reason)}
                return
            seconds = round(time.monotonic() - began)
            self.kinds[kind] = {
                "times": before.get("times", 0) + number + 1,
                "held": before.get("held", 0) + held,
                "problems": before.get("problems", []) + problems,
                "seconds": before.get("seconds", 0) + seconds,
            }
            if self.out is not None:
                self.out.write_text(as_text({"kinds": self.kinds}) + "\n")
            say(f"{kind}: {held} of {number + 1} held, {seconds} s {problems[-1] if problems else ''}")

    def finish(self) -> None:
        """Print the figures, and end with status 1 if something did not hold."""
        finish({"kinds": self.kinds}, self.out, self.problems)
