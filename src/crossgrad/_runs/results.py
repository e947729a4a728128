"""Results of runs, read back from disk: one run, all cells of a sweep, or a sweep packed into one file.

A run's folder has experiment.toml, records.jsonl and, once it has ended, summary.json. A sweep's folder has such a
folder for each of its cells under cells/, with its labels in cell.json. `pack` puts a sweep into
cells.jsonl.gz, a line for each cell, without the models. A folder may have both: cells kept before, and new ones.
"""

import gzip
import json
import os
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from crossgrad._storage import atomic
from crossgrad._storage.damage import damaged
from crossgrad.experiments.config import tidy
from crossgrad.experiments.toml import MAX_EXPERIMENT_BYTES, load_toml
from crossgrad.records.file import read_records
from crossgrad.records.quantity import Quantity, quantities_from_json
from crossgrad.records.record import QUANTITIES, Record

PACKED = "cells.jsonl.gz"
AGENTS_FILE = "agents.json"
FULL = ("finished", "diverged")  # ways in which a run comes to its end
ENDS = (*FULL, "interrupted")
MAX_UNPACKED_SWEEP_BYTES = 1 << 29  # of a packed sweep
MAX_CELL_BYTES = 1 << 26  # of a cell in it


@dataclass(frozen=True)
class RunResult:
    """One run: its settings, its records, and how it ended."""

    name: str
    labels: dict[str, str]  # its values along the axes of its sweep, such as {"graph": "ring", "seed": "0"}
    experiment: dict[str, Any]  # the whole experiment as tables
    records: tuple[Record, ...]
    summary: dict[str, Any] | None  # None while the run has not ended
    versions: dict[str, Any]
    agents: dict[str, Any] | None = None  # agents.json: edges and classes; None for runs of older versions

    @property
    def ended(self) -> str:
        """finished, diverged or interrupted; begun if it is going on or was killed."""
        return "begun" if self.summary is None else str(self.summary["ended"])

    @property
    def last(self) -> Record | None:
        """The newest record."""
        return self.records[-1] if self.records else None

    @property
    def quantities(self) -> dict[str, Quantity]:
        """Description of each number in the records, by name; runs of older versions do not declare theirs."""
        declared = (self.agents or {}).get("quantities")
        own = older_quantities() if declared is None else quantities_from_json(declared)
        return {one.name: one for one in (*QUANTITIES, *own)}

    @property
    def rounds_per_step(self) -> int:
        """Communication rounds in a step; for runs of older versions, from their kinds of message and gossip rounds."""
        declared = (self.agents or {}).get("rounds_per_step")
        if type(declared) is int and declared > 0:
            return declared
        gossip, last = self.experiment.get("gossip"), self.last
        rounds = gossip.get("rounds", 1) if isinstance(gossip, dict) else 1
        back = last is not None and any(last.bytes_by_kind.get(kind) for kind in ("gradient", "code"))
        return 2 if back else rounds if type(rounds) is int else 1

    @property
    def progress(self) -> float:
        """The share of the run that is done, as of its newest record."""
        if self.ended in FULL:
            return 1.0
        training, last = self.experiment.get("training", {}), self.last
        if last is None:
            return 0.0
        steps, epochs = training.get("steps"), training.get("epochs")
        return min(1.0, last.step / steps if steps else last.epoch / epochs if epochs else 0.0)


def read_results(path: str | Path, damaged: dict[str, str] | None = None) -> list[RunResult]:
    """Read the run of a folder, or all cells of a sweep, those begun included, in the order of their names.

    Args:
        path: the folder of a run, of a sweep, of a packed sweep, or of a sweep that goes on beside what was packed.
        damaged: if given, cells of a sweep that cannot be read are left out, and added here with the reason, by name.

    Raises:
        ValueError: the folder is none of these, or a run in it is damaged.
    """
    folder = Path(path)
    if not folder.is_dir():
        raise ValueError(f"{folder} must be the folder of a run or of a sweep; there is no such folder. Name one.")
    if (folder / "experiment.toml").is_file():
        return [_result_of_run(folder, {})]
    packed = _packed_results(folder / PACKED) if (folder / PACKED).is_file() else []
    if (folder / "cells").is_dir():
        results = []
        for cell in sorted(cell for cell in (folder / "cells").iterdir() if _has_begun(cell)):
            try:
                results.append(_result_of_run(cell, _labels(cell)))
            except (ValueError, OSError) as error:
                if damaged is None:
                    raise
                damaged[cell.name] = tidy(str(error))
        return united(packed, results) if packed else results
    if (folder / PACKED).is_file():
        return packed
    raise ValueError(
        f"{folder} must be the folder of a run or a sweep; there is no experiment.toml, no cells and no {PACKED} in "
        "it. Name another."
    )


@cache
def older_quantities() -> tuple[Quantity, ...]:
    """Quantities that records of older versions may hold without declaring them."""
    from crossgrad._training.quantities import quantities_of  # imports PyTorch, which most readers do not need
    from crossgrad.algorithms import ALGORITHMS

    made: Any = ALGORITHMS.values()
    every = {one.name: one for make in made for one in quantities_of((), make, own_data=False)}
    return tuple(every.values())


def united(kept: list[RunResult], new: list[RunResult]) -> list[RunResult]:
    """The runs of both, in the order of their names; of a run in both, the new one unless only the kept one ended."""
    runs = {run.name: run for run in kept}
    for run in new:
        if run.name not in runs or run.ended in FULL or runs[run.name].ended not in FULL:
            runs[run.name] = run
    return [runs[name] for name in sorted(runs)]


