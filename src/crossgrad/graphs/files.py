"""Graphs from files. An error names what is wrong and in which line of the file."""

from __future__ import annotations

import math
import re
import tokenize
import warnings
from collections.abc import Iterator
from os import PathLike
from pathlib import Path

import numpy as np

from crossgrad.graphs.convert import from_edges, from_matrix
from crossgrad.graphs.graph import Graph
from crossgrad.graphs.validate import MAX_AGENTS, Matrix, Vector, number_of_agents

# numpy parses the header as Python, and lets through what that may raise.
_BROKEN_HEADER = (SyntaxError, tokenize.TokenError, RecursionError, RuntimeWarning)

MAX_GRAPH_TEXT_BYTES = 3 << 23  # a matrix that needs more is better kept as .npy
MAX_EDGE_LINE_BYTES = 1 << 20


def read_edge_list(path: str | PathLike[str], agents: int | None = None, directed: bool = False) -> Graph:
    """The graph of a text file with an edge "j l" or "j l weight" per line; what follows a # is a comment.

    j receives from l and, unless `directed`, l from j. Agents are 0 to N-1, and each of them must occur. A file without
    weights gets Metropolis weights (undirected) or uniform ones (directed). With weights, every line must have one; an
    agent's own weight is 1 minus the others of its row, unless a line "j j weight" gives it.

    Args:
        path: the file.
        agents: N; None: the largest number in the file, plus one.
        directed: whether an edge goes one way only.

    >>> from tempfile import mkdtemp
    >>> file = Path(mkdtemp(), "three.txt")
    >>> _ = file.write_text("0 1 0.25  # a chain\\n1 2 0.5\\n")
    >>> read_edge_list(file).dense()
    array([[0.75, 0.25, 0.  ],
           [0.25, 0.25, 0.5 ],
           [0.  , 0.5 , 0.5 ]])
    """
    file = _existing(path)
    if agents is not None:
        agents = number_of_agents(agents)
    lines: dict[int, int] = {}
    weights: dict[int, float | None] = {}  # by the edge's number, which takes less memory than a pair
    for line, words in _words_by_line(file):
        where = f"{file}, line {line}"
        if len(words) not in (2, 3):
            raise ValueError(f'{where}: expected "j l" or "j l weight"; found {_shortened(" ".join(words))}.')
        receiver, sender = (_agent(where, word, agents) for word in words[:2])
        if not directed and receiver > sender:
            receiver, sender = sender, receiver
        edge = receiver * MAX_AGENTS + sender
        weight = _parsed_number(where, words[2]) if len(words) == 3 else None
        if weight is not None and (weight < 0 or (weight == 0 and receiver != sender)):
            raise ValueError(
                f"{where}: expected a weight above 0; found {_shortened(words[2])}. Leave out what has none."
            )
        if weights and (weight is None) != (next(iter(weights.values())) is None):
            raise ValueError(f"{where}: expected a weight on every line or on none; found both. Add or remove some.")
        if weights.setdefault(edge, weight) != weight:
            raise ValueError(
                f"{where}: expected one weight per edge; found {weight} here and {weights[edge]} "
                f"on line {lines[edge]}. Keep one."
            )
        if weight is not None:
            lines.setdefault(edge, line)
    if not weights:
        raise ValueError(f'{file}: expected a line "j l" per edge; found no edges. Is it the right file?')
    ends = np.stack(np.divmod(np.fromiter(weights, np.int64, len(weights)), MAX_AGENTS), axis=1)
    count = int(ends.max()) + 1 if agents is None else agents
    absent = np.flatnonzero(np.bincount(ends.ravel(), minlength=count) == 0)
    if absent.size:
        raise ValueError(
            f"{file}: expected edges of all the agents 0 to {count - 1}; found none of agent {absent[0]}. "
            "Number the agents without holes."
        )
    values = None if None in weights.values() else np.array(list(weights.values()), dtype=np.float64)
    return from_edges(count, ends[:, 0], ends[:, 1], values, directed, file.name)


