"""How a number of the records is called and drawn, wherever it is shown."""

from collections.abc import Iterable
from dataclasses import asdict, dataclass
from typing import Any

from pydantic import ConfigDict, TypeAdapter, ValidationError

from crossgrad.records.values import value_in_words

MAX_QUANTITIES = 10_000  # of one run


@dataclass(frozen=True)
class Quantity:
    """A number that records have, or may have.

    Attributes:
        name: its name in JSON and SQL.
        label: in words, for lists and legends.
        short: for an axis; the label by default.
        unit: "B" for bytes.
        percent: whether it is a share, shown in percent.
        log: whether its axis is logarithmic at first.
        axis: whether others are drawn against it.
        in_table: whether tables of results have a column of it.
        diagnostic: whether it describes the algorithm rather than the result.
    """

    __pydantic_config__ = ConfigDict(extra="ignore", str_max_length=1000)

    name: str
    label: str
    short: str = ""
    unit: str = ""
    percent: bool = False
    log: bool = False
    axis: bool = False
    in_table: bool = False
    diagnostic: bool = False


def quantities_as_json(quantities: Iterable[Quantity]) -> list[dict[str, Any]]:
    """Plain values, without those that are as by default."""
    return [{key: value for key, value in asdict(one).items() if value not in ("", False)} for one in quantities]


def quantities_from_json(plain: Any) -> tuple[Quantity, ...]:
    """The quantities that `quantities_as_json` made these values from.

    >>> quantities_from_json([{"name": "loss", "label": "training loss", "log": True}])[0].log
    True
    """
    if not isinstance(plain, list) or len(plain) > MAX_QUANTITIES:
        raise ValueError(
            f"quantities must be a list of at most {MAX_QUANTITIES} objects; found {value_in_words(plain)}."
        )
    try:
        return _LIST.validate_python(plain)
    except ValidationError as error:
        where = ".".join(map(str, error.errors()[0]["loc"]))
        raise ValueError(
            f"quantities must have a name and a label each; found another value at {where[:200]}."
        ) from None


_LIST = TypeAdapter(tuple[Quantity, ...])
