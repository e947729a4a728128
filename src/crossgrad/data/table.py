"""Counts of agents and classes as a plain text table."""

import numpy as np
from numpy.typing import NDArray

MAX_CLASS_COLUMNS = 20  # more classes than these are listed in words instead
LISTED = 6


def as_table(counts: NDArray[np.int64]) -> str:
    """One line per agent: how many samples, and how many of which class; a dot where there is none.

    >>> print(as_table(np.array([[3, 0], [10, 2]])))
    agent  samples   0  1
        0        3   3  .
        1       12  10  2
      all       15  13  2
    """
    names = [*(str(agent) for agent in range(len(counts))), "all"]
    counts = np.vstack([counts, counts.sum(0)])
    heads = ["agent", "samples"]
    rows = [[name, str(row.sum())] for name, row in zip(names, counts, strict=True)]
    if counts.shape[1] <= MAX_CLASS_COLUMNS:
        heads += [str(label) for label in range(counts.shape[1])]
        for cells, row in zip(rows, counts, strict=True):
            cells += [str(count) if count else "." for count in row]
    widths = [max(map(len, column)) for column in zip(heads, *rows, strict=True)]
    lines = ["  ".join(f"{cell:>{width}}" for cell, width in zip(row, widths, strict=True)) for row in [heads, *rows]]
    if counts.shape[1] > MAX_CLASS_COLUMNS:
        said = ["classes (samples)", *(_largest_classes(row) for row in counts)]
        lines = [f"{line}  {words}" for line, words in zip(lines, said, strict=True)]
    return "\n".join(lines)


def _largest_classes(row: NDArray[np.int64]) -> str:
    held = np.argsort(-row, kind="stable")[: np.count_nonzero(row)]
    words = ", ".join(f"{label} ({row[label]})" for label in held[:LISTED])
    return words if len(held) <= LISTED else f"{words}, and {len(held) - LISTED} more"
