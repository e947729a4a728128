"""`crossgrad data fetch` and `crossgrad data where`: download data sets, and show where they are looked for."""

import sys
from pathlib import Path
from typing import Annotated

import typer

from crossgrad._cli.app import app, examples

data_app = typer.Typer(
    no_args_is_help=True,
    help="Download data sets, or show where they are looked for.",
    epilog=examples("crossgrad data where", "crossgrad data fetch mnist"),
)
app.add_typer(data_app, name="data")


@data_app.command(epilog=examples("crossgrad data fetch mnist", "crossgrad data fetch cifar10 --into /data/cifar10"))
def fetch(
    name: Annotated[str, typer.Argument(help="mnist, fashion-mnist or cifar10.")],
    into: Annotated[
        Path | None, typer.Option(metavar="DIR", help="The folder to download into; default: the user's cache.")
    ] = None,
) -> None:
    """Download a data set and check its published checksum. An interrupted download starts from the beginning."""
    from rich.progress import BarColumn, DownloadColumn, Progress, TaskID, TextColumn, TimeRemainingColumn

    from crossgrad.data.files.fetch import fetch as download
    from crossgrad.data.files.folders import NEEDED, find

    if name not in NEEDED:
        find(name)  # raises the right error
    if not sys.stdout.isatty():
        seen: set[str] = set()

        def line(file: str, done: int, total: int | None) -> None:
            if file not in seen:
                seen.add(file)
                print(f"{file}: {total or '?'} bytes", flush=True)

        print(f"{name} is in {download(name, into, line)}")
        return
    columns = (TextColumn("{task.description}"), BarColumn(), DownloadColumn(), TimeRemainingColumn())
    with Progress(*columns) as bar:
        tasks: dict[str, TaskID] = {}

        def live(file: str, done: int, total: int | None) -> None:
            if file not in tasks:
                tasks[file] = bar.add_task(file)
            bar.update(tasks[file], completed=done, total=total)

        folder = download(name, into, live)
    print(f"{name} is in {folder}")


@data_app.command(epilog=examples("crossgrad data where", "crossgrad data where mnist"))
def where(
    name: Annotated[str | None, typer.Argument(help="A data set; default: all of them.")] = None,
    root: Annotated[Path | None, typer.Option(metavar="DIR", help="A folder to look in first.")] = None,
) -> None:
    """Show in which folders data sets are looked for, and which are there."""
    from crossgrad.data.files.folders import NEEDED, candidates, find
    from crossgrad.experiments.config import ConfigError, nearest

    known = (*NEEDED, "digits")
    if name is not None and name not in known:
        raise ConfigError(f"there is no data set {name!r}. {nearest(name, known)}")
    for each in known if name is None else (name,):
        if each == "digits":
            print("digits: comes with scikit-learn")
            continue
        try:
            print(f"{each}: found in {find(each, root)}")
        except FileNotFoundError:
            print(f"{each}: not found; looked in {', '.join(map(str, candidates(each, root)))}")
            print(f"    get it with: crossgrad data fetch {each}")
