"""What is measured at one evaluation of a run.

Every field is declared here and nowhere else: its type and bounds decide how JSON is read, its `Quantity` how SQL,
tables and the page call and draw it. What a task measures is in `metrics`, what an algorithm reports in `diagnostics`.
"""

from collections.abc import Callable
from dataclasses import asdict, dataclass, field, fields, replace
from math import isfinite
from typing import Annotated, Any, get_type_hints

from pydantic import ConfigDict, TypeAdapter, ValidationError

from crossgrad.records.quantity import Quantity
from crossgrad.records.values import (
    Count,
    Finite,
    Named,
    Number,
    Numbers,
    Status,
    sentence,
    value_in_words,
)


def _shown_as(label: str, short: str = "", **look: Any) -> Quantity:
    """How a field is shown; its name is the field's."""
    return Quantity("", label, short, **look)


def _later(default_factory: Callable[[], Any]) -> Any:
    """A field that records of older versions do not have."""
    return field(default_factory=default_factory, metadata={"later": True})


@dataclass(frozen=True)
class MetricValues:
    """One metric at one evaluation, of the averaged model and of the agents' own.

    On the common test set, `averaged` is one number. Where each agent has test data of its own, it is the mean of
    `averaged_on_each`, and `agents` are the agents' models each on its own data.

    Args:
        averaged: of the averaged model on the common test data.
        mean_agent: mean over the agents' own models.
        worst_agent: the worst of the agents' own models.
        agents: each agent's own.
        averaged_on_each: of the averaged model on each agent's own test data.
    """

    __pydantic_config__ = ConfigDict(extra="forbid")

    averaged: Finite | None
    mean_agent: Finite | None
    worst_agent: Finite | None
    agents: Numbers
    averaged_on_each: Numbers = ()


@dataclass(frozen=True)
class MetricTable:
    """A metric with a number for each class, or for each pair of classes: rows of numbers.

    Args:
        averaged: of the averaged model.
        agents: of each agent's own model; empty with many agents.
    """

    __pydantic_config__ = ConfigDict(extra="forbid")

    averaged: tuple[Numbers, ...]
    agents: tuple[tuple[Numbers, ...], ...] = ()  # where agents are not too many


