"""Commands of a user who is not root, on files and folders that are not theirs: a sentence, and nothing changed.

    python proofs/permissions.py --out docs/reliability/permissions.json

Root may read and write everything, so the commands are run as another user (`--user`, by default nobody's number), from
a copy of this checkout that everybody can read. Each case takes a right away and gives it back afterwards: the command
must end with one sentence that names the file, without a traceback, and once the right is there again the run must end
with the same bits as one that was never disturbed. Must be run as root.
"""

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from report import environment, finish, say
from states import cells_of, differences, final_state

ROOT = Path(__file__).parents[1]
NOBODY = 65534
RUN = ["run", "examples/digits-ring.toml", "agents=4", "training.steps=30", "training.evaluate_every=5", "-q"]
RUN += ["training.deterministic=true", "--keep-state", "--checkpoint-every=0"]
GRID = """
name = "rights"
[experiment]
agents = 4
partition = "class"
model = { name = "mlp", hidden = [4] }
algorithm = "dpsgd"
graph = "ring"
training = { steps = 10, evaluate_every = 5, batch_size = 8, deterministic = true }
[axes]
seed = [0, 1, 2]
"""
MAX_SECONDS = 100


class User:
    """Runs commands as somebody else, in a folder of theirs."""

    def __init__(self, folder: Path, number: int) -> None:
        self.folder, self.number = folder, number
        self.python = interpreter(folder.parent / "python", number)
        for part in ("src", "examples"):
            shutil.copytree(ROOT / part, folder / part, ignore=shutil.ignore_patterns("__pycache__"))
        (folder / "grid.toml").write_text(GRID)
        own(folder, number)

    def start(self, *arguments: str | Path) -> subprocess.Popen[str]:
        """Start a command."""
        path = os.pathsep.join([str(self.folder / "src"), *(each for each in sys.path if "site-packages" in each)])
        home = {"PYTHONPATH": path, "HOME": str(self.folder), "PYTHONDONTWRITEBYTECODE": "1"}
        home["LD_LIBRARY_PATH"] = str(self.python.parents[1] / "lib")  # of a copy, its own
        return subprocess.Popen(
            [self.python, "-m", "crossgrad", *map(str, arguments)], cwd=self.folder, env=environment() | home,
            user=self.number, group=self.number, extra_groups=[], text=True, stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )  # fmt: skip

    def __call__(self, *arguments: str | Path) -> subprocess.CompletedProcess[str]:
        """Run a command to its end."""
        running = self.start(*arguments)
        try:
            out, err = running.communicate(timeout=MAX_SECONDS)
        except subprocess.TimeoutExpired:
            running.kill()
            out, err = running.communicate()
        return subprocess.CompletedProcess(running.args, running.returncode, out, err)


def interpreter(folder: Path, user: int) -> Path:
    """Python where the user may run it: this one, or a copy of it where it lies in a folder of root's own."""
    trial = [sys.executable, "-c", "import torch"]
    try:
        if subprocess.run(trial, user=user, group=user, extra_groups=[], capture_output=True).returncode == 0:
            return Path(sys.executable)
    except PermissionError:
        pass
    say("copying Python to where the user can run it ...")
    version = f"python{sys.version_info.major}.{sys.version_info.minor}"
    ignored = shutil.ignore_patterns("__pycache__", "test", "site-packages")
    shutil.copytree(Path(sys.base_prefix, "lib", version), folder / "lib" / version, ignore=ignored)
    for library in Path(sys.base_prefix, "lib").glob("libpython*"):
        shutil.copy(library, folder / "lib")
    (folder / "bin").mkdir()
    return Path(shutil.copy(Path(sys.base_prefix, "bin", version), folder / "bin"))


def own(path: Path, user: int) -> None:
    """Give everything below a path to a user."""
    for each in (path, *path.rglob("*")):
        os.chown(each, user, user, follow_symlinks=False)


def contents(folder: Path) -> dict[str, bytes]:
    """Every file below a folder but locks, which hold a process's number, and what a killed process left unfinished."""
    files = [path for path in folder.rglob("*") if path.is_file()]
    return {str(path): path.read_bytes() for path in files if path.name != "lock" and path.suffix != ".part"}


