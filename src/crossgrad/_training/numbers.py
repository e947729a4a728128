"""Options that must be a number, or yes or no."""

from numbers import Real
from typing import Any


def check_number(name: str, value: Any, optional: bool = False, hint: str = "") -> None:
    """Raise unless the value of this option is a number, or None where it may be left out.

    Args:
        name: of the option.
        value: what was passed for it.
        optional: whether it may be None.
        hint: a sentence about what to pass instead.
    """
    if value is None and optional:
        return
    if not isinstance(value, Real) or isinstance(value, bool):
        raise ValueError(f"{name} must be a number; found {value!r:.60}.{hint}")


def check_switch(name: str, value: Any) -> None:
    """Raise unless the value of this option is True or False."""
    if not isinstance(value, bool):
        raise ValueError(f"{name} must be True or False; found {value!r}.")
