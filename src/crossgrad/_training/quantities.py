"""The quantities in a run's records besides those that all records have: their names and labels."""

from collections.abc import Iterable
from typing import Any

from crossgrad.algorithms.api import Algorithm, diagnostics_of
from crossgrad.graphs.faults import SHARES
from crossgrad.records.quantity import Quantity
from crossgrad.records.record import QUANTITIES, Record
from crossgrad.tasks import Metric

VALIDATION_LOSS = Quantity(
    "validation_loss", "loss of the averaged model on validation data", "validation loss", log=True, in_table=True
)
VALIDATION_ACCURACIES = tuple(
    Quantity(name, f"accuracy of the {whose} on all validation data", "validation accuracy", percent=True)
    for name, whose in {
        "validation_accuracy": "averaged model",
        "validation_mean_agent": "mean agent",
        "validation_worst_agent": "worst agent",
    }.items()
)
EPSILON = Quantity("epsilon", "privacy loss of the most used sample", "epsilon", diagnostic=True)
OWN_SUFFIX = "_own"  # ends the names of metrics on the agents' own test data


def quantities_of(metrics: Iterable[Metric], algorithm: Algorithm[Any], own_data: bool) -> tuple[Quantity, ...]:
    """The quantities that a task's metrics, an algorithm's diagnostics, faults and validation data add to the records.

    Raises:
        ValueError: two of them have one name, or a name is not a Python identifier.
    """
    found = []
    for metric in metrics:
        if metric.rank == 0:
            found += _of_metric(metric, "") if metric.name != "accuracy" else []
            found += _of_metric(metric, OWN_SUFFIX) if own_data else []
    reported = [Quantity(one.name, one.description, diagnostic=True) for one in diagnostics_of(algorithm)]
    shares = [Quantity(name, label, diagnostic=True) for name, label in SHARES.items()]
    found += [*reported, *shares]
    found += [VALIDATION_LOSS, *VALIDATION_ACCURACIES, EPSILON]
    names = [quantity.name for quantity in found]
    taken = {quantity.name for quantity in QUANTITIES} | set(Record.__dataclass_fields__) - {"class_accuracy"}
    for number, name in enumerate(names):
        if name in taken or name in names[:number]:
            raise ValueError(f"metrics and diagnostics need names of their own; {name!r} is taken. Rename it.")
        if not name.isidentifier():
            raise ValueError(f"metrics and diagnostics are named like Python variables; one is {name!r}. Rename it.")
    return tuple(found)


def _of_metric(metric: Metric, ending: str) -> list[Quantity]:
    where = " on the agents' own test data" if ending else ""
    whose = {"": "averaged model", "_mean_agent": "mean agent", "_worst_agent": "worst agent"}
    return [
        Quantity(
            f"{metric.name}{ending}{end}",
            f"{metric.label} of the {who}{where}",
            f"{metric.label}, own data" if ending else metric.label,
            percent=metric.percent,
            in_table=True,
        )
        for end, who in whose.items()
    ]
