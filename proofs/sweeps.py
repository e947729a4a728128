"""Disturb `crossgrad sweep` in every way that a cell, a process or the disk can fail; compare with one left alone.

    python proofs/sweeps.py --times 20 --out docs/reliability/sweeps.json

Each kind of disturbance is made so many times, at a random moment or in a random cell, to the command in processes of
its own. What must hold after each: the command says what has happened, and ends with the right status; whatever the
cells had saved is there; the same command goes on once the reason is removed; and then every cell has the bits of the
undisturbed sweep, and `results.sqlite` its rows. Every fourth time, the commands are started as from a shell; else
they and their workers are forked from a process that has imported everything, which spares hours. A full disk is a
small one of its own, in a mount namespace that only this proof sees; without the right to mount one, that kind is left
out and the reason is said.
"""

import argparse
import contextlib
import ctypes
import json
import os
import random
import re
import shutil
import signal
import sqlite3
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import Any

from report import Kinds, NotPossibleError, environment, say
from states import cells_of

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT / "tests" / "helpers"))

from fork_server import ForkServer  # noqa: E402

GRID = """
name = "proof"
[experiment]
agents = 4
partition = "class"
model = {{ name = "mlp", hidden = [8] }}
algorithm = {{ name = "cga", momentum = 0.9 }}
training = {{ steps = {steps}, evaluate_every = 5, batch_size = 8, deterministic = true }}
[axes]
graph = ["ring", "star", {{ name = "edge-list", path = "{edges}" }}]
seed = [0, 1]
"""
EDGES = "0 1\n1 2\n2 3\n"
CELLS = 6
FRESH_EVERY = 4
MAX_SECONDS = 300.0  # of one command, after which it counts as hung
DISK_BYTES = 4 << 20
CLONE_NEWNS = 0x20000
OTHER_FORMAT = "crossgrad checkpoint 99"


class Command:
    """`crossgrad sweep` as a process group of its own."""

    def __init__(self, out: Path, jobs: int, source: Path | None, forks: ForkServer | None) -> None:
        self.sweep = out / "proof"
        arguments = ["sweep", str(out.parent / "grid.toml"), f"--out={out}", f"--jobs={jobs}", "--checkpoint-every=0"]
        environ = environment() if source is None else environment() | {"PYTHONPATH": str(source)}
        self.log = tempfile.TemporaryFile("w+")  # noqa: SIM115
        start: Any = subprocess.Popen if forks is None else forks.start
        python = [sys.executable, "-P"] if forks is None else []
        self.process = start(
            [*python, "-m", "crossgrad", *arguments],
            start_new_session=True,
            stdin=subprocess.DEVNULL,
            stdout=self.log,
            stderr=self.log,
            env=environ,
        )

    @property
    def said(self) -> str:
        """What it has printed so far."""
        self.log.seek(0)
        return self.log.read()

    def wait_for(self, so: Callable[[], object], what: str) -> None:
        """Wait until it is so, or the command has ended."""
        until = time.monotonic() + MAX_SECONDS
        while self.process.poll() is None and not so():
            assert time.monotonic() < until, f"{what}: not within {MAX_SECONDS:g} s; it said {self.said[-500:]!r}"
            time.sleep(0.005)

    def begun(self, chance: random.Random) -> None:
        """Wait until a random number of evaluations have been made."""
        count = chance.randint(1, 4 * CELLS)
        self.wait_for(lambda: records(self.sweep) >= count, f"{count} records")

    def signal_group(self, number: signal.Signals) -> None:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.process.pid, number)

    def end(self, *statuses: int) -> str:
        """Wait for its end, with one of these statuses; return what it said."""
        self.wait_for(lambda: False, "the end of the command")
        said = self.said
        assert self.process.returncode in statuses, f"status {self.process.returncode}: {said[-700:]!r}"
        assert "Traceback" not in said, f"a traceback: {said[-700:]!r}"
        assert "leaked" not in said, f"something leaked: {said[-700:]!r}"
        return said

    def close(self) -> None:
        """Whatever happens, nothing is left running."""
        self.signal_group(signal.SIGCONT)
        self.signal_group(signal.SIGKILL)
        self.process.wait()
        self.log.close()


def records(sweep: Path) -> int:
    """Evaluations written so far."""
    return sum(path.read_bytes().count(b"\n") for path in sweep.glob("cells/*/records.jsonl"))