@dataclass(frozen=True)
class Record:
    """One evaluation. Accuracies are shares (0 to 1) of the whole test set.

    Args:
        step: steps so far.
        epoch: epochs of the local data so far.
        lr: the step size.
        train_loss: mean over the agents of their own losses on the batches since the last evaluation.
        loss: loss of the averaged model on all agents' training data.
        test_loss: loss of the averaged model on the test data.
        accuracy: accuracy of the averaged model on the test data.
        agent_accuracy: accuracy of each agent's own model on the test data.
        consensus: root of the mean squared distance of the agents' models from their average.
        bytes_sent: bytes sent by all agents so far.
        bytes_by_kind: bytes sent so far, for each kind of message.
        bytes_by_agent: bytes sent so far, for each sender.
        gradients: gradients computed so far, by all agents.
        seconds: seconds of training so far, evaluations not included.
        status: ok, or how the run diverged.
        diagnostics: what the algorithm reports of its steps.
        class_accuracy: accuracy of the averaged model on each class, to four digits.
        agent_class_accuracy: of each agent's own model, where they are not too many.
        metrics: the other metrics, by name.
        metric_tables: metrics with several numbers each.
        simulated_seconds: the time at which the slowest agent has done its steps so far, on the links and machines that
            the experiment describes; None if it describes none.
    """

    __pydantic_config__ = ConfigDict(extra="forbid")

    step: Annotated[Count, _shown_as("steps", axis=True)]
    epoch: Annotated[Number, _shown_as("epochs of the agents' own data", axis=True)]
    lr: Annotated[Number, _shown_as("step size", log=True)]
    # The agents' own models on their own batches, mean since the last record.
    train_loss: Annotated[
        Finite | None, _shown_as("training loss of the agents on their own batches", "loss", log=True)
    ]
    # Over all agents' training data, or a sample of it where there is much.
    loss: Annotated[Number, _shown_as("loss of the averaged model on all training data", "loss", log=True)]
    test_loss: Annotated[Finite | None, _shown_as("loss of the averaged model on the test set", "loss", log=True)]
    accuracy: Annotated[
        Finite | None, _shown_as("accuracy of the averaged model", "accuracy", percent=True, in_table=True)
    ]
    agent_accuracy: Numbers  # of each agent's own model
    # Root mean square distance of the agents' models from their average.
    consensus: Annotated[Number, _shown_as("consensus distance of the agents' models", "distance", log=True)]
    bytes_sent: Annotated[Count, _shown_as("bytes sent by all agents", unit="B", axis=True)]
    bytes_by_kind: Annotated[dict[str, Count], Named]
    bytes_by_agent: tuple[Count, ...]
    # Cross-gradients included.
    gradients: Annotated[Count, _shown_as("gradients computed by all agents", axis=True)]
    seconds: Annotated[Number, _shown_as("seconds of training", axis=True)]
    status: Status = "ok"
    diagnostics: Annotated[dict[str, Number], Named] = field(default_factory=dict)
    class_accuracy: Numbers = _later(tuple)  # of the averaged model on each class, to four digits
    agent_class_accuracy: tuple[Numbers, ...] = _later(tuple)  # of each agent's own model, where they are not too many
    metrics: Annotated[dict[str, MetricValues], Named] = _later(dict)  # besides accuracy
    metric_tables: Annotated[dict[str, MetricTable], Named] = _later(dict)
    simulated_seconds: Annotated[
        Finite | None, _shown_as("simulated seconds on the links and machines", "simulated seconds", axis=True)
    ] = _later(lambda: None)

    @property
    def mean_agent(self) -> float | None:
        """Mean accuracy of the agents' own models."""
        return sum(self.agent_accuracy) / len(self.agent_accuracy) if self.agent_accuracy else None

    @property
    def worst_agent(self) -> float | None:
        """The worst agent's accuracy."""
        return min(self.agent_accuracy) if self.agent_accuracy else None

    def numbers(self) -> dict[str, float | None]:
        """Every single number of the record by the name of its quantity: a row of SQL, a point of each curve."""
        numbers: dict[str, float | None] = {one.name: getattr(self, one.name) for one in QUANTITIES}
        for name, values in self.metrics.items():
            numbers |= {name: values.averaged}
            numbers |= {f"{name}_mean_agent": values.mean_agent, f"{name}_worst_agent": values.worst_agent}
        return numbers | self.diagnostics

    def as_json(self) -> dict[str, Any]:
        """Plain values; what is not finite becomes null, which JSON cannot express."""
        plain = asdict(self) | {name: getattr(self, name) for name in DERIVED}
        return {name: _null_for_nonfinite(value) for name, value in plain.items()}

    @classmethod
    def from_json(cls, plain: Any) -> "Record":
        """The record that `as_json` made these values from; a null where a number must be was not finite.

        Raises:
            ValueError: something is missing, of another type or out of bounds; in a sentence.
        """
        if not isinstance(plain, dict):
            raise ValueError(
                f"a record must be an object with a field for each number; this is {value_in_words(plain)}."
            )
        always = {f.name for f in fields(cls) if not f.metadata.get("later")} | DERIVED.keys()
        if missing := sorted(always - plain.keys()):
            raise ValueError(
                f"a record must have all fields; it lacks the field {missing[0]!r}. Is it one of this version?"
            )
        values = dict(plain)
        derived = {name: values.pop(name) for name in DERIVED}  # they follow from the others
        try:
            _FINITE_BY_NAME.validate_python(derived)
            return _RECORD.validate_python(values)
        except ValidationError as error:
            raise ValueError(sentence(error)) from None


DERIVED = {
    "mean_agent": Quantity("mean_agent", "accuracy of the mean agent", "accuracy", percent=True, in_table=True),
    "worst_agent": Quantity("worst_agent", "accuracy of the worst agent", "accuracy", percent=True, in_table=True),
}
QUANTITIES: tuple[Quantity, ...] = (
    *(
        replace(mark, name=name)
        for name, kind in get_type_hints(Record, include_extras=True).items()
        for mark in getattr(kind, "__metadata__", ())
        if isinstance(mark, Quantity)
    ),
    *DERIVED.values(),
)

_RECORD = TypeAdapter(Record)
_FINITE_BY_NAME = TypeAdapter(dict[str, Finite | None])


def _null_for_nonfinite(value: Any) -> Any:
    if isinstance(value, float):
        return value if isfinite(value) else None
    if isinstance(value, dict):
        return {name: _null_for_nonfinite(part) for name, part in value.items()}
    if isinstance(value, list | tuple):
        return [_null_for_nonfinite(part) for part in value]
    return value
