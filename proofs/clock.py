"""Runs and sweeps on a clock that goes backwards, compared with undisturbed ones, bit for bit.

    python proofs/clock.py --times 3 --out docs/reliability/clock.json

The clock is that of the commands alone: a small library (clock_shift.c, made with the C compiler `cc`) is preloaded
into them and shifts it, and ten times a second it goes back by an hour. The monotonic clock stays as it is, as it does
when a machine's clock is set. A run is killed in the midst of this and resumed a year earlier; a run of two processes
under torchrun and a sweep go through it; and two runs are begun a year apart, the second of them earlier.
"""

import argparse
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from report import environment, finish, say
from states import cells_of, differences, final_state

ROOT = Path(__file__).parents[1]
RUN = ["run", str(ROOT / "examples" / "digits-ring.toml"), "agents=4", "training.steps=40", "training.evaluate_every=5"]
RUN += ["training.deterministic=true", "-q", "--keep-state", "--checkpoint-every=0"]
GRID = """
name = "clock"
[experiment]
agents = 4
partition = "class"
model = { name = "mlp", hidden = [4] }
algorithm = "dpsgd"
graph = "ring"
training = { steps = 20, evaluate_every = 5, batch_size = 8, deterministic = true }
[axes]
seed = [0, 1]
"""
MAX_SECONDS = 120
BACK_SECONDS = 3600  # by which the clock goes back each time
YEAR = 365 * 24 * 3600


class Clock:
    """A clock for the commands that are started with its environment."""

    def __init__(self, folder: Path) -> None:
        self.file, self.shift, self.steps_back = folder / "clock", 0, 0
        library = folder / "clock_shift.so"
        source = Path(__file__).with_name("clock_shift.c")
        subprocess.run(["cc", "-shared", "-fPIC", "-O1", "-o", library, source, "-ldl"], check=True)
        self.set(0)
        self.environment = environment(LD_PRELOAD=str(library), CLOCK_SHIFT_FILE=str(self.file))

    def set(self, shift: int) -> None:
        """Shift the clock by seconds, at once for all commands: they have mapped the file into memory."""
        self.shift = shift
        with self.file.open("r+b" if self.file.exists() else "wb") as file:
            file.write(shift.to_bytes(8, sys.byteorder, signed=True))

    @contextmanager
    def going_back(self) -> Iterator[None]:
        """Back by an hour, ten times a second."""
        done = threading.Event()

        def go() -> None:
            while not done.wait(0.1):
                self.set(self.shift - BACK_SECONDS)
                self.steps_back += 1

        thread = threading.Thread(target=go)
        thread.start()
        try:
            yield
        finally:
            done.set()
            thread.join()

    def run(self, *arguments: str | Path, launch: tuple[str, ...] = ()) -> None:
        """Run a command to its end; it must end well and without a traceback."""
        command = [sys.executable, *launch, "-m", "crossgrad", *map(str, arguments)]
        ended = subprocess.run(command, env=self.environment, capture_output=True, text=True, timeout=MAX_SECONDS)
        assert ended.returncode == 0, f"status {ended.returncode}: {ended.stderr[-300:]}"
        assert "Traceback" not in ended.stderr, ended.stderr[-300:]


def same(expected: Path, found: Path) -> None:
    different = differences(final_state(expected), final_state(found))
    assert not different, f"other bits: {different[:3]}"


class Cases:
    """What is done while the clock goes back."""

    def __init__(self, folder: Path, clock: Clock) -> None:
        self.folder, self.clock = folder, clock
        (folder / "grid.toml").write_text(GRID)
        clock.run(*RUN, f"--out={folder / 'calm'}")
        self.calm = next((folder / "calm").iterdir())
        clock.run("sweep", folder / "grid.toml", "--out", folder / "calm-sweep", "--jobs", "1")
        self.cells = cells_of(folder / "calm-sweep" / "clock")

    def all(self) -> dict[str, Callable[[Path], None]]:
        return {
            "killed and resumed a year earlier": self.killed,
            "two processes under torchrun": self.torchrun,
            "a sweep": self.sweep,
            "a second run that begins a year before the first": self.earlier,
        }

    def killed(self, out: Path) -> None:
        command = [sys.executable, "-m", "crossgrad", *RUN, f"--out={out}"]
        with self.clock.going_back():
            running = subprocess.Popen(command, env=self.clock.environment, stdout=subprocess.DEVNULL)
            while running.poll() is None and not list(out.glob("*/checkpoints/step-1*.safetensors")):
                time.sleep(0.005)
            running.kill()
            running.wait()
        self.clock.set(self.clock.shift - YEAR)
        (folder,) = out.iterdir()
        with self.clock.going_back():
            self.clock.run("resume", folder, "-q", "--keep-state")
        same(self.calm, folder)

    def torchrun(self, out: Path) -> None:
        with self.clock.going_back():
            launch = ("-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2")
            self.clock.run(*RUN, f"--out={out}", launch=launch)
        same(self.calm, next(out.iterdir()))

    def sweep(self, out: Path) -> None:
        with self.clock.going_back():
            self.clock.run("sweep", self.folder / "grid.toml", "--out", out, "--jobs", "2")
        assert cells_of(out / "clock") == self.cells, "other bits, or cells that were not run"

    def earlier(self, out: Path) -> None:
        """A second run begins a year before the first: its folder is another, with the time that the clock said."""
        for shift in (0, -YEAR):
            self.clock.set(shift)
            self.clock.run(*RUN, f"--out={out}")
        first, second = sorted(out.iterdir())
        years = [int(folder.name[:4]) for folder in (first, second)]
        assert years[1] - years[0] == 1, f"the clock was not shifted: {years}"
        for folder in (first, second):
            same(self.calm, folder)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--times", type=int, default=3, help="how often each case is tried")
    parser.add_argument("--out", type=Path, help="a JSON file for the result")
    options = parser.parse_args()
    if shutil.which("cc") is None:
        sys.exit("proofs/clock.py needs a C compiler; there is no `cc` here. Install one, such as Debian's gcc.")
    began, problems = time.monotonic(), []
    held: dict[str, int] = {}
    with tempfile.TemporaryDirectory() as name:
        say("a run and a sweep that nobody disturbs ...")
        clock = Clock(Path(name))
        for case, check in Cases(Path(name), clock).all().items():
            held[case] = 0
            for number in range(options.times):
                say(f"{case}: {number + 1} of {options.times}")
                clock.set(0)
                try:
                    check(Path(name) / f"{case}-{number}")
                    held[case] += 1
                except (AssertionError, subprocess.TimeoutExpired) as problem:
                    problems.append(f"{case}: {problem}")
    result: dict[str, Any] = {"times": options.times, "held": held, "times the clock went back": clock.steps_back}
    finish(result | {"problems": problems, "seconds": round(time.monotonic() - began)}, options.out, problems)


if __name__ == "__main__":
    main()