def pack_results(results: list[RunResult], path: Path) -> None:
    """Write results into one small file; the same results give the same bytes."""
    lines = [
        json.dumps(
            {
                "name": result.name,
                "labels": result.labels,
                "experiment": result.experiment,
                "versions": result.versions,
                "agents": result.agents,
                "summary": result.summary,
                "records": [record.as_json() for record in result.records],
            }
        )
        for result in results
    ]
    atomic.write(path, [gzip.compress("".join(line + "\n" for line in lines).encode(), mtime=0)])


def _has_begun(cell: Path) -> bool:
    """Whether a cell has files of a run: its settings, or at least, if these are lost, its end."""
    return any(os.path.lexists(cell / name) for name in ("experiment.toml", "summary.json"))


def _result_of_run(folder: Path, labels: dict[str, str]) -> RunResult:
    try:
        with atomic.open_regular(folder / "experiment.toml", follow=False) as file:
            experiment = load_toml(file.read(MAX_EXPERIMENT_BYTES).decode())
    except atomic.NoFileError:
        raise
    except FileNotFoundError:
        raise damaged(folder, "it must have a file experiment.toml; found none") from None
    except (ValueError, RecursionError) as error:
        raise damaged(folder / "experiment.toml", error) from None
    path, versions = folder / "summary.json", folder / "versions.json"
    read = atomic.read_json_object
    summary = read(path) if path.exists() else None  # before the records, to which a run may add meanwhile
    parts: dict[str, Any] = {
        "records": _records(folder / "records.jsonl", summary),
        "summary": summary,
        "versions": read(versions) if versions.exists() else {},
        "agents": read(folder / AGENTS_FILE) if (folder / AGENTS_FILE).exists() else None,
    }
    try:
        return _checked_result(name=folder.name, labels=labels, experiment=experiment, **parts)
    except ValueError as error:
        raise damaged(folder, error) from None


def _records(path: Path, summary: dict[str, Any] | None) -> tuple[Record, ...]:
    """The records of a run; of one that has ended, all that its summary knows of must be there."""
    records = tuple(read_records(path, growing=True)) if path.exists() else ()
    last = (summary or {}).get("last_record")
    if isinstance(last, dict) and (summary or {}).get("ended") in FULL:
        found = records[-1].step if records else "no record"
        if found != last.get("step"):
            raise damaged(path, f"its last record must be that of step {last.get('step')}; found {found}")
    return records


def _checked_result(
    name: str,
    labels: dict[str, str],
    experiment: dict[str, Any],
    records: tuple[Record, ...],
    summary: dict[str, Any] | None,
    versions: dict[str, Any],
    agents: dict[str, Any] | None = None,
) -> RunResult:
    """Make a result; raise ValueError unless its parts have the right types."""
    tables = {"labels": labels, "experiment": experiment, "versions": versions, "summary": summary, "agents": agents}
    for part, value in tables.items():
        if not isinstance(value, dict) and not (value is None and part in ("summary", "agents")):
            raise ValueError(f"{part} must be a table; found {type(value).__name__}")
    if not all(map(_is_text, (name, *labels, *labels.values()))):
        raise ValueError("the name and the labels of a run must be texts; found another value")
    if summary is not None and summary.get("ended") not in ENDS:
        found = str(summary.get("ended"))[:60]
        raise ValueError(f"its summary must say how it ended, {' or '.join(ENDS)}; found {found!r}")
    if summary is not None and not _is_text(summary.get("reason") or ""):
        raise ValueError(f"the reason in its summary must be a text; found a {type(summary['reason']).__name__}")
    training = experiment.get("training", {})
    numbers = (training.get(key) for key in ("steps", "epochs")) if isinstance(training, dict) else [training]
    if not all(number is None or type(number) in (int, float) for number in numbers):
        raise ValueError(f"training must be a table whose steps and epochs are numbers; found {str(training)[:60]}")
    return RunResult(name, labels, experiment, records, summary, versions, agents)


def _is_text(value: Any) -> bool:
    """Whether the value is a text that can be encoded; JSON may hold lone surrogates, which cannot."""
    return isinstance(value, str) and not any("\ud800" <= character <= "\udfff" for character in value)


def _labels(folder: Path) -> dict[str, str]:
    path = folder / "cell.json"
    labels = atomic.read_json_object(path).get("labels") if path.exists() else None
    if not isinstance(labels, dict):
        found = "none" if path.exists() else "no such file"
        raise damaged(path, f"it must hold the labels of this cell; found {found}")
    return {str(axis): str(label) for axis, label in labels.items()}


def _packed_results(path: Path) -> list[RunResult]:
    results = []
    left = MAX_UNPACKED_SWEEP_BYTES
    with atomic.open_regular(path) as file, gzip.open(file) as lines:
        try:
            while line := lines.readline(MAX_CELL_BYTES):
                left -= len(line)
                if left < 0:
                    raise ValueError(f"a sweep must unpack to at most {MAX_UNPACKED_SWEEP_BYTES:,} bytes; found more")
                if not line.endswith(b"\n"):
                    raise ValueError(f"a run must be a line of at most {MAX_CELL_BYTES:,} bytes; found no end of it")
                cell = json.loads(line)
                cell["records"] = tuple(map(Record.from_json, cell["records"]))
                results.append(_checked_result(**cell))
        except (ValueError, KeyError, TypeError, EOFError, OSError, RecursionError) as error:
            raise damaged(f"{path}, line {len(results) + 1},", error) from None
    return results
