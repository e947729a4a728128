"""Sentences on a terminal, and in a pipe."""

from rich.console import Console


def printable(text: str) -> str:
    r"""The text with what a terminal would obey, such as escape sequences, written as codes.

    >>> printable("red \x1b[31m")
    'red \\x1b[31m'
    """
    return "".join(c if c.isprintable() or c == "\n" else c.encode("unicode_escape").decode("ascii") for c in text)


def say(console: Console, sentence: str) -> None:
    """Print a sentence as it is: broken between words on a terminal, on one line elsewhere."""
    console.print(printable(sentence), highlight=False, markup=False, soft_wrap=not console.is_terminal)