def read_weights(path: str | PathLike[str]) -> Graph:
    """The graph of a file with an N x N matrix: .npy, or text with a row per line.

    Numbers in a text file are separated by spaces or by commas; what follows a # is a comment.

    Args:
        path: the file.

    >>> from tempfile import mkdtemp
    >>> file = Path(mkdtemp(), "pair.csv")
    >>> _ = file.write_text("0.5, 0.5\\n0.5, 0.5\\n")
    >>> read_weights(file)
    Graph('pair.csv', 2 agents, 2 messages)
    """
    file = _existing(path)
    return from_matrix(_npy(file) if file.suffix.lower() == ".npy" else _matrix_of_text(file), file.name)


def _npy(file: Path) -> Matrix:
    # Mapped, not read: a header that promises more than the file holds fails before memory is asked for.
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of Python's about what stands in the header
            warnings.simplefilter("error", RuntimeWarning)  # sizes that overflow
            return np.asarray(np.lib.format.open_memmap(file, mode="r"))
    except (ValueError, TypeError, ArithmeticError, MemoryError, OSError, *_BROKEN_HEADER) as reason:
        raise ValueError(
            f"{file}: expected a numeric matrix written by numpy.save; found {_shortened(reason)}."
        ) from reason


def _matrix_of_text(file: Path) -> Matrix:
    rows: list[Vector] = []
    for line, words in _words_by_line(file, commas=True):
        where = f"{file}, line {line}"
        if rows and len(words) != len(rows[0]):
            raise ValueError(f"{where}: expected {len(rows[0])} numbers, as in the lines before; found {len(words)}.")
        if len(rows) == len(words):
            raise ValueError(f"{where}: expected as many rows as columns, {len(rows)}; found more.")
        rows.append(np.array([_parsed_number(where, word) for word in words]))
    if not rows:
        raise ValueError(f"{file}: expected a matrix with a row per line; found no numbers. Is it the right file?")
    return np.array(rows)


def _existing(path: str | PathLike[str]) -> Path:
    file = Path(path)
    try:
        if not file.exists():
            raise FileNotFoundError(f"{file}: expected a file; found nothing of that name. Check the path.")
        if not file.is_file():
            raise ValueError(f"{file}: expected a file; found a directory or a device. Name a file in it.")
        with file.open("rb"):
            return file
    except FileNotFoundError:
        raise
    except OSError as reason:
        raise ValueError(f"{file}: expected a readable file; found: {reason.strerror}.") from reason


def _words_by_line(file: Path, commas: bool = False) -> Iterator[tuple[int, list[str]]]:
    """Number and words of every line that is not empty."""
    if (size := file.stat().st_size) > MAX_GRAPH_TEXT_BYTES:
        raise ValueError(
            f"{file}: expected a text of at most {MAX_GRAPH_TEXT_BYTES:,} bytes; found {size:,}. Use .npy."
        )
    with file.open("rb") as lines:
        for line, raw in enumerate(iter(lambda: lines.readline(MAX_EDGE_LINE_BYTES + 1), b""), start=1):
            if len(raw) > MAX_EDGE_LINE_BYTES:
                raise ValueError(
                    f"{file}, line {line}: expected at most {MAX_EDGE_LINE_BYTES:,} bytes per line; found more."
                )
            try:
                text = raw.decode("utf-8-sig" if line == 1 else "utf-8")
            except UnicodeDecodeError as reason:
                fault = "found bytes that are no UTF-8. Export it as text."
                raise ValueError(f"{file}: expected a text file; {fault}") from reason
            if "\0" in text:
                raise ValueError(f"{file}: expected a text file; found zero bytes. Export it as text.")
            content = text.partition("#")[0].strip()
            if content:
                yield line, content.split(",") if commas and "," in content else content.split()


def _agent(where: str, word: str, agents: int | None) -> int:
    if not re.fullmatch("[0-9]+", word):
        raise ValueError(f"{where}: expected an agent's number, 0 or above; found {_shortened(word)}.")
    limit = MAX_AGENTS if agents is None else agents
    if len(word) > 12 or int(word) >= limit:
        raise ValueError(f"{where}: expected an agent from 0 to {limit - 1}; found {_shortened(word)}.")
    return int(word)


def _parsed_number(where: str, word: str) -> float:
    try:
        number = math.nan if "_" in word else float(word)
    except ValueError:
        number = math.nan
    if not math.isfinite(number):
        raise ValueError(f"{where}: expected a finite number; found {_shortened(word)}.")
    return number


def _shortened(found: object) -> str:
    words = " ".join(str(found).split())
    return repr(words if len(words) <= 60 else words[:57] + "...")
