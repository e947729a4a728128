"""Disturb launches of torchrun itself, resume, and compare every agent's state with an undisturbed run, bit for bit.

    python proofs/launches.py --out docs/reliability/launches.json

Without `--max-restarts`: random ranks, or torchrun, are killed (-9), or a rank is stopped (SIGSTOP). Nothing may be
left running, and `torchrun -m crossgrad resume`, perhaps with another number of processes, must end with the same bits.
SIGTERM, up to five times within a second, goes to the process group of torchrun, or of `crossgrad run --processes`: the
step that it is at must be saved.
With it: two nodes on the loopback interface (`--nnodes 2`), one rank of either is killed, and both start anew.
"""

import argparse
import os
import random
import re
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from ports import free_port
from report import Kinds, environment, say
from restarts import children, records
from states import differences, final_state

ROOT = Path(__file__).parents[1]
SETTINGS = ["agents=6", "algorithm=compcga", "training.deterministic=true", "training.evaluate_every=10", "-q"]
LOST_AFTER = 10  # seconds; on a busy machine a process may wait for its turn longer than 3
OPTIONS = ["--keep-state", "--checkpoint-every=0.1", f"--lost-after={LOST_AFTER}"]
MOST_RECORDS = 15  # after which a launch is disturbed, of 31
MAX_SECONDS = 600.0  # on a machine that others use too


def torchrun(*arguments: str | Path, processes: int, log: Path, more: tuple[str, ...] = ("--standalone",)) -> Any:
    """Start torchrun with a command of crossgrad."""
    launch = ["-m", "torch.distributed.run", *more, "--shutdown-timeout=3", f"--nproc-per-node={processes}"]
    command = [sys.executable, *launch, "-m", "crossgrad", *map(str, arguments)]
    return begin(command, log)


def begin(command: list[str], log: Path) -> Any:
    """Start a command in a process group of its own."""
    with log.open("ab") as file:
        environ = environment(GLOO_SOCKET_IFNAME="lo")
        return subprocess.Popen(command, stdout=file, stderr=file, env=environ, start_new_session=True)


def wait_for(so: Callable[[], object], what: str) -> None:
    until = time.monotonic() + MAX_SECONDS
    while not so():
        assert time.monotonic() < until, f"{what}: not within {MAX_SECONDS:g} s"
        time.sleep(0.02)


def running(processes: list[int]) -> list[int]:
    """Those that have not ended."""

    def state(process: int) -> str:
        try:
            return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0]
        except (FileNotFoundError, ProcessLookupError):
            return "Z"

    return [process for process in processes if state(process) != "Z"]


