"""What is measured at each evaluation of a run, and reading it back."""

from crossgrad.records.file import read_records
from crossgrad.records.quantity import Quantity
from crossgrad.records.record import MetricTable, MetricValues, Record

__all__ = ["MetricTable", "MetricValues", "Quantity", "Record", "read_records"]
