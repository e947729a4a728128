"""Reads a run's records.jsonl, which may come from elsewhere: the types are checked and the sizes bounded."""

import json
from pathlib import Path
from typing import IO, Any, NoReturn

from crossgrad.records.record import Record

MAX_RECORDS_BYTES = 1 << 26  # all of its records are held at once
MAX_RECORD_BYTES = 1 << 24
MAX_DIGITS = 400  # of a whole number; no float has more


def read_records(path: str | Path, growing: bool = False) -> list[Record]:
    """The records of a file that has one record as JSON per line.

    Of a file that is `growing`, an incomplete last line is left out, and there may be no record yet.

    Args:
        path: the file.
        growing: whether a run is still writing the file.

    >>> from tempfile import mkdtemp
    >>> record = Record(0, 0.0, 0.1, None, 2.3, None, None, (), 0.0, 0, {}, (), 0, 0.0)
    >>> file = Path(mkdtemp(), "records.jsonl")
    >>> _ = file.write_text(json.dumps(record.as_json()) + "\\n")
    >>> read_records(file) == [record]
    True
    """
    path = Path(path)
    if path.exists() and not path.is_file():
        raise ValueError(f"{path}: expected a file of records; found a folder or a device. Name the file in it.")
    with path.open("rb") as file:
        records = _records(path, file, growing)
    if not records and not growing:
        raise ValueError(f"{path}: expected a record per line; found no lines. Is it the right file?")
    return records


def _records(path: Path, file: IO[bytes], growing: bool) -> list[Record]:
    records: list[Record] = []
    left = MAX_RECORDS_BYTES
    while line := file.readline(MAX_RECORD_BYTES + 1):
        where = f"{path}, line {len(records) + 1}"
        left -= len(line)
        if len(line) > MAX_RECORD_BYTES or left < 0:
            most = (
                f"lines of at most {MAX_RECORD_BYTES:,}"
                if len(line) > MAX_RECORD_BYTES
                else f"a file of at most {MAX_RECORDS_BYTES:,}"
            )
            raise ValueError(f"{where}: expected {most} bytes; found more. Is it the right file?")
        if growing and not line.endswith(b"\n"):
            break
        if not line.endswith(b"\n"):
            raise ValueError(f"{where}: expected a record that ends with its line; found one cut short. Remove it.")
        try:
            records.append(Record.from_json(_parsed(line)))
        except ValueError as error:
            raise ValueError(f"{where}: {error}") from None
    return records


def _parsed(line: bytes) -> Any:
    try:
        return json.loads(
            line.decode("utf-8"), parse_constant=_refuse_constant, parse_int=_bounded_whole, object_pairs_hook=_once
        )
    except UnicodeDecodeError:
        raise ValueError("expected a record as JSON; found bytes that are no text.") from None
    except json.JSONDecodeError as error:
        raise ValueError(
            f"expected a record as JSON; found a fault at character {error.pos + 1}: {error.msg}."
        ) from None
    except RecursionError:
        raise ValueError("expected a record as JSON; found lists nested too deeply.") from None


def _refuse_constant(constant: str) -> NoReturn:
    raise ValueError(f"expected null where a number is not finite; found {constant}.")


def _bounded_whole(digits: str) -> int:
    if len(digits) > MAX_DIGITS:
        raise ValueError(f"expected numbers of at most {MAX_DIGITS} digits; found one of {len(digits)}.")
    return int(digits)


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    table = dict(pairs)
    if len(table) < len(pairs):
        raise ValueError("expected every field once; found one twice.")
    return table
