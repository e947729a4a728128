"""Records as a CSV file in the run's folder, for spreadsheets."""

import csv
import io
from collections.abc import Mapping
from pathlib import Path

from crossgrad._logging.logger import RunAbout
from crossgrad._storage import atomic

CSV_FILE = "records.csv"


class CsvLogger:
    """Writes records.csv, a row per record and a column per number.

    The file is written anew at every record, because later records may have numbers that the first one has not (the
    training loss, diagnostics). There are few records, so this takes hardly any time.
    """

    def begin(self, about: RunAbout) -> None:
        assert about.folder is not None
        self.path: Path = about.folder / CSV_FILE
        self.rows: list[dict[str, str]] = []
        if about.go_on_after is not None and self.path.exists():
            with io.TextIOWrapper(atomic.open_regular(self.path, follow=False), newline="") as file:
                self.rows = [row for row in csv.DictReader(file) if int(row["step"]) <= about.go_on_after]

    def record(self, step: int, numbers: Mapping[str, float]) -> None:
        self.rows.append({"step": str(step)} | {name: repr(value) for name, value in numbers.items()})
        columns = list(dict.fromkeys(name for row in self.rows for name in row))
        text = io.StringIO(newline="")
        writer = csv.DictWriter(text, columns, restval="", lineterminator="\n")
        writer.writeheader()
        writer.writerows(self.rows)
        atomic.write(self.path, [text.getvalue().encode()])

    def end(self, ended: str) -> None: ...
