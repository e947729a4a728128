"""Durations and bandwidths as people write them: "20 ms", "100 Mbit/s"."""

import math
import re

SECONDS = {"s": 1.0, "ms": 1e-3, "us": 1e-6, "µs": 1e-6, "min": 60.0}
BYTES_PER_SECOND = {
    **{f"{prefix}bit/s": factor / 8 for prefix, factor in (("", 1.0), ("k", 1e3), ("M", 1e6), ("G", 1e9))},
    **{f"{prefix}B/s": factor for prefix, factor in (("", 1.0), ("k", 1e3), ("M", 1e6), ("G", 1e9))},
}


def seconds(text: str, name: str) -> float:
    """The seconds of a duration.

    Raises:
        ValueError: it is not written as a number with a unit, or is below 0.

    >>> seconds("20 ms", "latency")
    0.02
    """
    return _parsed_quantity(text, name, SECONDS, "20 ms")


def bytes_per_second(text: str, name: str) -> float:
    """The bytes per second of a bandwidth.

    Raises:
        ValueError: it is not written as a number with a unit, or is not above 0.

    >>> bytes_per_second("100 Mbit/s", "bandwidth")
    12500000.0
    """
    value = _parsed_quantity(text, name, BYTES_PER_SECOND, "100 Mbit/s")
    if not value > 0:
        raise ValueError(f"{name} must be above 0; found {text!r}.")
    return value


def _parsed_quantity(text: str, name: str, units: dict[str, float], example: str) -> float:
    found = re.fullmatch(r"\s*([0-9]+(?:\.[0-9]+)?(?:e[+-]?[0-9]{1,2})?)\s*(\S+)\s*", text[:100])
    value = float(found[1]) * units.get(found[2], math.nan) if found else math.nan
    if not math.isfinite(value):
        raise ValueError(
            f"{name} must be a number with one of the units {', '.join(units)}, such as {example!r}; found {text!r}."
        )
    return value
