"""Printing of sentences on a terminal and into a pipe."""

from rich.console import Console


def printable(text: str) -> str:
    r"""The text with control characters, such as escape sequences, written as codes.

    >>> printable("red \x1b[31m")
    'red \\x1b[31m'
    """
    return "".join(c if c.isprintable() or c == "\n" else c.encode("unicode_escape").decode("ascii") for c in text)


def say(console: Console, sentence: str) -> None:
    """Print a sentence without markup: wrapped between words on a terminal, on one line elsewhere."""
    console.print(printable(sentence), highlight=False, markup=False, soft_wrap=not console.is_terminal)
