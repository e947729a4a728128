"""Kill runs (-9) at random moments, resume them, and compare what is left with undisturbed runs, bit for bit.

    python proofs/kills.py --kills 100 --out docs/reliability/kills.json

Runs are in one process and in several, of every algorithm; some are continued by another number of processes, and
some are killed again while they are resumed. The processes are forked from one that has imported everything, so that
most of their time is spent where it matters.
"""

import argparse
import json
import os
import random
import signal
import sys
import tempfile
import time
from pathlib import Path

import torch
from ports import free_port
from states import differences, final_state

from crossgrad import __version__
from crossgrad._cli import execution, progress  # noqa: F401 - imported before the fork
from crossgrad._cli import main as crossgrad_main
from crossgrad.algorithms import ALGORITHMS
from crossgrad.algorithms.api import Needs

ROOT = Path(__file__).parents[1]
EXPERIMENT = ROOT / "examples" / "digits-ring.toml"
SETTINGS = ["agents=6", "training.steps=40", "training.evaluate_every=10", "training.deterministic=true"]
OPTIONS = ["-q", "--keep-state", "--lost-after=5"]
PATIENCE = 60.0  # seconds after which a run counts as hung


class Processes:
    """The processes of one command, forked."""

    def __init__(self, arguments: list[str], count: int, log: Path) -> None:
        port = free_port()
        self.ids = [_fork(arguments, rank, count, port, log) for rank in range(count)]
        self.statuses: dict[int, int] = {}
        self.hung = False

    def running(self) -> list[int]:
        for process in self.ids:
            if process not in self.statuses:
                ended, status = os.waitpid(process, os.WNOHANG)
                if ended:
                    self.statuses[process] = os.waitstatus_to_exitcode(status)
        return [process for process in self.ids if process not in self.statuses]

    def kill(self, victims: list[int]) -> None:
        for process in victims:
            os.kill(process, signal.SIGKILL)

    def wait(self) -> list[int]:
        """Their statuses once all have ended; those that do not are killed."""
        until = time.monotonic() + PATIENCE
        while self.running():
            if time.monotonic() > until:
                self.hung = True
                self.kill(self.running())
            time.sleep(0.005)
        return [self.statuses[process] for process in self.ids]


