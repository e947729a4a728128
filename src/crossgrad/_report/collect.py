"""The data of a page as plain values, thinned out so that the page does not become too large."""

import json
import math
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from crossgrad._report.plain import Plain, about, detail, looks, numbers_by_record, progress, text
from crossgrad._runs.results import RunResult
from crossgrad._storage import atomic
from crossgrad._storage.damage import damaged
from crossgrad.records.quantity import Quantity
from crossgrad.records.record import QUANTITIES

ROUND = Quantity("round", "communication rounds", axis=True)
SEED_LABEL = "seed"  # the label over which means are taken
CURVE_BYTES = 2_500_000  # of all curves together
POINT_BYTES = 120  # of one evaluation in them
MAX_SHOWN_FILE_BYTES = 1 << 20  # of a file that is shown as it is
ROW = ("split", "graph", "agents", "method", "variant", "paper", "averaged", "mean_agent", "worst_agent", "difference")
ROW_REST = ("spread", "epochs", "seeds", "status", "command")


def collect(folder: Path, results: Sequence[RunResult], budget: int, damaged: dict[str, str] | None = None) -> Plain:
    """Everything that the page shows, in about `budget` bytes of JSON.

    `every` in the result is the distance of the evaluations that are shown, `left_out` the number of runs without
    details.
    """
    reproduction = _reproduction(folder)
    kind = "reproduction" if reproduction else "run" if (folder / "experiment.toml").exists() else "sweep"
    points = max(2, CURVE_BYTES // (POINT_BYTES * max(1, len(results))))
    every = max(1, math.ceil(max((len(result.records) for result in results), default=1) / points))
    runs = [describe_run(result, every) for result in results]
    quantities = {one.name: one for one in (*QUANTITIES, ROUND)}
    for result in results:
        quantities |= result.quantities
    data: Plain = {
        "kind": kind,
        "folder": folder.resolve().name,
        "title": _title(kind, folder, results, reproduction),
        "axes": list(dict.fromkeys(axis for result in results for axis in result.labels if axis != SEED_LABEL)),
        "every": every,
        "grid": _text_beside(folder / "grid.toml"),
        "failed": _failed(folder, damaged or {}),
        "reproduction": reproduction,
        "runs": runs,
        "quantities": looks((run["curve"] for run in runs), quantities),
        "graphs": [],
        "left_out": 0,
    }
    _add_details(data, results, budget - len(dumps(data)), every)
    return data


def _failed(folder: Path, damaged: dict[str, str]) -> list[list[str]]:
    """Cells that could not be run or read, each with its reason."""
    reasons = {}
    for path in sorted(folder.glob("cells/*/failed.txt")):
        try:
            reasons[path.parent.name] = _text_beside(path)
        except (ValueError, OSError) as error:
            reasons[path.parent.name] = str(error)
    return [[name, reason] for name, reason in (reasons | damaged).items()]


def dumps(data: Any) -> str:
    """Short JSON, escaped so that it can stand inside an HTML page."""
    plain = json.dumps(data, separators=(",", ":"), allow_nan=False)
    return plain.replace("&", "\\u0026").replace("<", "\\u003c").replace(">", "\\u003e")


def _add_details(data: Plain, results: Sequence[RunResult], left: int, every: int) -> None:
    """Add agents, classes and settings to runs until `left` bytes are used up, first seeds first."""
    numbers: dict[str, int] = {}
    order = _first_seeds_first(results)
    for done, number in enumerate(order):
        details, graph = detail(results[number], every)
        key = json.dumps(graph)
        size = len(dumps(details)) + (0 if key in numbers else len(key))
        if size > left:
            data["left_out"] = len(order) - done
            return
        if graph is not None and key not in numbers:
            numbers[key] = len(numbers)
            data["graphs"].append(graph)
        data["runs"][number]["detail"] = details | {"graph": numbers.get(key)}
        left -= size


def _first_seeds_first(results: Sequence[RunResult]) -> list[int]:
    seen: Counter[frozenset[tuple[str, str]]] = Counter()
    ranks = []
    for number, result in enumerate(results):
        key = frozenset(item for item in result.labels.items() if item[0] != SEED_LABEL)
        ranks.append((seen[key], number))
        seen[key] += 1
    return [number for _, number in sorted(ranks)]


def describe_run(result: RunResult, every: int) -> Plain:
    """What the page shows of a run without its details: labels, settings, how it ended and its curves."""
    return {
        "name": result.name,
        "labels": result.labels,
        "about": about(result.experiment),
        "ended": result.ended,
        "reason": text((result.summary or {}).get("reason")),
        "progress": progress(result),
        "curve": numbers_by_record(result, every),
        "detail": None,
    }


def _title(kind: str, folder: Path, results: Sequence[RunResult], reproduction: Plain | None) -> str:
    if reproduction and reproduction["title"]:
        return str(reproduction["title"])
    name = results[0].experiment.get("name") if kind == "run" else None
    return text(name) or folder.resolve().name


def _reproduction(folder: Path) -> Plain | None:
    """The rows of a reproduction's table; empty where there is none."""
    found = _beside(folder, "reproduction.json")
    if found is None:
        return None
    rows = found.get("rows", [])
    if not isinstance(rows, list) or not all(isinstance(row, dict) for row in rows):
        raise damaged(folder / "reproduction.json", "its rows must be a list of objects; found something else")
    names = ROW + ROW_REST
    return {name: text(found.get(name)) for name in ("title", "table", "scale", "note")} | {
        "rows": [{name: _json_value(row.get(name)) for name in names} for row in rows]
    }


def _beside(folder: Path, name: str) -> Plain | None:
    path = folder / name
    return atomic.read_json_object(path) if path.exists() else None


def _text_beside(path: Path) -> str:
    """The text of a file, or none where there is no file."""
    if not path.exists():
        return ""
    with atomic.open_regular(path, follow=False) as file:
        return file.read(MAX_SHOWN_FILE_BYTES).decode("utf-8", errors="replace")


def _json_value(value: Any) -> str | float | None:
    if value is None or isinstance(value, str):
        return value
    finite = isinstance(value, int | float) and math.isfinite(value)
    return value if finite else str(value)
