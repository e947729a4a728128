"""One run in plain values of a few digits: its curves, and the details of its agents."""

import math
from collections.abc import Sequence
from typing import Any

import tomli_w

from crossgrad._report.drawing import positions, read_edges
from crossgrad._report.series import rounds
from crossgrad._runs.results import RunResult
from crossgrad.records.record import Record

Plain = dict[str, Any]

NAMED = ("algorithm", "graph", "partition", "data", "model", "schedule")


def text(value: Any) -> str:
    """A text, or an empty one where there is none."""
    return "" if value is None else str(value)


def thinned(records: Sequence[Record], every: int) -> list[Record]:
    """Every so many-th record, and the last."""
    return [record for number, record in enumerate(records) if number % every == 0 or number == len(records) - 1]


def about(experiment: Plain) -> dict[str, str]:
    """What was run, in a word for each choice."""
    words = {key: _name(experiment.get(key)) for key in NAMED}
    training = experiment.get("training")
    words |= {key: text(experiment.get(key)) for key in ("agents", "seed")}
    for key in ("batch_size", "steps", "epochs", "device"):
        words[key] = text(training.get(key)) if isinstance(training, dict) else ""
    return {key: word for key, word in words.items() if word}


def progress(result: RunResult) -> float:
    """The share of a run that is done, as of its newest record."""
    return round(result.progress, 3)


def curve(records: Sequence[Record]) -> dict[str, list[float | None]]:
    """Every quantity at every evaluation; accuracies in percent. What nobody measured is left out."""
    columns: dict[str, list[float | None]] = {
        "step": [record.step for record in records],
        "epoch": [_short(record.epoch) for record in records],
        "round": [rounds(record) for record in records],
        "bytes": [_short(record.bytes_sent, 6) for record in records],
        "gradients": [record.gradients for record in records],
        "seconds": [_short(record.seconds) for record in records],
        "accuracy": [percent(record.accuracy) for record in records],
        "mean_agent": [percent(record.mean_agent) for record in records],
        "worst_agent": [percent(record.worst_agent) for record in records],
        "train_loss": [_short(record.train_loss) for record in records],
        "loss": [_short(record.loss) for record in records],
        "test_loss": [_short(record.test_loss) for record in records],
        # All agents begin with one model: a distance measured there would be rounding.
        "consensus": [_short(record.consensus) if record.step else None for record in records],
        "lr": [_short(record.lr) for record in records],
    }
    for name in dict.fromkeys(name for record in records for name in record.diagnostics):
        # Before the first step there was no gradient that anybody could have looked at.
        values = [record.diagnostics.get(name) if record.step else None for record in records]
        columns[f"diagnostics.{name}"] = [_short(value) for value in values]
    return {name: column for name, column in columns.items() if any(value is not None for value in column)}


def detail(result: RunResult, every: int) -> tuple[Plain, Plain | None]:
    """What is shown of one run at a time; and its graph, which it may share with others."""
    records = thinned(result.records, every)
    agents = result.agents or {}
    holds = agents.get("classes", [])
    if not isinstance(holds, list) or not all(isinstance(row, list) and all(map(_counts, row)) for row in holds):
        raise ValueError(
            f"agents.json of {result.name} is damaged: its classes must be a list of counts for each agent."
        )
    details: Plain = {
        "each": [[percent(value, 1) for value in record.agent_accuracy] for record in records],
        "classes": [_packed(record.class_accuracy) for record in records],
        "heat": [[_packed(row) for row in record.agent_class_accuracy] for record in records],
        "holds": holds,
        "toml": tomli_w.dumps(result.experiment),
        "versions": {str(name): text(version) for name, version in result.versions.items()},
    }
    return details, _graph(agents, result.name) if agents else None


def percent(share: float | None, digits: int = 2) -> float | None:
    """A share as percent."""
    return None if share is None or not math.isfinite(share) else round(100 * share, digits)


def _graph(agents: Plain, name: str) -> Plain:
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
        "edges": [[receiver, sender, _short(weight)] for receiver, sender, weight in edges],
    }


def _name(value: Any) -> str:
    return text(value.get("name")) if isinstance(value, dict) else text(value)


def _counts(value: Any) -> bool:
    return type(value) is int and value >= 0


def _packed(shares: Sequence[float]) -> str:
    """Whole percents, each as two hexadecimal digits; `--` where there is none. They are most of a large page."""
    return "".join(f"{round(100 * share):02x}" if math.isfinite(share) else "--" for share in shares)


def _short(value: float | None, digits: int = 4) -> float | None:
    """A number of a few digits, whole where it is."""
    if value is None or not math.isfinite(value):
        return None
    short = float(f"{value:.{digits}g}")
    return int(short) if short.is_integer() and abs(short) < 2**53 else short