def _fork(arguments: list[str], rank: int, count: int, port: int, log: Path) -> int:
    process = os.fork()
    if process:
        return process
    with log.open("ab") as file:
        os.dup2(file.fileno(), 1)
        os.dup2(file.fileno(), 2)
    if count > 1:
        os.environ |= {"RANK": str(rank), "LOCAL_RANK": str(rank), "WORLD_SIZE": str(count)}
        os.environ |= {"LOCAL_WORLD_SIZE": str(count), "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port)}
    sys.argv = ["crossgrad", *arguments]
    status = 1
    try:
        crossgrad_main()
        status = 0
    except SystemExit as ended:
        status = int(ended.code or 0)
    finally:
        sys.stdout.flush()
        os._exit(status)


class Proof:
    """The kills, and what came of them."""

    def __init__(self, folder: Path, seed: int) -> None:
        self.folder, self.random = folder, random.Random(seed)
        self.expected: dict[str, dict[str, str]] = {}
        self.duration: dict[str, float] = {}
        self.log = folder / "log"
        self.kills = self.runs = self.equal = self.alone = self.of_one = self.again = self.before_saving = (
            self.waited
        ) = 0
        self.failures: list[str] = []

    def undisturbed(self, algorithm: str) -> dict[str, str]:
        """The final state of a run that nobody kills; that it is the same in several processes is tested elsewhere."""
        if algorithm not in self.expected:
            out = self.folder / "undisturbed" / algorithm
            processes = Processes(self._run(algorithm, out, 60.0), 1, self.log)
            began = _until_begun(processes, out)
            assert processes.wait() == [0], self.log.read_text()
            self.duration[algorithm] = time.monotonic() - began
            self.expected[algorithm] = final_state(next(out.iterdir()))
        return self.expected[algorithm]

    def one(self, number: int) -> None:
        """A run that is killed, resumed, perhaps killed again, until it has ended."""
        algorithm = sorted(ALGORITHMS)[number % len(ALGORITHMS)]
        count = self.random.choice([1, 1, 2, 3])
        out, every = self.folder / str(number), self.random.choice([0.0, 0.0, 0.05, 60.0])
        expected = self.undisturbed(algorithm)
        processes = Processes(self._run(algorithm, out, every), count, self.log)
        _until_begun(processes, out)
        disturbed = self._kill(processes, algorithm, count, begun=True)
        while disturbed:
            folder = next(out.iterdir())
            if (folder / "summary.json").exists():
                break  # it had just ended
            self.before_saving += not (folder / "checkpoints").exists()
            count = self.random.choice([count, count, 1, 2, 3])
            resume = ["resume", str(folder), *OPTIONS, f"--checkpoint-every={every}"]
            processes = Processes(resume, count, self.log)
            disturbed = self.random.random() < 0.3 and self._kill(processes, algorithm, count, begun=False)
            self.again += disturbed
            if not disturbed and (any(processes.wait()) or processes.hung):
                self.failures.append(f"run {number}: {algorithm} ended with {processes.statuses}")
                return
        different = differences(expected, final_state(next(out.iterdir())))
        self.runs += 1
        self.equal += not different
        if different:
            self.failures.append(f"run {number}: {algorithm} differs in {different[:3]}")

    def _kill(self, processes: Processes, algorithm: str, count: int, begun: bool) -> bool:
        """Kill all processes after a while, or one; whether they were still running."""
        time.sleep(self.random.uniform(0, self.duration[algorithm]))
        victims = processes.running()
        if len(victims) < count:
            processes.wait()
            return False
        if count > 1 and self.random.random() < 0.5:
            victims = [self.random.choice(victims)]
            self.of_one += 1
        self.alone += count == 1
        processes.kill(victims)
        processes.wait()
        if processes.hung and begun:
            self.failures.append(f"{algorithm}: those that were left did not end")
        self.waited += processes.hung  # for one that never came: ten minutes, which torchrun would end at once
        self.kills += 1
        return True

    def _run(self, algorithm: str, out: Path, every: float) -> list[str]:
        changes = [*SETTINGS, f"algorithm={algorithm}"]
        if Needs.TREE in getattr(ALGORITHMS[algorithm], "needs", Needs(0)):  # presets do not say, and need none
            changes.append("graph=chain")
        return ["run", str(EXPERIMENT), *changes, *OPTIONS, f"--out={out}", f"--checkpoint-every={every}"]

    def summary(self) -> dict[str, object]:
        return {
            "kills": self.kills,
            "in one process": self.alone,
            "of one process among several": self.of_one,
            "while resuming": self.again,
            "before the first checkpoint": self.before_saving,
            "before all processes had met": self.waited,
            "runs": self.runs,
            "final states equal": self.equal,
            "failures": self.failures,
            "crossgrad": __version__,
            "torch": torch.__version__,
        }


def _until_begun(processes: Processes, out: Path) -> float:
    """When the run had a folder."""
    while processes.running() and not any(out.glob("*/experiment.toml")):
        time.sleep(0.002)
    return time.monotonic()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kills", type=int, default=100)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", type=Path, help="a JSON file for the result")
    options = parser.parse_args()
    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory() as folder:
        proof, number = Proof(Path(folder), options.seed), 0
        began = time.monotonic()
        while proof.kills < options.kills:
            proof.one(number)
            number += 1
            print(f"\r{proof.kills} kills, {proof.equal} of {proof.runs} runs equal", end="", flush=True)
        result = proof.summary() | {"seconds": round(time.monotonic() - began)}
        if proof.failures:
            print(proof.log.read_text()[-4000:], file=sys.stderr)
    print("\n" + json.dumps(result, indent=2))
    if options.out:
        options.out.write_text(json.dumps(result, indent=2) + "\n")
    sys.exit(bool(proof.failures))


if __name__ == "__main__":
    main()
