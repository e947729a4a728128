"""Sweeps in a cgroup that runs out of memory, and under a limit of each process's own (RLIMIT_DATA).

    python proofs/memory.py --times 5 --out docs/reliability/memory.json

One cell's model (a plug-in) takes more and more memory, which no forecast knows of. In a cgroup the system kills that
cell's process (SIGKILL); under RLIMIT_DATA an allocation fails. Either way the cell must be named with its reason, and
the others, one before and one after it, must end with the same bits as in a sweep without it. The cgroup (version 1 or
2) needs root; without it only the second way is taken, and the result says so.
"""

import argparse
import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from itertools import chain
from pathlib import Path
from typing import Any

from report import environment, finish, say
from states import cells_of

GREEDY = '''"""A model that keeps 20 MB more at every step."""

import torch
from torch import nn

import crossgrad

kept = []


@crossgrad.register("model", "greedy")
class Greedy(nn.Module):
    def __init__(self, shape: tuple[int, ...], classes: int) -> None:
        super().__init__()
        self.layer = nn.Linear(shape[0] if len(shape) == 1 else torch.Size(shape).numel(), classes)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        kept.append(torch.ones(5_000_000))
        return self.layer(x.flatten(1))
'''
GRID = """
name = "memory"
[experiment]
agents = 4
partition = "class"
graph = "ring"
algorithm = "dpsgd"
training = { steps = 40, evaluate_every = 10, batch_size = 8, deterministic = true }
[axes.model]
"""
FIRST = 'a = { model = { name = "mlp", hidden = [4] } }\n'
GROWING = 'm = { model = "greedy", "training.steps" = 100000 }\n'
LAST = 'z = { model = { name = "mlp", hidden = [8] } }\n'
ALLOWED = 900 << 20  # bytes of a sweep with one process at a time: twice what one without the greedy cell takes
MAX_SECONDS = 120.0


class Cgroup:
    """A memory cgroup of our own, of version 1 or 2; `join` is called in a process that is to be in it."""

    def __init__(self, limit: int) -> None:
        old, new = Path("/sys/fs/cgroup/memory"), Path("/sys/fs/cgroup")
        self.version = 1 if (old / "memory.limit_in_bytes").exists() else 2
        self.path = (old if self.version == 1 else new) / f"crossgrad-proof-{os.getpid()}"
        self.path.mkdir()
        try:
            name = "memory.limit_in_bytes" if self.version == 1 else "memory.max"
            (self.path / name).write_text(str(limit))
        except OSError:
            self.path.rmdir()
            raise

    def join(self) -> None:
        (self.path / "cgroup.procs").write_text(str(os.getpid()))

    def remove(self) -> None:
        for _ in range(50):
            try:
                self.path.rmdir()
                return
            except OSError:
                time.sleep(0.1)


def sweep(folder: Path, grid: str, out: str, limited: Callable[[], None] | None) -> subprocess.CompletedProcess[str]:
    """One `crossgrad sweep` with one process at a time."""
    (folder / "grid.toml").write_text(grid)
    command = [sys.executable, "-m", "crossgrad", "sweep", "grid.toml", "--plugin", "greedy.py", "--jobs", "1"]
    return subprocess.run(
        [*command, "--out", out], cwd=folder, env=environment(), capture_output=True, text=True, preexec_fn=limited,
        timeout=MAX_SECONDS,
    )  # fmt: skip


def problems(
    cells: dict[str, dict[str, str]],
    ended: subprocess.CompletedProcess[str],
    reason: str,
    expected: dict[str, dict[str, str]],
) -> list[str]:
    """What did not hold in a sweep that ran out of memory."""
    said = [line for line in ended.stdout.splitlines() if line.startswith("Could not be run: ")]
    named = len(said) == 1 and said[0].startswith("Could not be run: m: ") and reason in said[0]
    return [
        sentence
        for sentence, holds in {
            f"the cell is not named with its reason: {said or ended.stderr[-300:]}": named,
            f"status {ended.returncode} instead of 1": ended.returncode == 1,
            "the other cells have other bits, or were not run": cells == expected,
            "a traceback": "Traceback" not in ended.stdout + ended.stderr,
        }.items()
        if not holds
    ]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--times", type=int, default=5, help="sweeps of each kind")
    parser.add_argument("--out", type=Path, help="a JSON file for the result")
    options = parser.parse_args()
    began = time.monotonic()
    ways: dict[str, dict[str, Any]] = {}
    result: dict[str, Any] = {"times": options.times, "ways": ways}
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "greedy.py").write_text(GREEDY)
        say("a sweep without the cell that takes too much ...")
        calm = sweep(folder, GRID + FIRST + LAST, "calm", None)
        assert calm.returncode == 0, calm.stderr
        expected = cells_of(folder / "calm" / "memory")
        assert len(expected) == 2

        def one(kind: str, number: int, limited: Callable[[], None], reason: str) -> list[str]:
            say(f"{kind}: {number + 1} of {options.times}")
            out = f"{kind.split()[0]}-{number}"
            ended = sweep(folder, GRID + FIRST + GROWING + LAST, out, limited)
            return problems(cells_of(folder / out / "memory"), ended, reason, expected)

        try:
            cgroup = Cgroup(ALLOWED)
        except OSError as error:
            result["cgroup"] = f"not available here: {error.strerror}"
        else:
            result["cgroup"] = f"version {cgroup.version}"
            kind = "cgroup"
            found = [one(kind, i, cgroup.join, "ended from outside (signal 9)") for i in range(options.times)]
            cgroup.remove()
            ways[kind] = {"held": found.count([]), "problems": list(chain(*found))}

        def limit() -> None:
            resource.setrlimit(resource.RLIMIT_DATA, (ALLOWED, ALLOWED))

        found = [one("rlimit", i, limit, "not enough memory") for i in range(options.times)]
        ways["rlimit"] = {"held": found.count([]), "problems": list(chain(*found))}
    result["seconds"] = round(time.monotonic() - began)
    finish(result, options.out, [each for way in ways.values() for each in way["problems"]])


if __name__ == "__main__":
    main()