def rows(sweep: Path) -> set[tuple[Any, ...]]:
    """The rows of results.sqlite but for the time that they took."""
    found: set[tuple[Any, ...]] = set()
    with closing(sqlite3.connect(f"file:{sweep / 'results.sqlite'}?mode=ro", uri=True)) as database:
        for table in ("cells", "records"):
            cursor = database.execute(f"SELECT * FROM {table}")
            timed = [number for number, column in enumerate(cursor.description) if column[0] == "seconds"]
            found |= {(table, *(v for i, v in enumerate(row) if i not in timed)) for row in cursor}
    return found


def named(said: str, *words: str) -> None:
    """Check that a line names a cell, with its reason."""
    lines = [line for line in said.splitlines() if line.startswith(("Could not be run: ", "Left out of the results: "))]
    assert any(all(word in line for word in words) for line in lines), f"{words} is not said: {said[-700:]!r}"


def worker_of(cell: Path) -> int:
    """The process that runs a cell."""
    return int((cell / "lock").read_text())


class Proof:
    """The undisturbed sweep, and the disturbed ones that are compared with it."""

    def __init__(self, folder: Path, steps: int, seed: int) -> None:
        self.folder, self.chance, self.forks = folder, random.Random(seed), ForkServer()
        self.fresh = False  # whether commands are started as from a shell
        self.edges, self.running = folder / "edges.txt", list[Command]()
        self.edges.write_text(EDGES)
        (folder / "grid.toml").write_text(GRID.format(steps=steps, edges=self.edges))
        self.begin(folder / "calm").end(0)
        self.cells, self.rows = cells_of(folder / "calm" / "proof"), rows(folder / "calm" / "proof")
        assert len(self.cells) == CELLS
        self.labels = {name: json.loads((self.calm(name) / "cell.json").read_text())["labels"] for name in self.cells}

    def calm(self, name: str) -> Path:
        return self.folder / "calm" / "proof" / "cells" / name

    def title(self, name: str) -> str:
        """A cell as the command names it."""
        return ", ".join(self.labels[name].values())

    def begin(self, out: Path, source: Path | None = None, jobs: int | None = None) -> Command:
        forks = self.forks if source is None and not self.fresh else None
        command = Command(out, jobs or self.chance.choice([1, 2]), source, forks)
        self.running.append(command)
        return command

    def tidy(self) -> None:
        """End what a disturbance left running."""
        while self.running:
            self.running.pop().close()

    def others_ended(self, out: Path, *bad: str) -> None:
        """All cells but these have the undisturbed bits."""
        found = cells_of(out / "proof", *bad[:1])
        wrong = [name for name, state in self.cells.items() if name not in bad and found.get(name) != state]
        assert not wrong, f"other bits, or not run: {wrong}"

    def goes_on(self, out: Path) -> None:
        """The same command ends with the results of the undisturbed sweep."""
        self.running.append(Command(out, 1, None, self.forks))
        said = self.running[-1].end(0)
        assert f"{CELLS} of {CELLS} cells have ended." in said, said[-300:]
        assert cells_of(out / "proof") == self.cells, "in the end, a cell has other bits"
        assert rows(out / "proof") == self.rows, "in the end, results.sqlite has other rows"

    def nothing_lost(self, out: Path) -> None:
        """Every cell that has an evaluation on disk has a checkpoint, or has ended."""
        for path in (out / "proof").glob("cells/*/records.jsonl"):
            kept = (path.parent / "summary.json").exists() or list(path.parent.glob("checkpoints/step-*.safetensors"))
            assert kept or path.read_bytes().count(b"\n") <= 1, f"{path.parent.name} has no checkpoint"

    def failing_cell(self, out: Path) -> None:
        """A file stands where a random cell's folder must be, or two cells' edge list is missing."""
        if self.chance.random() < 0.5:
            bad = [self.chance.choice(sorted(self.cells))]
            place = out / "proof" / "cells" / bad[0]
            place.parent.mkdir(parents=True)
            place.write_text("no folder")
        else:
            bad = [name for name in self.cells if "edge-list" in self.title(name)]
            place = self.edges
            place.unlink()
        try:
            said = self.begin(out).end(1)
        finally:
            place.unlink(missing_ok=True)
            self.edges.write_text(EDGES)
        for name in bad:
            named(said, self.title(name), str(place))
        assert f"{CELLS - len(bad)} of {CELLS} cells have ended." in said, said[-300:]
        self.others_ended(out, *bad)
        self.goes_on(out)

    def damaged_cell(self, out: Path) -> None:
        """A random file of a random cell is spoilt after a stop in the midst of the sweep, and put back at the end."""
        first = self.begin(out)
        first.begun(self.chance)
        first.signal_group(signal.SIGTERM)
        first.end(0, 128 + signal.SIGTERM)
        begun = sorted({path.parent for path in out.glob("proof/cells/*/records.jsonl")})
        bad = self.chance.choice(begun)
        names = [path for path in bad.iterdir() if path.suffix in (".json", ".jsonl", ".toml")]
        path = self.chance.choice([*sorted(names), *sorted(bad.glob("checkpoints/*.safetensors"))])
        whole = path.read_bytes()
        spoilt = self.chance.choice([b"{", b"[]\n", bytes(100), whole[:-20] or b"x"])
        path.write_bytes(spoilt)
        said = self.begin(out).end(0, 1)
        self.others_ended(out, bad.name)
        if f"{CELLS} of {CELLS} cells have ended." not in said or "Left out" in said:
            named(said, self.title(bad.name) if "Could not be run" in said else bad.name)
            assert bad.exists(), "the damaged cell was removed"
        elif path.exists() and path.read_bytes() == spoilt:  # of a cell that had ended: a report reads it again
            report = ["-m", "crossgrad", "report", str(out / "proof"), f"--out={out / 'page.html'}"]
            answer = self.forks.run(report, env=environment())
            page = (out / "page.html").read_text() if answer.returncode == 0 else answer.stderr
            assert re.search(rf'"failed":\s*\[\[[^]]*{bad.name}', page), f"no page names {path.relative_to(out)}"
        if path.exists() and path.read_bytes() == spoilt:
            path.write_bytes(whole)
        self.goes_on(out)

    def hanging_cell(self, out: Path) -> None:
        """A worker is stopped (SIGSTOP) in a cell; another command runs the rest. Then the worker is killed."""
        first = self.begin(out, jobs=1)
        first.begun(self.chance)
        open_cells = [p.parent for p in out.glob("proof/cells/*/lock") if not (p.parent / "summary.json").exists()]
        if first.process.poll() is not None or not open_cells:
            first.end(0)
            self.goes_on(out)
            return
        hung = open_cells[0]
        worker = worker_of(hung)
        os.kill(worker, signal.SIGSTOP)
        if (hung / "summary.json").exists():  # it had just ended
            os.kill(worker, signal.SIGCONT)
            first.end(0)
            self.goes_on(out)
            return
        said = self.begin(out).end(1)
        assert f"{CELLS - 1} of {CELLS} cells have ended." in said, said[-300:]
        self.others_ended(out, hung.name)
        self.nothing_lost(out)
        os.kill(worker, signal.SIGKILL)
        named(first.end(1), self.title(hung.name), "ended from outside (signal 9)")
        self.goes_on(out)

    def full_disk(self, out: Path) -> None:
        """A disk becomes full at a random moment; after a while, or after a stop, there is space again."""
        out.mkdir()
        mounted = subprocess.run(
            ["mount", "-t", "tmpfs", "-o", f"size={DISK_BYTES}", "tmpfs", str(out)], capture_output=True, text=True
        )
        if mounted.returncode:
            raise NotPossibleError(mounted.stderr.strip())
        try:
            command = self.begin(out)
            if self.chance.random() < 0.8:
                command.begun(self.chance)
            else:  # before the first cell
                command.wait_for((out / "proof" / "grid.toml").exists, "the sweep's folder")
            fill(out / "filler")
            command.wait_for(lambda: "Paused: " in command.said, "a sentence on the full disk")
            in_time = command.process.poll() is None
            if in_time:
                assert re.search(r"Paused: .*No space left on device", command.said), command.said[-500:]
                time.sleep(self.chance.uniform(0, 3))
            if in_time and self.chance.random() < 0.3:
                command.signal_group(signal.SIGTERM)
                command.end(128 + signal.SIGTERM)
                self.nothing_lost(out)
            (out / "filler").unlink()
            # Where the file of the results could not be written, the command says so: status 1 or 2.
            said = command.end(0, 1, 2, 128 + signal.SIGTERM)
            assert command.process.returncode != 0 or f"{CELLS} of {CELLS} cells have ended." in said, said[-300:]
            assert command.process.returncode not in (1, 2) or "No space" in said or "full" in said, said[-500:]
            self.goes_on(out)
        finally:
            self.tidy()
            subprocess.run(["umount", "--lazy", str(out)], check=True)

    def other_version(self, out: Path) -> None:
        """The sweep was begun by a version whose checkpoints have another format: it alone goes on with the cell."""
        other = self.folder / "other"
        if not other.exists():
            shutil.copytree(ROOT / "src", other, ignore=shutil.ignore_patterns("__pycache__"))
            file = other / "crossgrad" / "_runs" / "checkpoint_file.py"
            text, count = re.subn(r'(?m)^FORMAT = ".*"$', f'FORMAT = "{OTHER_FORMAT}"', file.read_text())
            assert count == 1
            file.write_text(text)
        first = self.begin(out, other)
        first.begun(self.chance)
        first.signal_group(signal.SIGTERM)
        first.end(0, 128 + signal.SIGTERM)
        begun = [path.parents[1].name for path in out.glob("proof/cells/*/checkpoints/step-*.safetensors")]
        said = self.begin(out).end(1 if begun else 0)
        for name in begun:
            named(said, self.title(name), OTHER_FORMAT, "Go on with the version that wrote it")
        self.others_ended(out, *begun)
        self.begin(out, other).end(0)
        self.goes_on(out)

    def sigterm_to_the_group(self, out: Path) -> None:
        """Up to five SIGTERMs within a second to the whole process group, at a random moment."""
        command = self.begin(out)
        if self.chance.random() < 0.75:
            command.begun(self.chance)
        else:
            time.sleep(self.chance.uniform(0, 6 if self.fresh else 1))  # while the processes start
        early = not (out / "proof" / "cells").exists()
        for _ in range(self.chance.randint(1, 5)):
            command.signal_group(signal.SIGTERM)
            time.sleep(self.chance.uniform(0, 0.2))
        said = command.end(0, 128 + signal.SIGTERM, *([-signal.SIGTERM] if early else []))
        if command.process.returncode == 128 + signal.SIGTERM:
            assert "Stopped. Run the same command again to resume" in said, said[-500:]
        self.nothing_lost(out)
        self.goes_on(out)

    def kinds(self) -> dict[str, Callable[[Path], None]]:
        return {
            "hanging cells": self.hanging_cell,
            "failing cells": self.failing_cell,
            "damaged cells": self.damaged_cell,
            "full disks (tmpfs)": self.full_disk,
            "sweeps begun by another version": self.other_version,
            "times SIGTERM to the whole process group, up to five times within a second": self.sigterm_to_the_group,
        }


