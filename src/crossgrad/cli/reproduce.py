"""`crossgrad reproduce`: cells of the paper's tables, run and set beside the paper's numbers."""

import sys
from pathlib import Path

from crossgrad.cli.sweep import Means, run_cells
from crossgrad.reproduction import Choice, grid, tables


def reproduce(choice: Choice, out: Path, means: Means) -> None:
    """Run the cells that have not been run, in a folder of their table."""
    cells = grid(choice)
    folder = out / choice.name
    folder.mkdir(parents=True, exist_ok=True)
    complete = run_cells(folder, cells, means)
    print(f"Results: {folder}")
    if not complete:
        sys.exit(1)


def list_all() -> None:
    """Say which tables there are."""
    for table in tables():
        print(table)
