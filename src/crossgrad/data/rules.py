"""Partition rules by name, and what a user may pass for one."""

from typing import Any

from crossgrad._registry.entries import as_class_or_function
from crossgrad._registry.registry import HOW_TO_ADD, Registry
from crossgrad.data.dirichlet import Dirichlet, LabelAndQuantity
from crossgrad.data.known_partitions import Given
from crossgrad.data.partition import Partition, PartitionRule
from crossgrad.data.strategies import IID, ByClass, LabelQuantity, Shards

GIVEN = ("labels", "agents", "seed", "classes")  # what a rule is called with

_BUILT_IN: dict[str, type[PartitionRule]] = {
    "iid": IID,
    "class": ByClass,
    "shards": Shards,
    "dirichlet": Dirichlet,
    "label-quantity": LabelQuantity,
    "label-and-quantity": LabelAndQuantity,
}


def _as_partition(returned: Any) -> Partition:
    return returned if isinstance(returned, Partition) else Partition(tuple(returned))


PARTITIONS: Registry[type[PartitionRule]] = Registry(
    "partition",
    _BUILT_IN,
    lambda name, thing: as_class_or_function("partition", name, thing, "__call__", GIVEN, _as_partition),
)


def as_rule(value: Any) -> PartitionRule:
    """Turn what a user passed into a partition rule.

    Args:
        value: a rule; its name, such as "iid"; a Partition; one list of sample indices per agent; or None: IID.

    Raises:
        ValueError: it is none of these.
    """
    if value is None:
        return IID()
    if isinstance(value, str):
        if value not in PARTITIONS:
            valid = ", ".join(sorted(PARTITIONS.names()))
            raise ValueError(f"there is no partition {value!r}. Choose one of {valid}. {HOW_TO_ADD}")
        return PARTITIONS[value]()
    if isinstance(value, type):
        value = value()
    if isinstance(value, Partition):
        return Given(value)
    if isinstance(value, list | tuple):
        return Given(Partition(tuple(value)))
    if not callable(value):
        raise ValueError(
            f"partition must be a rule such as crossgrad.IID(), its name, or one list of sample indices per agent; "
            f"found a {type(value).__name__}."
        )
    rule: PartitionRule = value
    return rule
