"""Whether runs reached the paper's number, and whether they were long enough to tell."""

from collections.abc import Sequence
from statistics import mean

from crossgrad._paper.status import status_of
from crossgrad._paper.tables import PaperCell
from crossgrad._runs.results import RunResult
from crossgrad.records import Record
from crossgrad.records.settled import SettledRule

CLOSE_POINTS, NEAR_POINTS = 1.0, 5.0  # points from the paper's number
SETTLED = SettledRule(points=0.2, epochs=3.0)
ENOUGH_EPOCHS = 20.0  # a run of so many epochs of the local data is long enough, settled or not


def paper_verdict(results: Sequence[RunResult], paper: PaperCell | None) -> str:
    """A verdict such as "within 1 point", "not reached, 12.3 below, not run to the end", or "not run".

    The averaged model's accuracy at the last record, as a mean over the runs, is compared with the paper's number.
    """
    accuracies = [100 * r.last.accuracy for r in results if r.last is not None and r.last.accuracy is not None]
    if not accuracies:
        return "not run"
    if paper is None:
        return "no number in the paper"
    if any(result.ended == "diverged" for result in results):
        return status_of(results) if paper.diverges else f"not reached: {status_of(results)}"
    found = "does not diverge" if paper.accuracy is None else _distance(mean(accuracies) - paper.accuracy)
    return found if all(long_enough(result.records) for result in results) else f"{found}, not run to the end"


def _distance(above: float) -> str:
    if above > CLOSE_POINTS:
        return f"above, by {above:.1f}"
    if above >= -CLOSE_POINTS:
        return f"within {CLOSE_POINTS:.0f} point"
    return f"within {NEAR_POINTS:.0f} points" if above >= -NEAR_POINTS else f"not reached, {-above:.1f} below"


def long_enough(records: Sequence[Record]) -> bool:
    """Whether a run went on until it had settled, or for ENOUGH_EPOCHS."""
    return bool(records) and (records[-1].epoch >= ENOUGH_EPOCHS - 0.01 or settled(records))


def settled(records: Sequence[Record]) -> bool:
    """Whether the averaged model's accuracy has settled."""
    return SETTLED.holds([(r.epoch, r.accuracy) for r in records if r.step > 0 and r.accuracy is not None])
