"""`crossgrad pack`: the settings and records of a sweep in one small file."""

from pathlib import Path
from typing import Annotated

import typer

from crossgrad._cli.app import app, examples
from crossgrad._cli.options import SweepFolder

OTHER_FILES = ("grid.toml", "reproduction.json", "table.md")  # of a sweep's folder, besides its cells


@app.command(
    epilog=examples(
        "crossgrad pack sweeps/digits results/digits",
        "crossgrad pack reproductions/cifar10-cnn-digits /tmp/packed",
    )
)
def pack(
    folder: SweepFolder,
    out: Annotated[Path, typer.Argument(metavar="PACKED", help="A folder: new, empty, or one that has packed runs.")],
) -> None:
    """Write a sweep's settings and records, without its models, into one small file.

    Runs that were packed into the same folder before stay in it.
    """
    from rich.console import Console

    from crossgrad._cli.console import say
    from crossgrad._runs.results import PACKED, read_results, united
    from crossgrad._runs.results import pack_results as write_packed
    from crossgrad._storage import atomic

    damaged: dict[str, str] = {}
    results = read_results(folder, damaged)
    for name, reason in damaged.items():
        say(Console(stderr=True), f"Warning: {name} is left out: {reason}")
    kept = []
    if (out / PACKED).is_file():
        kept = read_results(out)
    elif out.exists() and any(out.iterdir()):
        raise ValueError(
            f"the folder to pack into must be new, empty or one that was packed into; {out} is not. Name another."
        )
    out.mkdir(parents=True, exist_ok=True)
    results = united(kept, results) if kept else results
    write_packed(results, out / PACKED)
    for name in OTHER_FILES:
        if (folder / name).exists() and folder.resolve() != out.resolve():
            with atomic.open_regular(folder / name, follow=False) as file:
                atomic.write(out / name, [file.read()])
    kilobytes = sum(path.stat().st_size for path in out.iterdir() if path.is_file()) / 1e3
    before = f", {len(kept)} of them from before" if kept else ""
    print(f"{len(results)} runs are packed in {out} ({kilobytes:.0f} kB){before}")
