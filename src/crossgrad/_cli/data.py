"""`crossgrad data`: fetch data sets, and see where they are looked for."""

import sys
from pathlib import Path

from rich.progress import BarColumn, DownloadColumn, Progress, TaskID, TextColumn, TimeRemainingColumn

from crossgrad.data.files.fetch import fetch
from crossgrad.data.files.folders import NEEDED, candidates, find
from crossgrad.experiments.config import ConfigError, nearest


def fetch_data(name: str, into: Path | None) -> None:
    """Download with a bar on a terminal, and a line for each file elsewhere."""
    if name not in NEEDED:
        find(name)  # says why not
    if not sys.stdout.isatty():
        seen: set[str] = set()

        def plain(file: str, done: int, total: int | None) -> None:
            if file not in seen:
                seen.add(file)
                print(f"{file}: {total or '?'} bytes", flush=True)

        print(f"{name} is in {fetch(name, into, plain)}")
        return
    columns = (TextColumn("{task.description}"), BarColumn(), DownloadColumn(), TimeRemainingColumn())
    with Progress(*columns) as bar:
        tasks: dict[str, TaskID] = {}

        def live(file: str, done: int, total: int | None) -> None:
            if file not in tasks:
                tasks[file] = bar.add_task(file)
            bar.update(tasks[file], completed=done, total=total)

        folder = fetch(name, into, live)
    print(f"{name} is in {folder}")


def show_where(name: str | None, root: Path | None) -> None:
    """Print the folders that are looked in, and whether the data is there."""
    if name is not None and name not in (*NEEDED, "digits"):
        raise ConfigError(f"there is no data set {name!r}. {nearest(name, [*NEEDED, 'digits'])}")
    for each in (*NEEDED, "digits") if name is None else (name,):
        if each == "digits":
            print("digits: comes with scikit-learn")
            continue
        try:
            print(f"{each}: found in {find(each, root)}")
        except FileNotFoundError:
            print(f"{each}: not found; looked in {', '.join(map(str, candidates(each, root)))}")
            print(f"    get it with: crossgrad data fetch {each}")
