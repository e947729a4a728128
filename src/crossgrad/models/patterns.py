"""Parameters, buffers and modules by name, with * and ? as on the command line."""

from collections.abc import Sequence
from fnmatch import fnmatchcase


def matching(names: Sequence[str], patterns: Sequence[str], option: str, what: str) -> set[str]:
    """The names that match one of the patterns: "head", "head.weight", "*norm*"; that of a module stands for all in it.

    Args:
        names: of parameters and buffers, such as "head.weight".
        patterns: names, with * and ?.
        option: in which they were given, for the error message.
        what: the names are of, for the error message.

    Raises:
        ValueError: a pattern matches nothing.

    >>> sorted(matching(["body.weight", "head.bias", "head.weight"], ["head"], "personal", "parameters"))
    ['head.bias', 'head.weight']
    """
    found: set[str] = set()
    for pattern in [patterns] if isinstance(patterns, str) else patterns:
        matched = [name for name in names if fnmatchcase(name, pattern) or fnmatchcase(name, f"{pattern}.*")]
        if not matched:
            shown = ", ".join(names[:8]) + (", ..." if len(names) > 8 else "")
            raise ValueError(
                f"{option} must name {what} of the model, such as 'head' or '*norm*'; {pattern!r} matches none of "
                f"{shown}."
            )
        found.update(matched)
    return found
