"""Disturb sweeps in every way that one cell, one worker or the disk can fail, and compare with an undisturbed sweep.

    python proofs/sweeps.py --times 20 --out docs/reliability/sweeps.json

Each disturbance is made so many times, at a random moment or in a random cell. What must hold: the cell that was
disturbed is named with its reason (or goes on once the disturbance is over), and all other cells end with the same bits
as in an undisturbed sweep.
"""

import argparse
import errno
import json
import os
import random
import signal
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import torch

from crossgrad import __version__
from crossgrad._runs import runner
from crossgrad._runs.runner import SilentListener, Stop
from crossgrad._storage import atomic
from crossgrad._sweep.grid import Cell, read_grid
from crossgrad._sweep.worker import FAILED, Worker, folder_of

GRID = """
name = "proof"
[experiment]
agents = 4
partition = "class"
model = {{ name = "mlp", hidden = [8] }}
algorithm = {{ name = "cga", momentum = 0.9 }}
training = {{ steps = {steps}, evaluate_every = 5, batch_size = 8, deterministic = true }}
[axes]
graph = ["ring", "star", "chain"]
seed = [0, 1]
"""
MAX_SECONDS = 240.0  # of one sweep, after which it counts as hung

Disturbance = Callable[[Path, tuple[Cell, ...], random.Random], "str | None"]


def work(sweep: Path, cells: tuple[Cell, ...]) -> None:
    with Stop() as stop:
        Worker(sweep, SilentListener(), stop, save_every=0.0).run_all(cells)


def forked(sweep: Path, cells: tuple[Cell, ...], before: Callable[[], None] = lambda: None) -> int:
    """A worker in a process of its own, which leads a process group."""
    child = os.fork()
    if child:
        return child
    try:
        os.setpgid(0, 0)
        torch.set_num_threads(1)
        before()
        work(sweep, cells)
    except BaseException as error:
        sys.stderr.write(f"{type(error).__name__}: {error}\n")
        os._exit(1)
    os._exit(0)


def wait(child: int) -> int:
    began = time.monotonic()
    while True:
        ended, status = os.waitpid(child, os.WNOHANG)
        if ended:
            return os.waitstatus_to_exitcode(status)
        if time.monotonic() - began > MAX_SECONDS:
            os.kill(child, signal.SIGKILL)
            os.waitpid(child, 0)
            return -999
        time.sleep(0.02)


def models(sweep: Path, cells: tuple[Cell, ...]) -> dict[str, bytes]:
    paths = {cell.name: folder_of(sweep, cell) / "model.safetensors" for cell in cells}
    return {name: path.read_bytes() for name, path in paths.items() if path.exists()}


def failing_cell(sweep: Path, cells: tuple[Cell, ...], chance: random.Random) -> str | None:
    """A file stands where a random cell's folder must be."""
    bad = chance.choice(cells)
    folder_of(sweep, bad).parent.mkdir(parents=True)
    folder_of(sweep, bad).write_text("no folder")
    assert wait(forked(sweep, cells)) == 0, "the worker ended"
    return bad.name


def damaged_cell(sweep: Path, cells: tuple[Cell, ...], chance: random.Random) -> str | None:
    """A random file of a random cell is spoilt after a stop in the midst of the sweep."""
    child = forked(sweep, cells)
    while not list(sweep.glob("cells/*/summary.json")):
        time.sleep(0.01)
    os.kill(child, signal.SIGTERM)
    wait(child)
    begun = [cell for cell in cells if (folder_of(sweep, cell) / "records.jsonl").exists()]
    bad = chance.choice(begun)
    files = [path for path in folder_of(sweep, bad).iterdir() if path.name in ("summary.json", "experiment.toml")]
    path = chance.choice(files)
    path.write_bytes(chance.choice([b"{", b"[]", b"\x00" * 100, path.read_bytes()[:-20] or b"x"]))
    assert wait(forked(sweep, cells)) == 0, "the worker ended"
    return bad.name


def hanging_cell(sweep: Path, cells: tuple[Cell, ...], chance: random.Random) -> str | None:
    """A worker is stopped (SIGSTOP) in a cell; another runs the rest, and then that cell once the first is killed."""
    child = forked(sweep, cells)
    while not list(sweep.glob("cells/*/records.jsonl")):
        time.sleep(0.01)
    time.sleep(chance.uniform(0, 0.3))
    os.kill(child, signal.SIGSTOP)
    assert wait(forked(sweep, cells)) == 0, "the other worker did not end"
    assert len(models(sweep, cells)) >= len(cells) - 1, "the other cells were not run"
    os.kill(child, signal.SIGKILL)
    wait(child)
    assert wait(forked(sweep, cells)) == 0
    return None


