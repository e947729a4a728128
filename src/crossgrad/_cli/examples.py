"""`crossgrad examples`: list, run or copy the examples that come with the package."""

import ast
import runpy
import shutil
import sys
from pathlib import Path
from typing import Annotated

import typer

import crossgrad
from crossgrad._cli.app import app, examples

PROCESSES = {"own_loop": 4}  # how many processes torchrun starts for an example


@app.command(
    "examples",
    epilog=examples("crossgrad examples", "crossgrad examples hospitals", "crossgrad examples hospitals --copy ."),
)
def show_examples(
    name: Annotated[str | None, typer.Argument(help="The example to run; without a name, all are listed.")] = None,
    copy: Annotated[
        Path | None,
        typer.Option("--copy", metavar="DIR", help="Copy the example (or all) into this folder instead of running it."),
    ] = None,
) -> None:
    """List the examples that come with the package, run one, or copy them."""
    known = known_examples()
    if name is not None and name not in known:
        raise ValueError(f"expected the name of an example; found {name!r}. Valid are: {', '.join(known)}.")
    if copy is not None:
        for path in known.values() if name is None else [known[name]]:
            print(_copied(path, copy))
    elif name is None:
        width = max(map(len, known))
        for one, path in known.items():
            print(f"{one:{width}}  {summary(path)}")
        print("`crossgrad examples NAME` runs one, `--copy DIR` copies it.")
    else:
        _run_example(name, known[name])


def known_examples() -> dict[str, Path]:
    """The files by name: those of the installed package, or of the source tree."""
    package = Path(crossgrad.__file__).parent
    folder = next((place for place in (package / "_examples", package.parents[1] / "examples") if place.is_dir()), None)
    if folder is None:
        raise ValueError(f"the examples must lie beside {package}; found none. Install the package again.")
    files = sorted(path for path in folder.iterdir() if path.suffix in (".py", ".toml"))
    return {path.stem: path for path in files}


def summary(path: Path) -> str:
    """What an example shows: the first line of its docstring or comment."""
    text = path.read_text(encoding="utf-8")
    if path.suffix == ".py":
        return (ast.get_docstring(ast.parse(text)) or "").partition("\n")[0]
    return text.partition("\n")[0].removeprefix("#").strip()


def _copied(path: Path, folder: Path) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    target = folder / path.name
    if target.exists():
        raise ValueError(
            f"--copy must name a new place; {target} exists already and is not overwritten. Name another folder."
        )
    return Path(shutil.copy(path, target))


def _run_example(name: str, path: Path) -> None:
    if path.suffix == ".toml":
        word = "sweep" if "[axes" in path.read_text(encoding="utf-8") else "run"
        sys.argv[1:] = [word, str(path)]
        app()
    elif name in PROCESSES:
        from crossgrad._processes.launcher import launch

        if status := launch(PROCESSES[name], [str(path)]).status:
            sys.exit(status)
    else:
        sys.argv[:] = [str(path)]
        runpy.run_path(str(path), run_name="__main__")
