"""What a plug-in may register, turned into an entry of a registry."""

from collections.abc import Callable, Sequence
from dataclasses import is_dataclass
from typing import Any

from crossgrad._registry.functions import options_class


def as_class(kind: str, name: str, thing: Any, members: Sequence[str]) -> Any:
    """A dataclass of hyper-parameters with these members, or a function without arguments that makes such an object.

    Raises:
        ValueError: it is neither.
    """
    made = thing() if callable(thing) and not isinstance(thing, type) else None
    kind_of_object = thing if isinstance(thing, type) else type(made)
    lacking = [member for member in members if not hasattr(kind_of_object, member)]
    if not callable(thing) or not is_dataclass(kind_of_object) or lacking:
        found = f"without {', '.join(lacking)}" if isinstance(thing, type) and lacking else f"{thing!r:.60}"
        raise ValueError(
            f"the {kind} {name!r} must be a frozen dataclass with {', '.join(members)}, or a function without "
            f"arguments that makes one; found {found}."
        )
    return thing


def as_class_or_function(
    kind: str,
    name: str,
    thing: Any,
    method: str,
    given: Sequence[str],
    result: Callable[[Any], Any] = lambda returned: returned,
) -> Any:
    """A dataclass with a method, as it is; of any other function or class, the dataclass of its options.

    Args:
        kind: of the registry.
        name: of the entry.
        thing: what was registered.
        method: that entries have.
        given: the names of what it is called with.
        result: from what a function returns to what the method must return.

    Raises:
        ValueError: it is neither class nor function.
    """
    if isinstance(thing, type) and is_dataclass(thing) and callable(getattr(thing, method, None)):
        return thing
    if not callable(thing):
        raise ValueError(
            f"the {kind} {name!r} must be a function of ({', '.join(given)}) and options, or a frozen dataclass with "
            f"the method {method}; found {thing!r:.60}."
        )
    return options_class(kind, name, thing, method, given, result)
