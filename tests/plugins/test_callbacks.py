"""Callbacks of plug-ins that an experiment file names."""

import pytest

from crossgrad import register
from crossgrad._runs.fit_folder import run_in_folder
from crossgrad._runs.runner import SilentListener
from crossgrad._training.callbacks import CALLBACKS
from crossgrad.experiments import parse, to_toml

FILE = """
agents = 4
partition = "iid"
model = "linear"
graph = "ring"
algorithm = "dpsgd"
callbacks = ["counting", "listing"]
training = { steps = 4, evaluate_every = 2, threads = 1 }
"""


@pytest.fixture
def calls(monkeypatch):
    monkeypatch.setattr(CALLBACKS, "origins", {})
    seen = {"steps": [], "records": []}

    @register("callback", "counting")
    class Counting:
        def on_step(self, training):
            seen["steps"].append(training.step_number)

    @register("callback", "listing")
    def listing(record):
        """Keep the steps of records."""
        seen["records"].append(record.step)

    yield seen
    for name in ("counting", "listing"):
        CALLBACKS.pop(name)


def test_callbacks_of_an_experiment_file_see_every_step_and_every_record(calls, tmp_path):
    experiment = parse(FILE)
    assert parse(to_toml(experiment)) == experiment
    run_in_folder(experiment.start(), tmp_path / "run", {"name": "called"}, SilentListener(), save_every=60.0)
    assert calls == {"steps": [1, 2, 3, 4], "records": [0, 2, 4]}


def test_a_callback_that_is_not_registered_is_named():
    with pytest.raises(ValueError, match=r"callbacks: there is no 'counting'\. Valid are: none so far\. Others"):
        parse(FILE)


def test_what_is_no_callback_is_refused():
    with pytest.raises(ValueError, match="must be a function of a record, or a class with on_step"):
        register("callback", "nothing", int)
