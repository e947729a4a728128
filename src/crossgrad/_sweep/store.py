"""A sweep's results in one SQLite file for queries; it can be rebuilt from the cells' folders.

    cells        a row for each cell that has ended: its labels, how it ended, its last record's numbers
    records      a row for each evaluation
    experiments  each cell's experiment, as JSON

Every number of a record (`Record.numbers`) is a column of its name; columns are added when they first occur.

Many processes may write to it at once. It has no write-ahead log, which would not work on network disks.
"""

import json
import sqlite3
import stat
from collections.abc import Iterable, Iterator
from contextlib import closing, contextmanager, suppress
from math import isfinite
from pathlib import Path
from typing import Any

from crossgrad._runs.results import RunResult, read_results
from crossgrad.records.record import QUANTITIES, Record

WRITE_TIMEOUT_SECONDS = 60.0  # waiting for other writers
INSTRUCTIONS = 1_000_000  # of SQLite, between two looks for Ctrl-C
STORE_TABLES = ("cells", "records", "experiments")

NUMBER_COLUMNS = tuple(quantity.name for quantity in QUANTITIES)
CELL_COLUMNS = ("cell", "ended", "reason", *NUMBER_COLUMNS)
READING = (sqlite3.SQLITE_SELECT, sqlite3.SQLITE_READ, sqlite3.SQLITE_FUNCTION, sqlite3.SQLITE_RECURSIVE)
NO_VALUE_ERRORS = (sqlite3.InterfaceError, sqlite3.ProgrammingError)  # of a value that SQLite has no type for


class Store:
    """The store of the sweep in a folder."""

    def __init__(self, sweep: Path) -> None:
        self.sweep, self.path = sweep, sweep / "results.sqlite"

    def add(self, result: RunResult, labels: dict[str, str]) -> None:
        """Add a cell that has ended, or replace its rows."""
        with self._writing() as database:
            _add(database, result, labels)

    def refresh(self) -> dict[str, str]:
        """Add the cells that have ended and are missing, such as those of a process killed before it could add them.

        Returns:
            The damaged cells among those with a summary, which are left out: the reason, by name.
        """
        with self._writing() as database:
            known = {name for (name,) in database.execute("SELECT cell FROM cells")}
            missing, damaged = self._with_summary() - known, dict[str, str]()
            for result in read_results(self.sweep, damaged) if missing else ():
                if result.name not in known and result.ended in ("finished", "diverged"):
                    try:
                        _add(database, result, result.labels)
                    except (*NO_VALUE_ERRORS, ValueError, OverflowError) as error:
                        damaged[result.name] = f"it cannot be stored: {str(error).removesuffix('.')}."
        return {name: reason for name, reason in damaged.items() if name in missing}

    def missing(self) -> set[str]:
        """Cells with a summary but without a row: those being written, and damaged ones."""
        with self._reading() as database:
            return self._with_summary() - {name for (name,) in database.execute("SELECT cell FROM cells")}

    def _with_summary(self) -> set[str]:
        return {path.parent.name for path in self.sweep.glob("cells/*/summary.json")}

    def query(self, sql: str) -> tuple[list[str], list[tuple[Any, ...]]]:
        """Run a query and return its columns and rows. Anything but reading the sweep's tables is refused."""
        if not self.path.is_file():
            raise ValueError(
                f"a query needs a sweep that has begun; there is no {self.path}. Name the folder of another."
            )
        if not sql.strip():
            raise ValueError(f"the query is empty. {self._columns()}")
        try:
            with self._reading() as database:
                database.set_authorizer(_only_reading)
                database.set_progress_handler(lambda: 0, INSTRUCTIONS)  # lets Ctrl-C end a query
                found = database.execute(sql)
                return [column[0] for column in found.description or ()], found.fetchall()
        except (sqlite3.Error, sqlite3.Warning, OverflowError) as error:
            if str(error) == "interrupted":
                raise KeyboardInterrupt from None
            raise ValueError(f"{self.path}: {str(error).removesuffix('.')}. {self._columns()}") from None

    def _columns(self) -> str:
        """A sentence with the tables of this sweep and their columns."""
        try:
            with self._reading() as database:
                columns = {t: [row[1] for row in database.execute(f"PRAGMA table_info({t})")] for t in STORE_TABLES}
        except sqlite3.Error:
            return "A query is one SELECT."
        listed = [f"{table} ({', '.join(names)})" for table, names in columns.items()]
        return f"A query is one SELECT from {'; '.join(listed)}."

    @contextmanager
    def _reading(self) -> Iterator[sqlite3.Connection]:
        self._check_files()
        address = f"{self.path.resolve().as_uri()}?mode=ro"
        with closing(sqlite3.connect(address, uri=True, timeout=WRITE_TIMEOUT_SECONDS)) as database:
            kinds = dict(database.execute("SELECT name, type FROM sqlite_master"))
            if other := [name for name in STORE_TABLES if kinds.get(name, "table") != "table"]:
                raise ValueError(
                    f"{self.path} must have a table {other[0]}; found a {kinds[other[0]]}. Remove the file: the same "
                    "sweep makes it again."
                )
            yield database

    def _check_files(self) -> None:
        """Raise unless SQLite's files are files: it would follow a link in place of one, and wait for a pipe."""
        for suffix in ("", "-journal", "-wal", "-shm"):
            path = self.path.with_name(self.path.name + suffix)
            with suppress(FileNotFoundError):  # looked at once: another process's journal may be gone a moment later
                if not stat.S_ISREG(path.lstat().st_mode):
                    raise ValueError(f"{path} must be a file; found a link or something else. Remove it.")

    @contextmanager
    def _writing(self) -> Iterator[sqlite3.Connection]:
        """A transaction: everything in this block is written, or nothing."""
        self._check_files()
        try:
            connection = sqlite3.connect(self.path, timeout=WRITE_TIMEOUT_SECONDS, isolation_level=None)
            with closing(connection) as database:
                database.execute("BEGIN IMMEDIATE")
                _make_tables(database)
                yield database
                database.execute("COMMIT")
        except sqlite3.Error as error:
            raise ValueError(
                f"{self.path} must be a database that can be written; {error}. Make room, or remove it: the cells' own "
                "folders are whole, and the same sweep puts them into it again."
            ) from None


