"""Runs made by hand, whose curves are known."""

import pytest

from crossgrad.records import Record
from crossgrad.results import Result


@pytest.fixture
def run():
    """A run of a few records; `losses` are the averaged model's, and accuracies follow from them."""

    def make(losses=(2.0, 1.0, 0.5), ended="finished", every=10, agents=2, experiment=None, kinds=("model",), **labels):
        records = tuple(
            Record(
                step=every * k,
                epoch=every * k / 5,
                lr=0.01,
                train_loss=None if k == 0 else loss / 2,
                loss=loss,
                test_loss=loss,
                accuracy=1 - loss / 4,
                agent_accuracy=tuple(0.9 - loss / 4 + 0.01 * j for j in range(agents)),
                consensus=0.0,
                bytes_sent=1000 * every * k * len(kinds) * agents,
                bytes_by_kind=dict.fromkeys(kinds, 1000 * every * k * agents),
                bytes_by_agent=(1000 * every * k * len(kinds),) * agents,
                gradients=3 * every * k * agents,
                seconds=float(k),
            )
            for k, loss in enumerate(losses)
        )
        summary = {"ended": ended, "status": "ok", "reason": "", "steps": records[-1].step if records else 0}
        return Result("cell", labels, experiment or {}, records, None if ended == "begun" else summary, {})

    return make
