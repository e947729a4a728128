"""What is measured at one evaluation of a run."""

import sys
from dataclasses import asdict, dataclass, field, fields
from math import isfinite, nan
from typing import Any

LARGEST = 2**63 - 1  # of a count
MOST = sys.float_info.max
MOST_ENTRIES = 1000  # of what is counted or measured by name
STATUSES = ("ok", "nonfinite", "exploded", "collapsed")


@dataclass(frozen=True)
class Record:
    """One evaluation. Accuracies are shares (0 to 1) of the whole test set."""

    step: int
    epoch: float  # of the local data
    lr: float
    train_loss: float | None  # the agents' own models on their own batches, mean since the last record
    loss: float  # of the averaged model, over all agents' training data (a sample of it where there is much)
    test_loss: float | None  # of the averaged model
    accuracy: float | None  # of the averaged model
    agent_accuracy: tuple[float, ...]  # of each agent's own model
    consensus: float  # root mean square distance of the agents' models from their average
    bytes_sent: int
    bytes_by_kind: dict[str, int]
    bytes_by_agent: tuple[int, ...]
    gradients: int  # gradient evaluations of all agents, cross-gradients included
    seconds: float
    status: str = "ok"  # one of STATUSES
    diagnostics: dict[str, float] = field(default_factory=dict)
    class_accuracy: tuple[float, ...] = ()  # of the averaged model on each class, to four digits
    agent_class_accuracy: tuple[tuple[float, ...], ...] = ()  # of each agent's own model, where agents are not too many

    @property
    def mean_agent(self) -> float | None:
        """Mean accuracy of the agents' own models."""
        return sum(self.agent_accuracy) / len(self.agent_accuracy) if self.agent_accuracy else None

    @property
    def worst_agent(self) -> float | None:
        """The worst agent's accuracy."""
        return min(self.agent_accuracy) if self.agent_accuracy else None

    def as_json(self) -> dict[str, Any]:
        """Plain values; what is not finite becomes null, as JSON has no word for it."""
        plain = asdict(self) | {"mean_agent": self.mean_agent, "worst_agent": self.worst_agent}
        return {name: _finite(value) for name, value in plain.items()}

    @classmethod
    def from_json(cls, plain: Any) -> "Record":
        """The record that `as_json` made these values from; a null where a number must be was not finite."""
        if not isinstance(plain, dict):
            raise ValueError(f"a record is an object with a field for each number, but this is {_shown(plain)}.")
        expected = {f.name for f in fields(cls)} | {"mean_agent", "worst_agent"}
        older: dict[str, Any] = {name: [] for name in ("class_accuracy", "agent_class_accuracy") if name not in plain}
        plain = older | plain
        if unlike := sorted(expected ^ plain.keys()):
            fault = "lacks" if unlike[0] in expected else "should not have"
            raise ValueError(f"a record {fault} the field {_shown(unlike[0])}; is it one of this version?")
        values: dict[str, Any] = {}
        for name in ("step", "bytes_sent", "gradients"):
            values[name] = _count(name, plain[name])
        for name in ("epoch", "lr", "loss", "consensus", "seconds"):
            values[name] = _number(name, plain[name])
        for name in ("train_loss", "test_loss", "accuracy", "mean_agent", "worst_agent"):
            values[name] = None if plain[name] is None else _number(name, plain[name])
        for name, kind, convert in (
            ("agent_accuracy", list, _number),
            ("bytes_by_agent", list, _count),
            ("class_accuracy", list, _number),
            ("agent_class_accuracy", list, _numbers),
            ("bytes_by_kind", dict, _count),
            ("diagnostics", dict, _number),
        ):
            part = plain[name]
            if not isinstance(part, kind) or (kind is dict and len(part) > MOST_ENTRIES):
                what = "a list" if kind is list else f"an object of at most {MOST_ENTRIES} fields"
                raise ValueError(f"{name} should be {what}, but is {_shown(part)}.")
            if isinstance(part, dict):
                values[name] = {key: convert(name, value) for key, value in part.items()}
            else:
                values[name] = tuple(convert(name, value) for value in part)
        if plain["status"] not in STATUSES:
            raise ValueError(f"status should be one of {', '.join(STATUSES)}, but is {_shown(plain['status'])}.")
        del values["mean_agent"], values["worst_agent"]  # they follow from agent_accuracy
        return cls(**values, status=plain["status"])


def _count(name: str, value: Any) -> int:
    if type(value) is not int or not 0 <= value <= LARGEST:
        raise ValueError(f"{name} should be a whole number from 0 to {LARGEST}, but is {_shown(value)}.")
    return value


def _number(name: str, value: Any) -> float:
    if value is None:
        return nan
    if type(value) not in (int, float) or not abs(value) <= MOST:
        raise ValueError(f"{name} should be a finite number or null, but is {_shown(value)}.")
    return float(value)


def _numbers(name: str, value: Any) -> tuple[float, ...]:
    if not isinstance(value, list):
        raise ValueError(f"{name} should be a list of lists, but holds {_shown(value)}.")
    return tuple(_number(name, part) for part in value)


def _shown(value: Any) -> str:
    """The value in a few words, however large it is."""
    if isinstance(value, dict | list):
        return f"{'a list' if isinstance(value, list) else 'an object'} of {len(value)}"
    if isinstance(value, int) and abs(value) > LARGEST:
        return f"a number of {value.bit_length()} bits"
    words = repr(value)
    return words if len(words) <= 60 else words[:57] + "..."


def _finite(value: Any) -> Any:
    if isinstance(value, float):
        return value if isfinite(value) else None
    if isinstance(value, dict):
        return {name: _finite(part) for name, part in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(part) for part in value]
    return value
