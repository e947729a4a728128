"""Sentences on a terminal, and in a pipe."""

from rich.console import Console


def say(console: Console, sentence: str) -> None:
    """Print a sentence as it is: broken between words on a terminal, on one line elsewhere."""
    console.print(sentence, highlight=False, markup=False, soft_wrap=not console.is_terminal)
