"""What crosses the wire: between neighbours only, models and gradients only, and as much as is counted."""

import json

import pytest


def test_steps_send_only_models_and_gradients_between_neighbours(launch, tmp_path):
    launch.forked("4", launch.workers / "messages.py", MISMATCHES=str(tmp_path / "rank"))
    assert [json.loads(path.read_text()) for path in sorted(tmp_path.glob("rank.*"))] == [{}] * 4


@pytest.mark.slow
def test_the_counted_bytes_are_those_of_the_network_interface(launch, namespace):
    """In a network namespace of its own, where nobody else's bytes are counted."""
    worker = launch.workers / "interface.py"
    ended = launch.together(4, worker, inside=namespace(), GLOO_SOCKET_IFNAME="lo")
    assert ended.status == 0, ended.err
    wire, counted = map(int, ended.out.split())
    assert counted == 10 * 4 * 2 * 2 * 4 * 150_010  # steps, agents, neighbours, model and answer, bytes, parameters
    assert wire == pytest.approx(counted, rel=0.03)
