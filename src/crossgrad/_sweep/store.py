"""A sweep's results in one SQLite file for queries; it can be rebuilt from the cells' folders.

    cells    a row for each cell that has ended: its labels, how it ended, its last record's numbers
    records  a row for each evaluation

Many processes may add to it at once. It has no write-ahead log, which would not work on network disks.
"""

import json
import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

from crossgrad._runs.results import Result, read_results
from crossgrad.records.record import Record

WRITE_TIMEOUT_SECONDS = 60.0  # waiting for other writers

NUMBER_COLUMNS = (
    "step", "epoch", "lr", "train_loss", "loss", "test_loss", "accuracy", "mean_agent", "worst_agent", "consensus",
    "bytes_sent", "gradients", "seconds",
)  # fmt: skip
DIAGNOSTIC_COLUMNS = ("active", "shrinkage", "cosine", "stalled", "fallbacks")
CELL_COLUMNS = ("cell", "ended", "reason", "experiment", *NUMBER_COLUMNS)


class Store:
    """The store of the sweep in a folder."""

    def __init__(self, sweep: Path) -> None:
        self.sweep, self.path = sweep, sweep / "results.sqlite"

    def add(self, result: Result, labels: dict[str, str]) -> None:
        """Add a cell that has ended, or replace what is there of it."""
        with self._writing() as database:
            _add(database, result, labels)

    def refresh(self) -> None:
        """Add the cells that have ended and are not there yet, such as those of a process killed at that moment."""
        with self._writing() as database:
            known = {name for (name,) in database.execute("SELECT cell FROM cells")}
            missing = [p.parent for p in self.sweep.glob("cells/*/summary.json") if p.parent.name not in known]
            if missing:
                for result in read_results(self.sweep):
                    if result.name not in known and result.ended in ("finished", "diverged"):
                        _add(database, result, result.labels)

    def query(self, sql: str) -> tuple[list[str], list[tuple[Any, ...]]]:
        """The columns and rows of a query, which cannot change anything."""
        if not self.path.is_file():
            raise ValueError(f"{self.path}: there is no such file. Name the folder of a sweep that has begun.")
        try:
            address = f"{self.path.resolve().as_uri()}?mode=ro"
            with closing(sqlite3.connect(address, uri=True, timeout=WRITE_TIMEOUT_SECONDS)) as database:
                found = database.execute(sql)
                return [column[0] for column in found.description or ()], found.fetchall()
        except (sqlite3.Error, sqlite3.Warning) as error:
            raise ValueError(
                f"{self.path}: {error}. Tables: cells ({', '.join(CELL_COLUMNS)}, labels), records."
            ) from None

    @contextmanager
    def _writing(self) -> Iterator[sqlite3.Connection]:
        """A transaction: all that is done in it, or nothing."""
        try:
            with closing(sqlite3.connect(self.path, timeout=WRITE_TIMEOUT_SECONDS, isolation_level=None)) as database:
                database.execute("BEGIN IMMEDIATE")
                _make_tables(database)
                yield database
                database.execute("COMMIT")
        except sqlite3.Error as error:
            raise ValueError(
                f"{self.path}: {error}. The cells' own folders are whole; once the file can be written, or is removed, "
                "the same sweep puts them into it again."
            ) from None


def _make_tables(database: sqlite3.Connection) -> None:
    texts = ("cell", "ended", "reason", "experiment")
    cells = ", ".join(f"{column} {'TEXT' if column in texts else 'NUMERIC'}" for column in CELL_COLUMNS)
    numbers = ", ".join(f"{column} NUMERIC" for column in (*NUMBER_COLUMNS, *DIAGNOSTIC_COLUMNS))
    database.execute(f"CREATE TABLE IF NOT EXISTS cells ({cells}, PRIMARY KEY (cell))")
    database.execute(f"CREATE TABLE IF NOT EXISTS records (cell TEXT, {numbers}, status TEXT)")
    database.execute("CREATE INDEX IF NOT EXISTS of_a_cell ON records (cell)")


def _add(database: sqlite3.Connection, result: Result, labels: dict[str, str]) -> None:
    known = {row[1] for row in database.execute("PRAGMA table_info(cells)")}
    columns = {axis: _column(axis) for axis in labels}
    for column in columns.values():
        if column not in known:
            database.execute(f"ALTER TABLE cells ADD COLUMN {_quoted(column)} TEXT")
    last = _numbers(result.last) if result.last else {}
    summary = result.summary or {}
    row = {
        "cell": result.name,
        "ended": result.ended,
        "reason": summary.get("reason"),
        "experiment": json.dumps(result.experiment),
        **{name: last.get(name) for name in NUMBER_COLUMNS},
        **{columns[axis]: label for axis, label in labels.items()},
    }
    _insert(database, "cells", row)
    database.execute("DELETE FROM records WHERE cell = ?", (result.name,))
    for record in result.records:
        _insert(database, "records", {"cell": result.name, **_numbers(record), "status": record.status})


def _column(axis: str) -> str:
    """A label's column: its axis, unless something else has that name."""
    return f"{axis}_" if axis.lower() in CELL_COLUMNS else axis


def _numbers(record: Record) -> dict[str, Any]:
    plain = record.as_json()
    return {name: plain[name] for name in NUMBER_COLUMNS} | {
        name: plain["diagnostics"].get(name) for name in DIAGNOSTIC_COLUMNS
    }


def _insert(database: sqlite3.Connection, table: str, row: dict[str, Any]) -> None:
    columns, places = ", ".join(map(_quoted, row)), ", ".join("?" for _ in row)
    database.execute(f"INSERT OR REPLACE INTO {table} ({columns}) VALUES ({places})", tuple(row.values()))


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'
