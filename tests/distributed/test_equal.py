"""One experiment, any number of processes: the same bits."""

import json


def test_any_number_of_processes_gives_the_same_states_records_and_bytes(launch, tmp_path):
    """2, 3 and 5 processes for 5 agents (some runs have 6), against one process that holds all of them."""
    environment = {"REFERENCE": str(tmp_path / "reference.pt"), "MISMATCHES": str(tmp_path / "mismatches")}
    ended = launch.alone(launch.workers / "forked.py", "0,2,3,5", launch.workers / "equal.py", **environment)
    assert ended.out.split() == ["0"] * 11, ended.err
    for processes in (2, 3, 5):
        found = json.loads((tmp_path / f"mismatches.{processes}").read_text())
        assert found["unlike"] == {}
        assert found["compared"] > 50
