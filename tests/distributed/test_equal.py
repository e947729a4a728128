"""One experiment, any number of processes: the same bits."""

import json

import pytest

from crossgrad.algorithms import ALGORITHMS

SOME = "ring"  # swarms meet in changing pairs on it, and push-sum has a directed graph of its own
ALL = f"{SOME},random-matchings,exponential,bipartite,one-peer-exponential"


@pytest.mark.parametrize(
    ("processes", "graphs"), [(3, SOME), *(pytest.param(more, ALL, marks=pytest.mark.slow) for more in (2, 3, 5))]
)
def test_any_number_of_processes_gives_the_same_states_records_and_bytes(launch, tmp_path, processes, graphs):
    """Several processes for 5 agents (some runs have 6), against one process that holds all of them."""
    environment = {"REFERENCE": str(tmp_path / "reference.pt"), "MISMATCHES": str(tmp_path / "mismatches")}
    environment["GRAPHS"] = graphs
    launch.forked(f"0,{processes}", launch.workers / "equal.py", **environment)
    found = json.loads((tmp_path / f"mismatches.{processes}").read_text())
    assert found["unlike"] == {}
    assert len(found["compared"]) > (50 if graphs == ALL else 40)
    on_a_ring = {*ALGORITHMS} - {"relaysgd"}
    expected = {*(f"{name} on ring" for name in on_a_ring), "BatchNorm and dropout, relaysgd"}
    assert expected <= {*found["compared"]}
