"""Progress in a notebook."""

import time
from typing import Any

SECONDS_BETWEEN = 0.2  # two updates
WIDTH = 30  # of the bar, in characters


class NotebookBar:
    """One line of text in a notebook that is written over; with the methods of rich's `Progress` that are used here.

    Rich's own bar needs the package ipywidgets in notebooks, and shows nothing but a warning without it.

    Args:
        total: how many steps there are.

    >>> bar = NotebookBar(total=4)
    >>> bar.completed, bar.description = 2, "loss 0.500"
    >>> bar.text()
    '███████████████                2/4  loss 0.500'
    """

    def __init__(self, total: int) -> None:
        self.total, self.completed, self.description = total, 0, ""
        self.handle: Any = None
        self.shown = 0.0

    def start(self) -> None:
        """Show the line."""
        from IPython.display import display

        self.handle = display(self._content(), raw=True, display_id=True)

    def update(self, completed: int | None = None, description: str | None = None) -> None:
        """Write over the line, unless it was written a moment ago."""
        self.completed = self.completed if completed is None else completed
        self.description = self.description if description is None else description
        if time.monotonic() > self.shown + SECONDS_BETWEEN:
            self._show()

    def stop(self) -> None:
        """Write the last state."""
        self._show()

    def text(self) -> str:
        """The line."""
        done = "█" * (WIDTH * self.completed // self.total)
        return f"{done:<{WIDTH}} {self.completed}/{self.total}  {self.description}"

    def _content(self) -> dict[str, str]:
        return {"text/plain": self.text()}

    def _show(self) -> None:
        self.shown = time.monotonic()
        if self.handle is not None:
            self.handle.update(self._content(), raw=True)
