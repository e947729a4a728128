"""Turns tables of a TOML file with a `name` into frozen dataclasses, checked field by field."""

import dataclasses
import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from difflib import get_close_matches
from types import NoneType, UnionType
from typing import Any, Union, get_args, get_origin, get_type_hints

from pydantic import ConfigDict, TypeAdapter, ValidationError

from crossgrad._registry.registry import HOW_TO_ADD, Registry

Choices = Mapping[str, Callable[..., Any]]  # a Registry, or a plain dict
ByType = Mapping[Any, Choices]  # what a field of this type is chosen from

MAX_SENTENCE_CHARACTERS = 800
MAX_LIST_VALUES = 4096  # of one setting, such as the sizes of hidden layers
MAX_INTEGER = 2**63 - 1  # TOML promises no more, and no count or seed needs more


class ConfigError(ValueError):
    """An error in a file: one sentence with the key and what it must be, short and printable whatever the file has."""

    def __init__(self, sentence: str) -> None:
        super().__init__(tidy(sentence))


def tidy(sentence: str) -> str:
    """A sentence on one line: unprintable characters are written as codes, and the middle of a long one is left out.

    >>> tidy("no\\nsuch key")
    'no\\\\nsuch key'
    """
    if len(sentence) > MAX_SENTENCE_CHARACTERS:
        sentence = f"{sentence[: MAX_SENTENCE_CHARACTERS // 2]} ... {sentence[-MAX_SENTENCE_CHARACTERS // 4 :]}"
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode("ascii") for c in sentence)


def nearest(word: str, valid: Any) -> str:
    """The end of an error message: the nearest valid word, and all valid words.

    >>> nearest("rign", ["ring", "star"])
    "Did you mean 'ring'? Valid are: ring, star."
    """
    words = sorted(map(str, valid))
    begun = [valid for valid in words if word and valid.startswith(word.lower())]
    close = begun or get_close_matches(word.lower(), words, n=1, cutoff=0.5)
    guess = f"Did you mean {close[0]!r}? " if close else ""
    return f"{guess}Valid are: {', '.join(words)}." if words else "It takes no options."


def choose(registry: Choices, choice: Any, key: str, nested: ByType) -> Any:
    """The object that a table (or just a name) describes.

    `registry` holds a class or a ready-made variant (a function without needed arguments) under each name; `nested`
    says for which types of fields the value is itself such a choice.
    """
    table = {"name": choice} if isinstance(choice, str) else choice
    if not isinstance(table, dict):
        raise ConfigError(f"{key} must be a name or a table with a name; found {choice!r}.")
    if "name" not in table:
        raise ConfigError(
            f"{key} must have a name; found none. Valid are: {', '.join(sorted(_names_of_choices(registry)))}."
        )
    name = table["name"]
    if not isinstance(name, str) or name not in registry:
        raise ConfigError(f"{key}.name: {unknown_name(registry, name)}")
    try:
        make = registry[name]
    except ValueError as error:  # a package that cannot be imported
        raise ConfigError(f"{key}: {error}") from None
    base = None if isinstance(make, type) else make()
    kind = make if isinstance(make, type) else type(base)
    options = fields_of(kind, {k: v for k, v in table.items() if k != "name"}, key, nested, name)
    try:
        return kind(**options) if base is None else dataclasses.replace(base, **options)
    except TypeError:
        missing = [f.name for f in dataclasses.fields(kind) if f.name not in options and _required(f)]
        example = ", ".join([f'name = "{name}"', *(f"{option} = ..." for option in missing)])
        raise ConfigError(
            f"{key}: {name} needs a value for {', '.join(missing)}; found none. Write {key} = {{ {example} }}."
        ) from None
    except ValueError as error:
        raise ConfigError(f"{key}: {error}") from None


def unknown_name(registry: Choices, name: Any) -> str:
    """The sentence about an unknown name: similar names, and how others are added."""
    how = f" {HOW_TO_ADD}" if isinstance(registry, Registry) else ""
    return f"there is no {name!r}. {nearest(str(name), _names_of_choices(registry))}{how}"


def _names_of_choices(registry: Choices) -> Iterable[str]:
    return registry.names() if isinstance(registry, Registry) else registry


def choices_of(hint: Any, nested: ByType) -> Choices | None:
    """The registry from which a field of this type is chosen by name; None if its value is a plain one.

    >>> choices_of(int | None, {int: {"one": int}})
    {'one': <class 'int'>}
    """
    union = get_args(hint) if get_origin(hint) in (Union, UnionType) else (hint,)
    parts = [part for part in union if part is not NoneType]
    return nested.get(get_origin(parts[0]) or parts[0]) if len(parts) == 1 else None


def fields_of(kind: type, table: Mapping[str, Any], key: str, nested: ByType, what: str) -> dict[str, Any]:
    """The table's values, each converted to the type of the dataclass field of its name."""
    hints = get_type_hints(kind)
    valid = [f.name for f in dataclasses.fields(kind) if f.metadata.get("in_files", True)]
    prefix = f"{key}." if key else ""
    values = {}
    for name, value in table.items():
        if name not in valid:
            raise ConfigError(f"{prefix}{name}: {what} has no key {name!r}. {nearest(name, valid)}")
        if (registry := choices_of(hints[name], nested)) is not None:
            values[name] = choose(registry, value, prefix + name, nested)
        else:
            values[name] = convert(hints[name], value, prefix + name)
    return values


def convert(kind: Any, value: Any, key: str) -> Any:
    """The value as this type, strictly: no number from a string, no integer from a truth value."""
    plain = _tuples(value)
    if (count := sum(1 for _ in _leaves(plain))) > MAX_LIST_VALUES:
        raise ConfigError(f"{key} must have at most {MAX_LIST_VALUES} values; found {count}.")
    for number in _leaves(plain):
        if isinstance(number, float) and not math.isfinite(number):
            raise ConfigError(f"{key} must be finite; found {value}.")
        if isinstance(number, int) and not -MAX_INTEGER <= number <= MAX_INTEGER:
            raise ConfigError(f"{key} must be at most {MAX_INTEGER}; found a number of {number.bit_length()} bits.")
    config = ConfigDict(strict=True, arbitrary_types_allowed=True)
    try:
        return TypeAdapter(kind, config=config).validate_python(plain)
    except ValidationError as error:
        expected = error.errors()[0]["msg"].removeprefix("Input should be ")
        expected = expected.replace("valid tuple", "valid list")  # TOML's word
        raise ConfigError(f"{key} must be {expected}; found {value!r}.") from None


def _tuples(value: Any) -> Any:
    """Turn TOML's lists into tuples, nested ones too."""
    return tuple(_tuples(part) for part in value) if isinstance(value, list) else value


def _leaves(value: Any) -> Iterator[Any]:
    if isinstance(value, tuple):
        for part in value:
            yield from _leaves(part)
    else:
        yield value


def registered_name(thing: Any, registry: Choices) -> str:
    """The name by which `choose` finds the class of this object."""
    name = next((name for name, make in registry.items() if type(thing) is make), None)
    if name is None:
        raise ConfigError(f"{thing!r} has no name to write it down by. {nearest(type(thing).__name__, registry)}")
    return name


def _required(field: "dataclasses.Field[Any]") -> bool:
    return field.default is dataclasses.MISSING and field.default_factory is dataclasses.MISSING
