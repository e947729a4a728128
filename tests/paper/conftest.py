"""Runs made by hand, whose numbers are known."""

import pytest

from crossgrad._runs.results import RunResult
from crossgrad.records.record import Record


@pytest.fixture
def record():
    def make(step=10, accuracy=0.5, agents=(0.25, 0.75), epoch=2.0):
        return Record(
            step, epoch, 0.01, 1.0, 1.0, 1.0, accuracy, agents, 0.0, 100, {"model": 100}, (50, 50), 2 * step, 1.0
        )  # fmt: skip

    return make


@pytest.fixture
def result(record):
    def make(
        labels, records=None, ended="finished", reason="", status="ok", data="cifar10", training=None, name="cell"
    ):
        records = (record(),) if records is None else tuple(records)
        last = records[-1].step if records else 0
        summary = {"ended": ended, "status": status, "reason": reason, "steps": last}
        experiment = {"data": {"name": data}, "training": training or {"steps": 10}}
        return RunResult(name, labels, experiment, records, None if ended == "begun" else summary, {})

    return make


@pytest.fixture
def labels():
    def make(method="CGA", graph="ring", agents=5, seed=0, variant="paper", **more):
        return {"method": method, "variant": variant, "graph": graph, "agents": str(agents), "seed": str(seed), **more}

    return make