def interrupted(user: User, out: Path) -> Path:
    """A run that was killed after a few checkpoints."""
    running = user.start(*RUN, f"--out={out}")
    while running.poll() is None and not list(out.glob("*/checkpoints/step-1*.safetensors")):
        time.sleep(0.005)
    running.kill()
    running.communicate()
    (folder,) = out.iterdir()
    return folder


def refused(ended: subprocess.CompletedProcess[str], name: str) -> list[str]:
    """What is wrong with how a command was refused: it must be one sentence that names the file."""
    lines = [line for line in ended.stderr.splitlines() if line]
    problems = [] if ended.returncode not in (0, 1) else [f"status {ended.returncode}"]
    if "Traceback" in ended.stderr + ended.stdout or len(lines) != 1:
        problems.append(f"not one sentence: {ended.stderr[-300:]!r}")
    elif name not in lines[0]:
        problems.append(f"{name} is not named: {lines[0]}")
    return problems


class Cases:
    """The cases, each a list of what did not hold."""

    def __init__(self, user: User) -> None:
        self.user, self.folder = user, user.folder
        ended = user(*RUN, f"--out={self.folder / 'calm'}")
        assert ended.returncode == 0, ended.stderr
        self.calm = next((self.folder / "calm").iterdir())
        ended = user("sweep", "grid.toml", "--jobs", "1", "--out", "calm-sweeps")
        assert ended.returncode == 0, ended.stderr
        self.cells = cells_of(self.folder / "calm-sweeps" / "rights")

    def all(self) -> dict[str, Callable[[], list[str]]]:
        """Cases by what is taken away."""
        taken = ("records.jsonl", "experiment.toml", "lock", "checkpoints")
        cases: dict[str, Callable[[], list[str]]] = {
            "an experiment that cannot be read": self.unreadable_experiment,
            "a folder for runs that cannot be written": self.out,
            "a data folder that cannot be read": self.data,
        }
        for name in taken:
            cases[f"resume: {name}"] = lambda name=name: self.resume(name)  # type: ignore[misc]
        return cases | {
            "resume: a folder that can only be read": self.paused,
            "resume: somebody else's run": self.foreign,
            "sweep: the folder of a cell": self.cell,
            "sweep: the folder of the sweep": self.sweep,
            "report: the folder it is written to": self.report,
        }

    def unreadable_experiment(self) -> list[str]:
        path = self.folder / "secret.toml"
        shutil.copy(self.folder / "examples" / "digits-ring.toml", path)
        path.chmod(0o000)
        ended = self.user("run", "secret.toml")
        said = "'secret.toml' is not readable" in ended.stderr and "Traceback" not in ended.stderr
        return [] if said and ended.returncode == 2 else [ended.stderr[-300:]]

    def out(self) -> list[str]:
        (self.folder / "closed").mkdir(mode=0o755)  # root's
        problems = refused(self.user(*RUN, "--out", "closed"), "closed")
        return problems + ["something was written"] * bool(contents(self.folder / "closed"))

    def data(self) -> list[str]:
        closed = self.folder / "data"
        (closed / "mnist").mkdir(parents=True)
        closed.chmod(0o700)
        return refused(self.user("run", "examples/digits-ring.toml", "data=mnist", f"data.root={closed}"), "data")

    def resume(self, name: str) -> list[str]:
        """A file or folder of a run is root's and closed to others; then it is given back."""
        folder = interrupted(self.user, self.folder / f"resume-{name}")
        path, before = folder / name, contents(folder)
        mode = path.stat().st_mode
        os.chown(path, 0, 0)
        path.chmod(0o000)
        problems = refused(self.user("resume", folder, "-q"), str(path))
        path.chmod(mode)
        os.chown(path, self.user.number, self.user.number)
        if contents(folder) != before:
            problems.append("files were changed")
        return problems + self.same(folder)

    def paused(self) -> list[str]:
        """The run's folder is root's, and can be read: the run pauses, says so, and goes on once it is given back."""
        folder = interrupted(self.user, self.folder / "paused")
        os.chown(folder, 0, 0)
        running = self.user.start("resume", folder, "--keep-state", "-q", "--checkpoint-every=0")
        assert running.stderr is not None
        until_said = threading.Timer(MAX_SECONDS, running.kill)
        until_said.start()
        said = next((line for line in running.stderr if "Paused: " in line and "Permission denied" in line), "")
        os.chown(folder, self.user.number, self.user.number)
        _, err = running.communicate()
        until_said.cancel()
        if not said or running.returncode:
            return [f"status {running.returncode}: {err[-300:]}"]
        different = differences(final_state(self.calm), final_state(folder))
        return [f"other bits: {different[:3]}"] if different else []

    def same(self, folder: Path) -> list[str]:
        """The run resumed, compared with the undisturbed one."""
        ended = self.user("resume", folder, "-q", "--keep-state")
        if ended.returncode:
            return [f"it did not go on: {ended.stderr[-300:]}"]
        different = differences(final_state(self.calm), final_state(folder))
        return [f"other bits: {different[:3]}"] if different else []

    def foreign(self) -> list[str]:
        folder = interrupted(self.user, self.folder / "foreign")
        own(folder, 0)
        before = contents(folder)
        problems = refused(self.user("resume", folder, "-q"), str(folder))
        if contents(folder) != before:
            problems.append("files were changed")
        own(folder, self.user.number)
        return problems + self.same(folder)

    def cell(self) -> list[str]:
        """A cell's folder is root's: it is named, and the others are run."""
        name = sorted(self.cells)[1]
        bad = self.folder / "sweeps" / "rights" / "cells" / name
        bad.mkdir(parents=True)
        own(self.folder / "sweeps", self.user.number)
        os.chown(bad, 0, 0)
        ended = self.user("sweep", "grid.toml", "--jobs", "1", "--out", "sweeps")
        found = cells_of(self.folder / "sweeps" / "rights")
        problems = [f"status {ended.returncode}"] if ended.returncode != 1 else []
        if found != {other: state for other, state in self.cells.items() if other != name}:
            problems.append("the other cells have other bits, or were not run")
        if str(bad.relative_to(self.folder)) not in ended.stderr + ended.stdout or "Traceback" in ended.stderr:
            problems.append(f"the cell is not named: {ended.stderr[-300:]}")
        os.chown(bad, self.user.number, self.user.number)
        again = self.user("sweep", "grid.toml", "--jobs", "1", "--out", "sweeps")
        if again.returncode or cells_of(self.folder / "sweeps" / "rights") != self.cells:
            problems.append(f"it did not go on: {again.stderr[-300:]}")
        return problems

    def sweep(self) -> list[str]:
        folder = self.folder / "closed-sweeps" / "rights"
        folder.mkdir(parents=True)
        return refused(self.user("sweep", "grid.toml", "--out", "closed-sweeps"), "closed-sweeps")

    def report(self) -> list[str]:
        (self.folder / "pages").mkdir(mode=0o755)
        return refused(self.user("report", self.calm, "--out", "pages/page.html"), "pages")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--user", type=int, default=NOBODY, help="the number of the user, and of the group")
    parser.add_argument("--out", type=Path, help="a JSON file for the result")
    options = parser.parse_args()
    if os.geteuid():
        sys.exit("proofs/permissions.py takes rights away from another user, so it must be run by root.")
    began, held, problems = time.monotonic(), [], []
    with tempfile.TemporaryDirectory() as name:
        Path(name).chmod(0o755)
        say("a run and a sweep that nobody disturbs ...")
        cases = Cases(User(Path(name) / "home", options.user)).all()
        for number, (case, check) in enumerate(cases.items()):
            say(f"{number + 1} of {len(cases)}: {case}")
            found = check()
            held += [] if found else [case]
            problems += [f"{case}: {problem}" for problem in found]
    result: dict[str, Any] = {"cases": list(cases), "held": len(held), "problems": problems}
    finish(result | {"seconds": round(time.monotonic() - began)}, options.out, problems)


if __name__ == "__main__":
    main()
