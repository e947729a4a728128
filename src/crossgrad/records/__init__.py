"""What is measured at each evaluation of a run, and reading it back."""

from crossgrad.records.file import read_records
from crossgrad.records.record import Record

__all__ = ["Record", "read_records"]
