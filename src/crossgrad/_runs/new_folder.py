"""A new folder for a run, named after the experiment and the time."""

import re
from datetime import datetime
from pathlib import Path

MAX_RUN_NAME_CHARACTERS = 100  # of an experiment's name, in the name of its folder


def make_folder(parent: str | Path, name: str) -> Path:
    """Make a new folder under `parent`, named after `name` and the time; existing ones are not touched."""
    parent = Path(parent)
    word = re.sub(r"[^A-Za-z0-9._-]+", "-", name[:MAX_RUN_NAME_CHARACTERS]).strip("-.") or "run"
    stem = f"{datetime.now():%Y-%m-%d_%H-%M-%S}-{word}"
    try:
        parent.mkdir(parents=True, exist_ok=True)
        for count in range(1, 1000):
            folder = parent / (stem if count == 1 else f"{stem}-{count}")
            try:
                folder.mkdir()
                return folder
            except FileExistsError:
                continue
    except (FileExistsError, NotADirectoryError):
        raise ValueError(f"--out must name a folder; {parent} is a file. Name another, such as --out runs.") from None
    except OSError as error:
        raise ValueError(
            f"--out must name a folder to write to; {parent}: {error.strerror}. Name another folder."
        ) from None
    raise ValueError(
        f"a run needs a new folder; there are 1000 called {stem} in {parent} already. Name another with --out."
    )
