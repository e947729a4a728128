"""The types and bounds of a record's values, and sentences about values that are not valid."""

from collections.abc import Callable
from math import nan
from typing import Annotated, Any, Literal, get_args

from pydantic import Field, ValidationError, WrapValidator

MAX_COUNT = 2**63 - 1
MAX_ENTRIES = 1000  # of what is counted or measured by name

Status = Literal["ok", "nonfinite", "exploded", "collapsed"]
STATUSES: tuple[str, ...] = get_args(Status)


def _nan_of_null(value: Any, check: Callable[[Any], float]) -> float:
    return nan if value is None else check(value)


Count = Annotated[int, Field(strict=True, ge=0, le=MAX_COUNT)]
Finite = Annotated[float, Field(strict=True, allow_inf_nan=False)]
Number = Annotated[Finite, WrapValidator(_nan_of_null)]  # JSON has null for what is not finite
Numbers = tuple[Number, ...]
Named = Field(max_length=MAX_ENTRIES)

_A_COUNT, _A_NUMBER = f"a whole number from 0 to {MAX_COUNT}", "a finite number or null"
_AN_OBJECT = f"an object of at most {MAX_ENTRIES} fields"
_EXPECTED = {  # by pydantic's name of the fault
    "int_type": _A_COUNT,
    "greater_than_equal": _A_COUNT,
    "less_than_equal": _A_COUNT,
    "float_type": _A_NUMBER,
    "finite_number": _A_NUMBER,
    "tuple_type": "a list",
    "dict_type": _AN_OBJECT,
    "too_long": _AN_OBJECT,
    "dataclass_type": "an object",
    "literal_error": f"one of {', '.join(STATUSES)}",
}


def sentence(error: ValidationError) -> str:
    """What was wrong first, in one line."""
    fault = error.errors(include_url=False)[0]
    place = ".".join(
        str(part) if isinstance(part, int) or part.isidentifier() else value_in_words(part) for part in fault["loc"]
    )
    if fault["type"] == "unexpected_keyword_argument":
        return f"a record has certain fields only; found {value_in_words(fault['loc'][-1])}. Is it of this version?"
    if fault["type"] == "missing":
        return f"a record must have all fields; it lacks the field {place}. Is it one of this version?"
    expected = _EXPECTED.get(fault["type"], "as this version writes it")
    return f"{place[:200]} must be {expected}; found {value_in_words(fault['input'])}."


def value_in_words(value: Any) -> str:
    """The value in a few words, however large it is."""
    if isinstance(value, dict | list):
        return f"{'a list' if isinstance(value, list) else 'an object'} of {len(value)}"
    if isinstance(value, int) and abs(value) > MAX_COUNT:
        return f"a number of {value.bit_length()} bits"
    words = repr(value)
    return words if len(words) <= 60 else words[:57] + "..."
