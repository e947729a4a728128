"""Where data sets are looked for: a folder that is passed, $CROSSGRAD_DATA, the user's cache."""

import difflib
import os
import sys
from pathlib import Path

from crossgrad.data.files.cifar import LAYOUTS as CIFAR_LAYOUTS

DATA_VARIABLE = "CROSSGRAD_DATA"


def _idx(name: str, rank: int) -> tuple[str, ...]:
    return (f"{name}-idx{rank}-ubyte.gz", f"{name}-idx{rank}-ubyte", f"{name}.idx{rank}-ubyte")


# In MNIST's order: training images and labels, test images and labels.
MNIST_FILES = (
    _idx("train-images", 3),
    _idx("train-labels", 1),
    _idx("t10k-images", 3),
    _idx("t10k-labels", 1),
)

# A folder holds the data set if, of each group, at least one name exists.
NEEDED: dict[str, tuple[tuple[str, ...], ...]] = {
    "mnist": MNIST_FILES,
    "fashion-mnist": MNIST_FILES,
    "cifar10": (CIFAR_LAYOUTS,),
}


def cache_folder() -> Path | None:
    """The user's cache for crossgrad, or None where the user has no home."""
    variable = "LOCALAPPDATA" if sys.platform == "win32" else "XDG_CACHE_HOME"
    base = Path(os.environ.get(variable, ""))
    if base.is_absolute():  # the XDG specification says to ignore a relative one
        return base / "crossgrad"
    try:
        return Path.home() / ".cache" / "crossgrad"
    except RuntimeError:
        return None


def home_expanded(path: str | Path) -> Path:
    """The path with ~ replaced; as it is where there is no such home."""
    try:
        return Path(path).expanduser()
    except RuntimeError:
        return Path(path)


def candidates(name: str, root: str | Path | None = None) -> list[Path]:
    """The folders where data set `name` may lie, best first: below `root`, $CROSSGRAD_DATA, the cache.

    The folder of that name comes before its parent, because MNIST and Fashion-MNIST have the same file names.

    Args:
        name: the name of the data set.
        root: the folder to look in first.
    """
    bases = [home_expanded(base) for base in (root, os.environ.get(DATA_VARIABLE)) if base]
    folders = [folder for base in bases for folder in (base / name, base)]
    cache = cache_folder()
    return folders if cache is None else [*folders, cache / name]


def find(name: str, root: str | Path | None = None) -> Path:
    """The first candidate that holds all of data set `name`.

    Args:
        name: the name of the data set.
        root: the folder to look in first.
    """
    groups = needed(name)
    looked = []
    for folder in candidates(name, root):
        if name == "cifar10" and folder.is_file():
            return folder
        lacking = [group[0] for group in groups if not any((folder / file).exists() for file in group)]
        if not lacking:
            return folder
        partly = len(lacking) < len(groups)
        looked.append(f"{folder} (which lacks {', '.join(lacking)})" if partly else str(folder))
    raise FileNotFoundError(
        f"the data set {name} must lie in one of the folders {', '.join(looked) or '(none)'}; it was not found. "
        f"Run `crossgrad data fetch {name}`, or point {DATA_VARIABLE} to the folder that holds it."
    )


def needed(name: str) -> tuple[tuple[str, ...], ...]:
    """The groups of files that make data set `name`, of each group one."""
    if name == "digits":
        raise ValueError(
            "a data set with files was expected; digits has none, as it comes with scikit-learn. Leave this out."
        )
    if name not in NEEDED:
        raise ValueError(unknown(name, [*NEEDED, "digits"]))
    return NEEDED[name]


def unknown(name: str, known: list[str]) -> str:
    """The sentence about an unknown data set."""
    close = difflib.get_close_matches(name, known, 1)
    hint = f"did you mean {close[0]}?" if close else f"choose one of {', '.join(sorted(known))}."
    return f"There is no data set {name!r}; {hint}"
