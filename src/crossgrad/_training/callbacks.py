"""Callbacks by name: functions of one's own that a run of an experiment file calls."""

import inspect
from collections.abc import Callable, Sequence
from typing import Any

from crossgrad._registry.registry import HOW_TO_ADD, Registry
from crossgrad.records.record import Record


class Callbacks:
    """Callbacks of a run: called after every step in each process, and with every record in the process that writes it.

    Args:
        made: objects with `on_step(training)`, `on_record(record)` or both.
    """

    def __init__(self, made: Sequence[Any] = ()) -> None:
        self.made = tuple(made)

    @classmethod
    def named(cls, names: Sequence[str]) -> "Callbacks":
        """The callbacks that are registered under these names.

        Raises:
            ValueError: there is none of that name.
        """
        for name in names:
            if name not in CALLBACKS:
                valid = ", ".join(sorted(CALLBACKS.names())) or "none so far"
                raise ValueError(f"callbacks: there is no {name!r}. Valid are: {valid}. {HOW_TO_ADD}")
        return cls([CALLBACKS[name]() for name in names])

    def step(self, training: Any) -> None:
        """A step was taken."""
        for one in self.made:
            if hasattr(one, "on_step"):
                one.on_step(training)

    def record(self, record: Record) -> None:
        """An evaluation was made."""
        for one in self.made:
            if hasattr(one, "on_record"):
                one.on_record(record)


class _OnRecord:
    """A function of records as a callback."""

    def __init__(self, function: Callable[[Record], Any]) -> None:
        self.on_record = function


def _as_callback(name: str, thing: Any) -> Callable[[], Any]:
    if isinstance(thing, type) and (hasattr(thing, "on_step") or hasattr(thing, "on_record")):
        return thing
    if isinstance(thing, type) or not callable(thing):
        raise ValueError(
            f"the callback {name!r} must be a function of a record, or a class with on_step(training), "
            f"on_record(record) or both; found {thing!r:.60}."
        )

    def make() -> Any:
        return _OnRecord(thing)

    make.__doc__ = inspect.getdoc(thing)
    return make


CALLBACKS: Registry[Callable[[], Any]] = Registry("callback", {}, _as_callback)