def fill(path: Path) -> None:
    """Write a file until there is no space left."""
    with path.open("wb", buffering=0) as file, contextlib.suppress(OSError):
        while file.write(bytes(4096)):
            pass


def enter_namespace() -> None:
    """Mounts of this process and of its children are seen by no other."""
    if ctypes.CDLL(None, use_errno=True).unshare(CLONE_NEWNS) == 0:
        subprocess.run(["mount", "--make-rprivate", "/"], check=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--times", type=int, default=20)
    parser.add_argument("--steps", type=int, default=40)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--only", help="this kind only; the figures of the others stay")
    parser.add_argument("--add", action="store_true", help="to the figures in --out; use another --seed")
    parser.add_argument("--out", type=Path, help="a JSON file for the result")
    options = parser.parse_args()
    enter_namespace()
    result = Kinds(options.out, options.times, options.add)
    with tempfile.TemporaryDirectory() as name:
        say("a sweep that nobody disturbs ...")
        proof = Proof(Path(name), options.steps, options.seed)

        def once(kind: str, disturb: Callable[[Path], None], number: int) -> None:
            proof.fresh = number % FRESH_EVERY == 0
            try:
                disturb(Path(name) / f"{kind.replace(' ', '-')}-{number}")
            finally:
                proof.tidy()

        for kind, disturb in proof.kinds().items():
            if options.only in (None, kind):
                result.repeat(kind, partial(once, kind, disturb))
    result.finish()


if __name__ == "__main__":
    main()
