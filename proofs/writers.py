"""Many processes write runs into one folder at once: none may overwrite, mix or lose anything.

    python proofs/writers.py --out docs/reliability/writers.json

Two long runs and ten workers, each of which makes several short runs of the same name in the same second, share one
folder. Afterwards every run must be there, whole, and the same bits as one that ran by itself; two processes that
resume the same run must not both be let in.
"""

import argparse
import json
import sys
import tempfile
import time
from pathlib import Path

import torch
from kills import EXPERIMENT, Processes
from states import differences, final_state

from crossgrad import __version__

WORKERS, RUNS_EACH, LONG = 10, 3, 2


def run(out: Path, steps: int) -> list[str]:
    changes = ["agents=4", f"training.steps={steps}", "training.evaluate_every=5", "training.deterministic=true"]
    return ["run", str(EXPERIMENT), *changes, "-q", "--keep-state", "--checkpoint-every=0", f"--out={out}"]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, help="a JSON file for the result")
    options = parser.parse_args()
    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory() as name:
        folder, began = Path(name), time.monotonic()
        for steps in (10, 60):
            assert Processes(run(folder / f"alone-{steps}", steps), 1, folder / "log").wait() == [0]
        expected = {steps: final_state(next((folder / f"alone-{steps}").iterdir())) for steps in (10, 60)}
        shared = folder / "shared"
        long = [Processes(run(shared, 60), 1, folder / "log") for _ in range(LONG)]
        statuses = []
        for _ in range(RUNS_EACH):
            short = [Processes(run(shared, 10), 1, folder / "log") for _ in range(WORKERS)]
            statuses += [status for each in short for status in each.wait()]
        statuses += [status for each in long for status in each.wait()]
        states = [final_state(path) for path in shared.iterdir()]
        equal = sum(any(not differences(one, state) for one in expected.values()) for state in states)
        twice = resumed_twice(folder)
    runs = WORKERS * RUNS_EACH + LONG
    result = {
        "processes at once": WORKERS + LONG,
        "runs": runs,
        "ended well": statuses.count(0),
        "folders": len(states),
        "final states equal": equal,
        "of two that resume one run at once, refused": twice,
        "seconds": round(time.monotonic() - began),
        "crossgrad": __version__,
    }
    print(json.dumps(result, indent=2))
    if options.out:
        options.out.write_text(json.dumps(result, indent=2) + "\n")
    sys.exit(not (statuses.count(0) == len(states) == equal == runs and twice == 1))


def resumed_twice(folder: Path) -> int:
    """Of two processes that go on with the same run, how many are refused."""
    out = folder / "twice"
    first = Processes(run(out, 200), 1, folder / "log")
    while not any(out.glob("*/checkpoints/*.safetensors")):
        time.sleep(0.01)
    first.kill(first.running())
    first.wait()
    resume = ["resume", str(next(out.iterdir())), "-q"]
    both = [Processes(resume, 1, folder / "log") for _ in range(2)]
    return sum(status == 2 for each in both for status in each.wait())


if __name__ == "__main__":
    main()
