"""Feed spoilt files to every reader: each must be read, or refused in one sentence, fast and in little memory.

    python proofs/fuzz.py                                  all targets, 10,000 inputs each
    python proofs/fuzz.py --target idx --only 1234         one input again, with its traceback

Inputs are a function of (target, seed, number). A reader fails if it raises anything but a ValueError or OSError
with one printable sentence, warns, writes, starts anything, works for over ten seconds or takes more than 1 GB.
"""

import argparse
import json
import multiprocessing
import os
import platform
import sys
import tempfile
import time
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from judge import Verdict, clear, judge, lay_out, limit_memory, watch
from targets import TARGETS, Target

import crossgrad

SECONDS = 10.0  # for one input
MEGABYTES = 1000.0  # above what the process takes before its first input
KEPT = 20  # failures of a target that are written down
RESULT_COLUMNS = ("inputs", "accepted", "refused", "failures", "slowest_seconds", "peak_megabytes")


def main() -> int:
    """Run the targets, print a table, write the results; 1 if anything failed."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--inputs", type=int, default=10_000, help="for every target")
    parser.add_argument("--target", choices=TARGETS, action="append", help="only this one; may be repeated")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--only", type=int, metavar="NUMBER", help="this input only, here, with its traceback")
    parser.add_argument("--out", type=Path, metavar="FILE", help="where to write the results as JSON")
    options = parser.parse_args()
    names = options.target or list(TARGETS)
    if options.only is not None:
        return repeat(TARGETS[names[0]], options.seed, options.only)
    results = {name: fuzz(TARGETS[name], options.seed, options.inputs) for name in names}
    table(results)
    if options.out:
        about = {
            "crossgrad": crossgrad.__version__,
            "python": platform.python_version(),
            "seed": options.seed,
            "seconds_allowed": SECONDS,
            "megabytes_allowed": MEGABYTES,
        }
        if options.target and options.out.exists():  # the others keep what was found before, with its date
            results = json.loads(options.out.read_text(encoding="utf-8"))["targets"] | results
        options.out.parent.mkdir(parents=True, exist_ok=True)
        options.out.write_text(json.dumps(about | {"targets": results}, indent=2) + "\n", encoding="utf-8")
    return int(any(result["failures"] for result in results.values()))


def fuzz(target: Target, seed: int, inputs: int) -> dict[str, Any]:
    """The results of one target."""
    result: dict[str, Any] = dict.fromkeys(RESULT_COLUMNS, 0) | {"seed": seed, "first_failures": []}
    began = told = time.monotonic()
    for verdict in verdicts(target, seed, inputs):
        result["inputs"] += 1
        too_large = verdict.megabytes > max(MEGABYTES, result["peak_megabytes"])  # a peak stays: blame the first
        fault = verdict.fault or (f"{verdict.megabytes:.0f} MB" if too_large else "")
        result["failures" if fault else "accepted" if verdict.accepted else "refused"] += 1
        if fault and len(result["first_failures"]) < KEPT:
            result["first_failures"].append({"number": verdict.number, "fault": fault})
        for column, value in (("slowest_seconds", verdict.seconds), ("peak_megabytes", verdict.megabytes)):
            result[column] = max(result[column], round(value, 3))
        if time.monotonic() - told > (1 if sys.stderr.isatty() else 10):
            told = time.monotonic()
            progress(f"{target.name}: {result['inputs']}/{inputs}, {result['failures']} failures")
    result["seconds"] = round(time.monotonic() - began, 1)
    result["date"] = datetime.now(UTC).date().isoformat()
    progress(f"{target.name}: {result['inputs']} inputs in {result['seconds']} s, {result['failures']} failures", "\n")
    for failure in result["first_failures"][:5]:
        print(f"    --target {target.name} --seed {seed} --only {failure['number']}: {failure['fault'][:200]}")
    return result


def verdicts(target: Target, seed: int, inputs: int) -> Iterator[Verdict]:
    """One verdict after the other, from a process that is started again after an input that ended it."""
    context = multiprocessing.get_context("fork")  # what is imported need not be again
    number = 0
    while number < inputs:
        ours, theirs = context.Pipe(duplex=False)
        with tempfile.TemporaryDirectory(prefix="fuzz-") as around:
            process = context.Process(target=work, args=(target, seed, range(number, inputs), Path(around), theirs))
            began = time.monotonic()
            process.start()
            theirs.close()
            try:
                while True:
                    verdict = ours.recv()
                    number, began = verdict.number + 1, time.monotonic()
                    yield verdict
            except EOFError:
                process.join()
        if number < inputs:
            took = time.monotonic() - began
            how = f"no answer within {SECONDS:.0f} s" if took >= SECONDS else "the process ended"
            yield Verdict(number, False, f"{how} (status {process.exitcode})", min(took, SECONDS), 0.0)
            number += 1


def work(target: Target, seed: int, numbers: range, around: Path, pipe: Any) -> None:
    """Judge these inputs in a process that may not grow, and that ends itself where one takes too long."""
    folder = around / "inside"
    folder.mkdir()
    os.chdir(folder)
    watch()
    limit_memory(2 * int(MEGABYTES) << 20)
    for number in numbers:
        lay_out(target.input(seed, number), folder)
        pipe.send(judge(target, folder, number, must_accept=number < len(target.seeds), seconds=SECONDS))
        clear(folder)
    pipe.close()


def repeat(target: Target, seed: int, number: int) -> int:
    """Read one input here, and leave its files for a look."""
    folder = Path(tempfile.mkdtemp(prefix="fuzz-"), "inside")
    folder.mkdir()
    lay_out(target.input(seed, number), folder)
    print(f"The input is in {folder}")
    os.chdir(folder)
    print(f"read: {target.read(folder)!r:.300}")
    return 0


def progress(line: str, end: str = "") -> None:
    """A line that the next one replaces, on a terminal."""
    start, end = ("\r\x1b[K", end) if sys.stderr.isatty() else ("", "\n")
    print(f"{start}{line}", end=end, file=sys.stderr, flush=True)


def table(results: dict[str, dict[str, Any]]) -> None:
    """All targets, a line each."""
    print(f"{'target':20}" + "".join(f"{column.replace('_', ' '):>17}" for column in RESULT_COLUMNS))
    for name, result in results.items():
        print(f"{name:20}" + "".join(f"{result[column]:>17}" for column in RESULT_COLUMNS))


if __name__ == "__main__":
    sys.exit(main())
