"""Reads TOML files that may come from anywhere: their size, lines, keys and nesting are bounded."""

import datetime
import re
import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

from crossgrad.experiments.config import ConfigError

T = TypeVar("T")

MAX_EXPERIMENT_BYTES = 1 << 20  # of an experiment or a grid
MAX_LINE_CHARACTERS = 10_000  # of a TOML file
MAX_KEY_PARTS = 50  # of a dotted key, for instance 2 in `training.steps`
MAX_DEPTH = 50  # of tables and lists within one another
TOO_DEEP = f"tables and lists must be nested at most {MAX_DEPTH} deep; found more levels. Flatten them."
DATES = (datetime.date, datetime.time)  # and date with time, a subclass of date
TOML_STRING = re.compile(r'"(?:[^"\\\n]|\\.)*"|\'[^\'\n]*\'')


def read_text(path: Path, what: str) -> str:
    """Read the text of a short TOML file, such as an experiment; folders, devices and long files are refused."""
    try:
        if path.is_fifo():
            raise ConfigError(f"{path}: expected a TOML file; found a pipe. Write it into a file first.")
        with path.open("rb") as file:
            content = file.read(MAX_EXPERIMENT_BYTES + 1)  # bounded, as reading a device might never end
        if len(content) > MAX_EXPERIMENT_BYTES:
            raise ConfigError(
                f"{path}: {what} is a short TOML file; this one has over {MAX_EXPERIMENT_BYTES:,} bytes. Name another."
            )
        return content.decode("utf-8-sig")
    except FileNotFoundError:
        raise ConfigError(
            f"{path}: expected a TOML file; there is no such file. Ready ones lie in examples/."
        ) from None
    except IsADirectoryError:
        raise ConfigError(f"{path}: expected a TOML file; found a folder. Name a file in it.") from None
    except UnicodeDecodeError:
        raise ConfigError(
            f"{path}: expected a TOML text file; found bytes that are no text. Save it as UTF-8."
        ) from None
    except OSError as error:
        raise ConfigError(
            f"{path}: expected a file that can be read; {error.strerror}. Check the path and its permissions."
        ) from None


def read_file(path: str | Path, what: str, parse: Callable[[str], T]) -> T:
    """Parse a short TOML file; errors begin with its path.

    Args:
        path: the file.
        what: what it should be, such as "a grid", for errors.
        parse: makes an object from the file's text; raises ConfigError.
    """
    text = read_text(Path(path), what)
    try:
        return parse(text)
    except ConfigError as error:
        raise ConfigError(f"{path}: {error}") from None


def load_toml(text: str) -> dict[str, Any]:
    """Parse a TOML text. Lines, keys and nesting are bounded: the time for a dotted key grows with its square.

    Raises:
        ConfigError: it is not valid TOML, or beyond these bounds.
    """
    lines = text.split("\n")
    longest = max(map(len, lines))
    if longest > MAX_LINE_CHARACTERS:
        raise ConfigError(
            f"a line must have at most {MAX_LINE_CHARACTERS} characters; found one of {longest}. Break it up."
        )
    if (parts := max(map(_most_parts, lines))) > MAX_KEY_PARTS:
        raise ConfigError(f"a dotted key must have at most {MAX_KEY_PARTS} parts; found one of {parts}. Use tables.")
    try:
        table = tomllib.loads(text)
        _check_values(table, MAX_DEPTH)
    except RecursionError:
        raise ConfigError(TOO_DEEP) from None
    except ConfigError:
        raise
    except ValueError as error:  # tomllib's own, and Python's of a number with thousands of digits
        raise ConfigError(f"expected valid TOML; found this fault: {error}. Correct it there.") from None
    return table


def _most_parts(line: str) -> int:
    """The parts of the longest dotted key of a line, or more."""
    keys = TOML_STRING.sub("", line.replace('"""', "").replace("'''", "")).split("#")[0]
    return max(key.count(".") for key in re.split(r"[][{},=]", keys)) + 1


def _check_values(value: Any, most: int) -> None:
    """Raise RecursionError if tables or lists lie deeper within one another than this, ConfigError for a date."""
    if most < 0:
        raise RecursionError
    if isinstance(value, dict | list):
        for part in value.values() if isinstance(value, dict) else value:
            _check_values(part, most - 1)
    elif isinstance(value, DATES):  # which JSON does not have
        raise ConfigError(f"values must be texts, numbers, true or false; found the date or time {value}. Quote it.")
