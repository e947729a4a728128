"""A step that hangs is told from one that waits, from the first one, and from one that compiles."""

import pytest

from crossgrad._processes import step_watch
from crossgrad._processes.step_watch import StepWatch

PATIENCE = 0.02


class Clock:
    """Stands still until the test moves it, so that nothing depends on how busy the machine is."""

    def __init__(self):
        self.now = 100.0

    def monotonic(self):
        return self.now

    def sleep(self, seconds):
        self.now += seconds


@pytest.fixture(autouse=True)
def time(monkeypatch):
    clock = Clock()
    monkeypatch.setattr(step_watch, "time", clock)
    return clock


@pytest.fixture
def watch():
    """One that has seen a short step."""
    watch = StepWatch(PATIENCE)
    with watch.step(0):
        pass
    return watch


@pytest.fixture
def hangs_within(watch, time):
    def hangs(seconds):
        time.sleep(seconds)
        return watch.hanging()

    return hangs


def test_a_step_that_takes_far_longer_than_all_before_is_named_with_its_line(watch, hangs_within):
    with watch.step(7):
        assert watch.hanging() == ""
        assert hangs_within(1.0).startswith("it hangs in step 7, since ")
    assert watch.hanging() == ""


def test_the_first_step_has_no_limit(time):
    watch = StepWatch(PATIENCE)
    with watch.step(0):
        time.sleep(0.2)
        assert watch.hanging() == ""


def test_time_between_steps_and_time_that_waits_for_others_counts_as_no_work(watch, hangs_within):
    assert hangs_within(1.0) == ""
    with watch.step(1):
        with watch.waiting(), watch.waiting():
            assert hangs_within(1.0) == ""
        assert watch.hanging() == ""
        assert hangs_within(1.0)


def test_a_long_stretch_of_work_allows_longer_ones(watch, hangs_within, time):
    with watch.step(1):
        time.sleep(1.0)
    with watch.step(2):
        assert hangs_within(9.0) == ""
        assert hangs_within(2.0)


def test_a_step_that_compiles_does_not_hang(watch, hangs_within, monkeypatch):
    monkeypatch.setattr(step_watch, "COMPILING", (("distributed", "test_step_watch.py"),))
    with watch.step(1):
        assert hangs_within(1.0) == ""


def test_a_process_that_was_stopped_as_a_whole_begins_its_stretch_anew(watch, time):
    with watch.step(1):
        time.sleep(1.0)
        watch.begin_anew()
        assert watch.hanging() == ""
