"""Means over seeds, ready to draw."""

from collections.abc import Callable, Sequence
from typing import NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from crossgrad._runs.results import RunResult
from crossgrad.records.record import Record

CurveValues: TypeAlias = NDArray[np.float64]
Measure: TypeAlias = Callable[[Record], float | None]
Axis: TypeAlias = Callable[[RunResult, Record], float]

MAX_POINTS = 60  # of a curve
MIN_LOSS, MAX_LOSS = 1e-12, 1e12  # drawn as they are; others are clipped


class Curve(NamedTuple):
    """A measure along an axis: mean over seeds, the lowest and the highest, and where seeds diverged."""

    x: CurveValues
    mean: CurveValues
    low: CurveValues
    high: CurveValues
    diverged_x: CurveValues
    diverged: CurveValues


class Spread(NamedTuple):
    """Means and deviations over seeds at the end of runs."""

    mean: CurveValues
    deviation: CurveValues


def curve_of_seeds(runs: Sequence[RunResult], across: Axis, measure: Measure, between: bool = False) -> Curve:
    """The curve of a few seeds, as far as all of them have come.

    A seed that diverged keeps its last value from there on, and the curve is marked there. `between`: the measure is a
    mean since the record before; one at the end that spans less than the others is left out.
    """
    going = [run for run in runs if run.ended != "diverged"]
    shortest = min(going, key=_end) if going else max(runs, key=_end)
    shown = _thinned(shortest.records[:-1] if between and _cut_short(shortest) else shortest.records)
    values = np.array([[_value_or_nan(_record_at(run, record.step), measure) for record in shown] for run in runs])
    x = np.array([across(shortest, record) for record in shown])
    ends = [(run, run.records[-1]) for run in runs if run.ended == "diverged" and _end(run) <= _end(shortest)]
    known = np.ma.masked_invalid(values)
    mean, low, high = (part.filled(np.nan) for part in (known.mean(axis=0), known.min(axis=0), known.max(axis=0)))
    return Curve(
        x,
        mean,
        low,
        high,
        np.array([across(run, record) for run, record in ends]),
        np.array([_value_or_nan(record, measure) for _, record in ends]),
    )


def spread(groups: Sequence[Sequence[RunResult]], measure: Measure) -> Spread:
    """The measure at the last records of each group of seeds; NaN where none has it."""
    ends = [[_value_or_nan(run.records[-1], measure) for run in runs] for runs in groups]
    known = [[value for value in values if np.isfinite(value)] or [np.nan] for values in ends]
    return Spread(np.array([np.mean(values) for values in known]), np.array([np.std(values) for values in known]))


def epoch(run: RunResult, record: Record) -> float:
    """Epochs of the local data."""
    return record.epoch


def rounds(run: RunResult, record: Record) -> float:
    """Communication rounds so far."""
    return float(record.step * run.rounds_per_step)


def megabytes(run: RunResult, record: Record) -> float:
    """Megabytes sent per agent so far."""
    return record.bytes_sent / 1e6 / max(1, len(record.bytes_by_agent))


def gradients(run: RunResult, record: Record) -> float:
    """Gradients evaluated per agent, cross-gradients included."""
    return record.gradients / max(1, len(record.bytes_by_agent))


def loss(record: Record) -> float:
    """Loss of the averaged model over all training data, clipped to what a logarithmic axis can show."""
    return _loggable(record.loss)


def own_loss(record: Record) -> float | None:
    """Loss of the agents' own models on their own batches, clipped in the same way."""
    return None if record.train_loss is None else _loggable(record.train_loss)


def _loggable(value: float) -> float:
    return value if np.isnan(value) else min(max(value, MIN_LOSS), MAX_LOSS)


def _value_or_nan(record: Record, measure: Measure) -> float:
    value = measure(record)
    return np.nan if value is None else float(value)


def _record_at(run: RunResult, step: int) -> Record:
    """The newest record by that step."""
    return next((record for record in reversed(run.records) if record.step <= step), run.records[0])


def _cut_short(run: RunResult) -> bool:
    steps = [record.step for record in run.records]
    return len(steps) > 2 and run.ended == "finished" and steps[-1] - steps[-2] < steps[1] - steps[0]


def _thinned(records: Sequence[Record]) -> list[Record]:
    """At most MAX_POINTS records, evenly chosen, with the first and the last."""
    indices = np.linspace(0, len(records) - 1, min(len(records), MAX_POINTS)).round().astype(int)
    return [records[index] for index in indices]


def _end(run: RunResult) -> int:
    return run.records[-1].step
