"""The benchmark's rows within the package; `python results/benchmark.py` writes them from the kept runs."""

import json
from collections.abc import Sequence
from importlib.resources import files
from pathlib import Path

from crossgrad._storage import atomic
from crossgrad._tuning.standings import Standing

ROWS_FILE = "rows.json"


def kept_rows() -> list[Standing]:
    """The rows of the benchmark as of this version."""
    text = (files("crossgrad._benchmark") / ROWS_FILE).read_text(encoding="utf-8")
    return [Standing.from_json(row) for row in json.loads(text)["rows"]]


def keep_rows(rows: Sequence[Standing]) -> None:
    """Write the rows into the package's folder."""
    lines = ",\n".join(json.dumps(row.as_json(), allow_nan=False) for row in rows)
    atomic.write(Path(__file__).with_name(ROWS_FILE), [f'{{"rows": [\n{lines}\n]}}\n'.encode()])
