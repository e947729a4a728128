"""A run as plain values of a few digits: its curves, and the details of its agents."""

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import tomli_w

from crossgrad._report.drawing import positions, read_edges
from crossgrad._report.series import rounds
from crossgrad._runs.results import RunResult
from crossgrad._storage.damage import damaged
from crossgrad.records.quantity import Quantity
from crossgrad.records.record import Record

Plain = dict[str, Any]

CHOICE_KEYS = ("algorithm", "graph", "partition", "data", "model", "schedule")


def text(value: Any) -> str:
    """A text, or an empty one where there is none."""
    return "" if value is None else str(value)


def thinned(records: Sequence[Record], every: int) -> list[Record]:
    """Every `every`-th record, and the last."""
    return [record for number, record in enumerate(records) if number % every == 0 or number == len(records) - 1]


def about(experiment: Plain) -> dict[str, str]:
    """The main settings of a run, in a word each."""
    words = {key: _name_as_text(experiment.get(key)) for key in CHOICE_KEYS}
    training = experiment.get("training")
    words |= {key: text(experiment.get(key)) for key in ("agents", "seed")}
    for key in ("batch_size", "steps", "epochs", "device"):
        words[key] = text(training.get(key)) if isinstance(training, dict) else ""
    schedule = experiment.get("schedule")
    if isinstance(schedule, dict) and "lr" in schedule:
        words["schedule"] += f", lr {text(schedule['lr'])}"
    return {key: word for key, word in words.items() if word}


def progress(result: RunResult) -> float:
    """The share of a run that is done, as of its newest record."""
    return round(result.progress, 3)


def numbers_by_record(result: RunResult, every: int) -> dict[str, list[float | None]]:
    """All numbers at every `every`-th evaluation; shares in percent. Quantities without a value are left out."""
    records, quantities = thinned(result.records, every), result.quantities
    rows = [{"round": rounds(result, record), **record.numbers()} for record in records]
    columns: dict[str, list[float | None]] = {}
    for name in dict.fromkeys(name for row in rows for name in row):
        known = quantities.get(name, Quantity(name, name))
        # All agents begin with one model, and before the first step there was no gradient: only rounding to be seen.
        late = known.diagnostic or name == "consensus"
        values = [None if late and not row["step"] else row.get(name) for row in rows]
        columns[name] = [percent(value) if known.percent else _rounded(value, known.unit) for value in values]
    return {name: column for name, column in columns.items() if any(value is not None for value in column)}


def _rounded(value: float | None, unit: str) -> float | None:
    """Counts as they are, other numbers to a few digits."""
    return value if isinstance(value, int) and not unit else _few_digits(value, 6 if unit else 4)


def looks(curves: Iterable[Mapping[str, Any]], quantities: Mapping[str, Quantity]) -> dict[str, Plain]:
    """Label and drawing style of each number that occurs, axes included."""
    occur = {name for curve in curves for name in curve}
    every = dict(quantities) | {
        name: Quantity(name, name.replace("_", " ")) for name in sorted(occur - quantities.keys())
    }
    return {name: _look(one) for name, one in every.items() if name in occur or one.axis}


def _look(one: Quantity) -> Plain:
    unit = " (%)" if one.percent else ""
    look = {"label": one.label + unit, "short": (one.short or one.label) + unit, "unit": one.unit}
    return look | {flag: getattr(one, flag) for flag in ("percent", "log", "axis", "in_table", "diagnostic")}


def detail(result: RunResult, every: int) -> tuple[Plain, Plain | None]:
    """The details of a run, which the page shows for one run at a time; and its graph, which runs may share."""
    records = thinned(result.records, every)
    agents = result.agents or {}
    holds = agents.get("classes", [])
    if not isinstance(holds, list) or not all(isinstance(row, list) and all(map(_counts, row)) for row in holds):
        raise damaged(
            f"agents.json of {result.name}", "its classes must be a list of counts for each agent; found others"
        )
    details: Plain = {
        "each": [[percent(value, 1) for value in record.agent_accuracy] for record in records],
        "classes": [_packed_shares(record.class_accuracy) for record in records],
        "heat": [[_packed_shares(row) for row in record.agent_class_accuracy] for record in records],
        "holds": holds,
        "toml": tomli_w.dumps(result.experiment),
        "versions": {str(name): text(version) for name, version in result.versions.items()},
    }
    return details, _plain_graph(agents, result.name) if agents else None


def percent(share: float | None, digits: int = 2) -> float | None:
    """A share as percent; None if it is not finite, as a share close to the largest number is not in percent."""
    return None if share is None or not math.isfinite(100 * share) else round(100 * share, digits)


def _plain_graph(agents: Plain, name: str) -> Plain:
    try:
        edges = read_edges(agents)
    except ValueError as error:
        raise ValueError(f"{name}: {error}") from None
    kind, links = text(agents.get("graph")), {(receiver, sender) for receiver, sender, _ in edges if receiver != sender}
    return {
        "name": kind,
        "agents": agents["agents"],
        "changes": bool(agents.get("changes")),
        "directed": any((sender, receiver) not in links for receiver, sender in links),
        "places": positions(agents["agents"], kind, edges) if edges else [],
        "edges": [[receiver, sender, _few_digits(weight)] for receiver, sender, weight in edges],
    }


def _name_as_text(value: Any) -> str:
    return text(value.get("name")) if isinstance(value, dict) else text(value)


def _counts(value: Any) -> bool:
    return type(value) is int and value >= 0


def _packed_shares(shares: Sequence[float]) -> str:
    """Whole percents as two hexadecimal digits each, `--` for none: short, as they take up most of a large page."""
    return "".join(f"{round(100 * share):02x}" if 0 <= share <= 1 else "--" for share in shares)


def _few_digits(value: float | None, digits: int = 4) -> float | None:
    """A number rounded to a few digits; a whole one as an int."""
    if value is None or not math.isfinite(value):
        return None
    short = float(f"{value:.{digits}g}")
    return int(short) if short.is_integer() and abs(short) < 2**53 else short
