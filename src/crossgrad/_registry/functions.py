"""A function as an entry of a registry: its further parameters become options in experiment files."""

import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import field, fields, make_dataclass
from typing import Any, get_type_hints

from crossgrad._registry.registry import REGISTRIES


def options_class(
    kind: str,
    name: str,
    function: Callable[..., Any],
    method: str,
    given: Sequence[str],
    result: Callable[[Any], Any],
    hidden: Sequence[str] = (),
) -> type:
    """A frozen dataclass whose fields are the function's options, and whose `method` calls it.

    Args:
        kind: of the registry that the class is for.
        name: under which it is registered there.
        function: a function, or a class such as an `nn.Module`.
        method: name of the method.
        given: what the method is called with, in this order. The function gets those of them that it has parameters
            for, by name; its other parameters are options.
        result: from what the function returns to what the method must return.
        hidden: parameters that are no options and keep their defaults.

    Raises:
        ValueError: the function takes any number of arguments, so that its options have no names.
    """
    parameters = _parameters(kind, name, function)
    wanted = [one for one in given if one in parameters]
    hints = _hints(function)
    options = [
        (own, _type(own, p, hints), field() if p.default is p.empty else field(default=_tuple_for_list(p.default)))
        for own, p in parameters.items()
        if own not in given and own not in hidden
    ]

    def call(self: Any, *values: Any, **named: Any) -> Any:
        there = dict(zip(given, values, strict=False)) | named
        own = {option.name: getattr(self, option.name) for option in fields(self)}
        return result(function(**{key: there[key] for key in wanted}, **own))

    def reduce(self: Any) -> Any:
        return _from_registry, (kind, name, {option.name: getattr(self, option.name) for option in fields(self)})

    body = {method: call, "__reduce__": reduce, "__doc__": inspect.getdoc(function) or "", "__module__": __name__}
    named = getattr(function, "__name__", type(function).__name__)
    return make_dataclass(named, options, frozen=True, kw_only=True, namespace=body)


def _from_registry(kind: str, name: str, options: Mapping[str, Any]) -> Any:
    """Unpickle an instance: its class is that of this process's registry."""
    return REGISTRIES[kind][name](**options)


def _parameters(kind: str, name: str, function: Callable[..., Any]) -> dict[str, inspect.Parameter]:
    parameters = dict(inspect.signature(function).parameters)
    for p in parameters.values():
        if p.kind in (p.VAR_POSITIONAL, p.VAR_KEYWORD, p.POSITIONAL_ONLY):
            raise ValueError(
                f"the options of the {kind} {name!r} are its parameters, so each needs a name; found {p}. Write "
                "them out."
            )
    return parameters


def _hints(function: Callable[..., Any]) -> dict[str, Any]:
    try:
        return get_type_hints(inspect.getattr_static(function, "__init__") if isinstance(function, type) else function)
    except (NameError, TypeError, AttributeError):  # written for type checkers only
        return {}


def _type(name: str, p: inspect.Parameter, hints: Mapping[str, Any]) -> Any:
    """Its annotation, else the type of its default."""
    if name in hints:
        return hints[name]
    return Any if p.default is p.empty or p.default is None else type(p.default)


def _tuple_for_list(value: Any) -> Any:
    return tuple(value) if isinstance(value, list) else value