def full_disk(sweep: Path, cells: tuple[Cell, ...], chance: random.Random) -> str | None:
    """A third of all writes fail for want of space, for two seconds."""
    seed = chance.random()

    def fill() -> None:
        runner.RETRY_SECONDS = 0.05
        own, began = random.Random(seed), time.monotonic()
        for name in ("write", "append"):
            real = getattr(atomic, name)

            def maybe(path: Path, content: object, real: Callable[..., None] = real) -> None:
                inside = path.name not in ("cell.json", FAILED, "versions.json", "experiment.toml")
                if inside and time.monotonic() - began < 2 and own.random() < 1 / 3:
                    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(path))
                real(path, content)

            setattr(atomic, name, maybe)

    assert wait(forked(sweep, cells, fill)) == 0, "the worker ended"
    return None


def other_version(sweep: Path, cells: tuple[Cell, ...], chance: random.Random) -> str | None:
    """The checkpoint of a random cell was written by a version with another format."""
    child = forked(sweep, cells)
    while not list(sweep.glob("cells/*/checkpoints/*.safetensors")):
        time.sleep(0.005)
    os.kill(child, signal.SIGTERM)
    wait(child)
    kept = list(sweep.glob("cells/*/checkpoints/*.safetensors"))
    if not kept:  # the cell had just ended
        assert wait(forked(sweep, cells)) == 0
        return None
    cell = kept[0].parents[1].name
    from crossgrad._storage import tensorfile

    for path in kept:
        file = tensorfile.TensorFile(path)
        tensors = {name: file.rows(name, 0, shape[0]) for name, shape in file.shapes.items()}
        about = {k: v for k, v in file.about.items() if k != "sha256"} | {"format": "crossgrad checkpoint 99"}
        tensorfile.write(path, tensors, about)
    assert wait(forked(sweep, cells)) == 0, "the worker ended"
    return cell


def sigterm_to_the_group(sweep: Path, cells: tuple[Cell, ...], chance: random.Random) -> str | None:
    """SIGTERM, up to five times within a tenth of a second, at a random moment; then the same sweep again."""
    child = forked(sweep, cells)
    while not list(sweep.glob("cells/*/records.jsonl")):
        time.sleep(0.01)
    time.sleep(chance.uniform(0, 0.5))
    for _ in range(chance.randint(1, 5)):
        os.killpg(child, signal.SIGTERM)
        time.sleep(chance.uniform(0, 0.1))
        if os.waitpid(child, os.WNOHANG)[0]:
            break
    else:
        assert wait(child) == 0, "the worker did not save"
    begun = [path.parent for path in sweep.glob("cells/*/records.jsonl")]
    kept = [
        path for pattern in ("summary.json", "checkpoints/*.safetensors") for path in sweep.glob(f"cells/*/{pattern}")
    ]
    lost = [cell.name for cell in begun if not any(cell in path.parents for path in kept)]
    assert not lost, f"no checkpoint of {lost}"
    assert wait(forked(sweep, cells)) == 0
    return None


DISTURBANCES: dict[str, Disturbance] = {
    "failing cell": failing_cell,
    "damaged cell": damaged_cell,
    "hanging cell": hanging_cell,
    "full disk": full_disk,
    "another version": other_version,
    "SIGTERM to the group": sigterm_to_the_group,
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--times", type=int, default=20)
    parser.add_argument("--steps", type=int, default=20)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", type=Path, help="a JSON file for the result")
    options = parser.parse_args()
    torch.set_num_threads(1)
    chance, began = random.Random(options.seed), time.monotonic()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "grid.toml").write_text(GRID.format(steps=options.steps))
        cells = read_grid(folder / "grid.toml").cells
        assert wait(forked(folder / "undisturbed", cells)) == 0
        expected = models(folder / "undisturbed", cells)
        assert len(expected) == len(cells)
        result: dict[str, object] = {"version": __version__, "times": options.times, "cells": len(cells)}
        for kind, disturb in DISTURBANCES.items():
            held, problems = 0, []
            for number in range(options.times):
                sweep = folder / f"{kind}-{number}"
                try:
                    bad = disturb(sweep, cells, chance)
                    found = models(sweep, cells)
                    wrong = [c for c in expected if c != bad and found.get(c) != expected[c]]
                    assert not wrong, f"other bits, or not run: {wrong}"
                    named = (
                        bad is None or (sweep / "cells" / bad).is_file() or (sweep / "cells" / bad / FAILED).exists()
                    )
                    assert named or found.get(bad) == expected[bad], f"{bad} is not named"
                    held += 1
                except AssertionError as problem:
                    problems.append(str(problem))
                print(f"\r{kind}: {held} of {number + 1} held", end="", flush=True)
            print()
            result[kind] = {"held": held, "problems": problems}
    result["seconds"] = round(time.monotonic() - began)
    print(json.dumps(result, indent=2))
    if options.out:
        options.out.write_text(json.dumps(result, indent=2) + "\n")
    sys.exit(any(isinstance(part, dict) and part["problems"] for part in result.values()))


if __name__ == "__main__":
    main()