class Proof:
    """The undisturbed run, and the disturbed ones that are compared with it."""

    def __init__(self, folder: Path, steps: int, seed: int) -> None:
        self.folder, self.chance = folder, random.Random(seed)
        self.log = folder / "log"
        self.run = ["run", str(ROOT / "examples" / "digits-ring.toml"), f"training.steps={steps}", *SETTINGS, *OPTIONS]
        calm = torchrun(*self.run, f"--out={folder / 'calm'}", processes=2, log=self.log)
        assert calm.wait(MAX_SECONDS) == 0, self.log.read_text()[-2000:]
        self.calm = final_state(next((folder / "calm").iterdir()))

    def same(self, out: Path) -> None:
        different = differences(self.calm, final_state(next(out.iterdir())))
        assert not different, f"other bits: {different[:3]}"

    def wait_for_records(self, out: Path, launched: list[Any]) -> None:
        """Wait for a random number of records, or until something has ended."""
        count = self.chance.randint(2, MOST_RECORDS)
        wait_for(lambda: records(out) >= count or any(one.poll() is not None for one in launched), f"{count} records")

    def launch(self, out: Path, disturb: Callable[[Any, list[int]], None], by_torchrun: bool = True) -> None:
        """Disturb a launch of 3 processes after some of its records; all must end, and another launch resumes."""
        run = [*self.run, f"--out={out}"]
        own = [sys.executable, "-m", "crossgrad", *run, "--processes=3"]
        launched = torchrun(*run, processes=3, log=self.log) if by_torchrun else begin(own, self.log)
        ranks: list[int] = []
        try:
            self.wait_for_records(out, [launched])
            ranks = children(launched.pid)
            assert len(ranks) == 3, "the run ended before it was disturbed; raise --steps"
            disturb(launched, ranks)
            wait_for(lambda: launched.poll() is not None and not running(ranks), "the end of all processes")
        finally:
            for process in running(ranks):
                os.kill(process, signal.SIGKILL)
            launched.kill()
            launched.wait()
        (folder,) = out.iterdir()
        resume = torchrun("resume", folder, *OPTIONS, "-q", processes=self.chance.choice([2, 3]), log=self.log)
        assert resume.wait(MAX_SECONDS) == 0, f"resume: {self.log.read_text()[-500:]}"
        self.same(out)

    def ranks(self, out: Path) -> None:
        def kill(_: Any, ranks: list[int]) -> None:
            for victim in self.chance.sample(ranks, self.chance.choice([1, 1, 2, 3])):
                os.kill(victim, signal.SIGKILL)

        self.launch(out, kill)

    def torchrun(self, out: Path) -> None:
        self.launch(out, lambda launched, _: launched.kill())

    def stop(self, out: Path) -> None:
        before = self.log.stat().st_size
        self.launch(out, lambda _, ranks: os.kill(self.chance.choice(ranks), signal.SIGSTOP))
        assert f"not been heard of for {LOST_AFTER} seconds" in self.log.read_text()[before:], (
            "the stopped rank was not named"
        )

    def terminate(self, out: Path) -> None:
        by_torchrun, before = self.chance.random() < 0.5, self.log.stat().st_size

        def storm(launched: Any, _: list[int]) -> None:
            for _ in range(self.chance.randint(1, 5)):
                os.killpg(launched.pid, signal.SIGTERM)
                time.sleep(self.chance.uniform(0, 0.2))

        def saved(launched: Any, ranks: list[int]) -> None:
            storm(launched, ranks)
            wait_for(lambda: launched.poll() is not None and not running(ranks), "the end of all processes")
            said = self.log.read_text()[before:]
            stopped = re.search(r"Stopped after step (\d+)\.", said)
            assert stopped, f"it does not say where it stopped: {said[-500:]}"
            kept = [path.name.split(".")[0] for path in out.glob("*/checkpoints/*.safetensors")]
            assert kept.count(f"step-{stopped[1]}") == 3, f"step {stopped[1]} was not saved by all: {kept}"
            assert by_torchrun or "Traceback" not in said, said[-500:]  # torchrun's own
            assert by_torchrun or launched.poll() == 128 + signal.SIGTERM, f"status {launched.poll()}"

        self.launch(out, saved, by_torchrun)

    def nodes(self, out: Path) -> None:
        """Two launches of 2 processes each; a rank of a random one is killed, and all start anew."""
        port = free_port()
        more = ("--nnodes=2", "--max-restarts=3", "--rdzv-backend=c10d", f"--rdzv-endpoint=127.0.0.1:{port}")
        more += (f"--rdzv-id={port}", "--local-addr=127.0.0.1")
        both = [torchrun(*self.run, f"--out={out}", processes=2, log=self.log, more=more) for _ in range(2)]
        try:
            self.wait_for_records(out, both)
            before = [rank for one in both for rank in children(one.pid)]
            assert len(before) == 4, f"{len(before)} ranks instead of 4"
            os.kill(self.chance.choice(before), signal.SIGKILL)
            wait_for(lambda: not running(before), "the end of the first attempt")
            wait_for(lambda: all(one.poll() is not None for one in both), "the end of both nodes")
            assert [one.poll() for one in both] == [0, 0], f"statuses {[one.poll() for one in both]}"
        finally:
            for one in both:
                one.terminate()
                one.wait()
        assert len(list(out.iterdir())) == 1, "the second attempt began a new run"
        self.same(out)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--times", type=int, default=20, help="disturbances of each kind")
    parser.add_argument("--steps", type=int, default=300)
    parser.add_argument("--only", help="this kind only; the figures of the others stay")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--add", action="store_true", help="to the figures in --out; use another --seed")
    parser.add_argument("--out", type=Path, help="a JSON file for the result")
    options = parser.parse_args()
    result = Kinds(options.out, options.times, options.add)
    with tempfile.TemporaryDirectory() as name:
        say("a launch that nobody disturbs ...")
        proof = Proof(Path(name), options.steps, options.seed)
        kinds = {
            "kills of random ranks": proof.ranks,
            "kills of torchrun": proof.torchrun,
            "SIGSTOPs of a rank": proof.stop,
            "times SIGTERM to the whole process group, up to five times within a second": proof.terminate,
            "kills on one of two nodes, restarted": proof.nodes,
        }
        for kind, disturb in kinds.items():
            if options.only in (None, kind):
                result.repeat(kind, lambda number, kind=kind, disturb=disturb: disturb(Path(name) / f"{kind}-{number}"))
    result.finish()


if __name__ == "__main__":
    main()
