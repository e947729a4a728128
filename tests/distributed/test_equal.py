"""One experiment, any number of processes: the same bits."""

import json

import pytest


@pytest.fixture(scope="module")
def reference(launch, tmp_path_factory):
    """The numbers of one process that holds all agents."""
    path = tmp_path_factory.mktemp("equal") / "reference.pt"
    ended = launch.alone(launch.workers / "equal.py", REFERENCE=str(path))
    assert ended.status == 0, ended.err
    return path


@pytest.mark.parametrize("processes", [2, 3, 5])  # of 5 agents; a few runs have 6
def test_any_number_of_processes_gives_the_same_states_records_and_bytes(processes, launch, reference, tmp_path):
    report = tmp_path / "mismatches.json"
    ended = launch.together(processes, launch.workers / "equal.py", REFERENCE=str(reference), MISMATCHES=str(report))
    assert ended.status == 0, ended.err
    found = json.loads(report.read_text())
    assert found["unlike"] == {}
    assert found["compared"] > 45
