"""Kill (-9) and stop (SIGSTOP) processes under torchrun, which starts all anew, and compare with an undisturbed run.

    python proofs/restarts.py --kills 20 --stops 5 --out docs/reliability/restarts.json

One run of several processes is disturbed again and again: at random moments a random process is killed, or stopped so
that it neither works nor ends. All must notice, torchrun must start them anew, and the final state must be the same
bits.
"""

import argparse
import json
import os
import random
import re
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import torch
from states import differences, final_state

from crossgrad import __version__

ROOT = Path(__file__).parents[1]
LOST_AFTER = 5  # seconds
PATIENCE = 180.0  # seconds without any progress after which it counts as hung


def command(out: Path, steps: int, restarts: int, processes: int) -> list[str]:
    run = ["-m", "crossgrad", "run", str(ROOT / "examples" / "digits-ring.toml"), f"training.steps={steps}"]
    run += ["agents=8", "algorithm=compcga", "training.deterministic=true", "training.evaluate_every=20"]
    run += ["--json", "--keep-state", "--checkpoint-every=0.2", f"--lost-after={LOST_AFTER}", f"--out={out}"]
    launch = ["-m", "torch.distributed.run", "--standalone", f"--max-restarts={restarts}", "--shutdown-timeout=5"]
    return [sys.executable, *launch, f"--nproc-per-node={processes}", *run]


def children(process: int) -> list[int]:
    """The processes that torchrun started."""
    try:
        return [int(word) for word in Path(f"/proc/{process}/task/{process}/children").read_text().split()]
    except FileNotFoundError:
        return []


def records(out: Path) -> int:
    """Records written so far, of a run that has begun."""
    return sum(path.read_bytes().count(b"\n") for path in out.glob("*/records.jsonl"))


def disturb(
    launched: subprocess.Popen[bytes], out: Path, kinds: list[signal.Signals], chance: random.Random
) -> list[float]:
    """Send the signals one by one, each when the run is at work again; the seconds each recovery took."""
    recoveries = []
    for kind in kinds:
        time.sleep(chance.uniform(0, 2))
        if launched.poll() is not None:
            sys.exit("the run ended before all disturbances; raise --steps")
        before = children(launched.pid)
        victim = chance.choice(before)
        os.kill(victim, kind)
        struck = time.monotonic()
        while set(children(launched.pid)) & set(before) or len(children(launched.pid)) < len(before):
            _wait(launched, struck)
        at_work = records(out)
        while records(out) == at_work:  # it writes the next record: it works again
            _wait(launched, struck)
        recoveries.append(time.monotonic() - struck)
        print(
            f"\r{len(recoveries)} of {len(kinds)} disturbances, {kind.name}: {recoveries[-1]:.1f} s", end="", flush=True
        )
    return recoveries


def _wait(launched: subprocess.Popen[bytes], since: float) -> None:
    if launched.poll() is not None:
        sys.exit(f"torchrun ended with status {launched.poll()}")
    if time.monotonic() - since > PATIENCE:
        sys.exit(f"no recovery within {PATIENCE:g} seconds")
    time.sleep(0.05)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kills", type=int, default=20)
    parser.add_argument("--stops", type=int, default=5)
    parser.add_argument("--steps", type=int, default=3000)
    parser.add_argument("--processes", type=int, default=4)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", type=Path, help="a JSON file for the result")
    options = parser.parse_args()
    chance = random.Random(options.seed)
    kinds = [signal.SIGKILL] * options.kills + [signal.SIGSTOP] * options.stops
    chance.shuffle(kinds)
    environment = os.environ | {"OMP_NUM_THREADS": "1", "TORCH_CPP_LOG_LEVEL": "ERROR"}
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        with (folder / "log").open("wb") as log:
            for out, restarts in (("undisturbed", 0), ("disturbed", len(kinds))):
                arguments = command(folder / out, options.steps, restarts, options.processes)
                launched = subprocess.Popen(arguments, stdout=subprocess.DEVNULL, stderr=log, env=environment)
                try:
                    if restarts:
                        while not records(folder / out):
                            _wait(launched, time.monotonic())
                        recoveries = disturb(launched, folder / out, kinds, chance)
                    status = launched.wait()
                finally:
                    launched.terminate()
                if status:
                    sys.exit(f"{out}: status {status}\n{(folder / 'log').read_text()[-4000:]}")
        said = re.findall(r"crossgrad: rank \d ends: (.*?)\.\n", (folder / "log").read_text())
        states = [final_state(next((folder / out).iterdir())) for out in ("undisturbed", "disturbed")]
    different = differences(*states)
    pairs = list(zip(kinds, recoveries, strict=True))
    result = {
        "processes": options.processes,
        "kills": options.kills,
        "stops": options.stops,
        "recovered": len(recoveries),
        "final states equal": not different,
        "differences": different[:5],
        "slowest recovery from a kill, s": round(max([s for k, s in pairs if k == signal.SIGKILL], default=0), 1),
        "slowest recovery from a stop, s": round(max([s for k, s in pairs if k == signal.SIGSTOP], default=0), 1),
        "times a lost process was named": sum("(agent" in sentence for sentence in said),
        "crossgrad": __version__,
        "torch": torch.__version__,
    }
    print("\n" + json.dumps(result, indent=2))
    if options.out:
        options.out.write_text(json.dumps(result, indent=2) + "\n")
    sys.exit(bool(different))


if __name__ == "__main__":
    main()