def _only_reading(action: int, *_: Any) -> int:
    """SQLite's authoriser, called before every action of a query. ATTACH, VACUUM INTO and PRAGMA are refused, too."""
    return sqlite3.SQLITE_OK if action in READING else sqlite3.SQLITE_DENY


def _make_tables(database: sqlite3.Connection) -> None:
    if "experiment" in {row[1] for row in database.execute("PRAGMA table_info(cells)")}:  # by an older version
        for table in ("cells", "records"):
            database.execute(f"DROP TABLE {table}")
    texts = ("cell", "ended", "reason")
    cells = ", ".join(f"{column} {'TEXT' if column in texts else 'NUMERIC'}" for column in CELL_COLUMNS)
    numbers = ", ".join(f"{column} NUMERIC" for column in NUMBER_COLUMNS)
    database.execute(f"CREATE TABLE IF NOT EXISTS cells ({cells}, PRIMARY KEY (cell))")
    database.execute(f"CREATE TABLE IF NOT EXISTS records (cell TEXT, {numbers}, status TEXT)")
    database.execute("CREATE TABLE IF NOT EXISTS experiments (cell TEXT PRIMARY KEY, experiment TEXT)")
    database.execute("CREATE INDEX IF NOT EXISTS of_a_cell ON records (cell)")


def _add(database: sqlite3.Connection, result: RunResult, labels: dict[str, str]) -> None:
    """Add all rows of a cell, or none."""
    database.execute("SAVEPOINT cell")
    try:
        _add_rows(database, result, labels)
    except Exception:
        database.execute("ROLLBACK TO cell")
        raise
    finally:
        database.execute("RELEASE cell")


def _add_rows(database: sqlite3.Connection, result: RunResult, labels: dict[str, str]) -> None:
    rows = [_numbers_of_record(record) for record in result.records]
    numbers = dict.fromkeys(name for row in rows for name in row)
    columns = {axis: _label_column(axis, numbers) for axis in labels}
    _add_columns(database, "cells", "NUMERIC", numbers)
    _add_columns(database, "cells", "TEXT", columns.values())
    _add_columns(database, "records", "NUMERIC", numbers)
    summary = result.summary or {}
    row = {
        "cell": result.name,
        "ended": result.ended,
        "reason": summary.get("reason"),
        **(rows[-1] if rows else {}),
        **{columns[axis]: label for axis, label in labels.items()},
    }
    _insert(database, "cells", row)
    _insert(database, "experiments", {"cell": result.name, "experiment": json.dumps(result.experiment)})
    database.execute("DELETE FROM records WHERE cell = ?", (result.name,))
    for record, numbers_of_record in zip(result.records, rows, strict=True):
        _insert(database, "records", {"cell": result.name, **numbers_of_record, "status": record.status})


def _add_columns(database: sqlite3.Connection, table: str, kind: str, columns: Iterable[str]) -> None:
    """Add the columns that the table does not have yet. SQL ignores case in their names."""
    known = {row[1].lower() for row in database.execute(f"PRAGMA table_info({table})")}
    new = {column.lower(): column for column in columns if column.lower() not in known}
    if len(known) + len(new) > (most := database.getlimit(sqlite3.SQLITE_LIMIT_COLUMN)):
        raise ValueError(f"a table can have {most} columns; its labels and numbers need more. Use fewer.")
    for column in new.values():
        database.execute(f"ALTER TABLE {table} ADD COLUMN {_quoted(column)} {kind}")


def _label_column(axis: str, numbers: Iterable[str]) -> str:
    """The name of a label's column: its axis, unless another column has that name."""
    return f"{axis}_" if axis.lower() in {*CELL_COLUMNS, *map(str.lower, numbers)} else axis


def _numbers_of_record(record: Record) -> dict[str, float | None]:
    """All numbers of a record; NULL for what is not finite."""
    return {name: value if value is None or isfinite(value) else None for name, value in record.numbers().items()}


def _insert(database: sqlite3.Connection, table: str, row: dict[str, Any]) -> None:
    columns, values = ", ".join(map(_quoted, row)), ", ".join("?" for _ in row)
    database.execute(f"INSERT OR REPLACE INTO {table} ({columns}) VALUES ({values})", tuple(row.values()))


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'
