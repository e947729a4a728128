"""Simulated time: by hand, in any number of processes, and after a resume."""

import pytest

from crossgrad._processes.threads import in_threads
from crossgrad.experiments import parse, to_toml
from crossgrad.graphs.links import Compute, Links

FILE = """
agents = 5
algorithm = "dpsgd"
graph = "ring"
model = { name = "mlp", hidden = [4] }
partition = "iid"
training = { steps = 3, evaluate_every = 3, batch_size = 4, deterministic = true }
links = { bandwidth = "1 Mbit/s", latency = "20 ms" }
compute = { gradient = "30 ms" }
"""
LATENCY, GRADIENT, PER_BYTE = 0.02, 0.03, 8e-6
MODEL = 4 * (64 * 4 + 4 + 4 * 10 + 10) + 72  # bytes of a message with it


def seconds(*changes, group=None, steps=3):
    training = parse(FILE, list(changes)).start(group=group)
    return list(training)[-1].simulated_seconds / steps


def test_a_step_of_gossip_is_a_gradient_a_handshake_and_the_way_of_all_messages_through_a_connection():
    assert seconds() == pytest.approx(GRADIENT + 2 * LATENCY + 2 * MODEL * PER_BYTE)


def test_without_a_handshake_a_round_costs_one_latency():
    assert seconds("links.handshake=false") == pytest.approx(GRADIENT + LATENCY + 2 * MODEL * PER_BYTE)


def test_cga_computes_its_own_gradient_while_models_travel_and_sends_each_answer_at_once():
    models = max(GRADIENT, 2 * LATENCY + 2 * MODEL * PER_BYTE)  # both arrive together
    answers = models + 2 * GRADIENT + LATENCY + 2 * MODEL * PER_BYTE  # agent 4 is the second for both its neighbours
    changes = ["algorithm=cga", "training.steps=1", "training.evaluate_every=1"]
    assert seconds(*changes, steps=1) == pytest.approx(answers)


def test_a_hub_takes_as_long_as_all_messages_through_its_connection():
    assert seconds("graph=star") == pytest.approx(GRADIENT + 2 * LATENCY + 4 * MODEL * PER_BYTE)


def test_two_exchanges_in_a_row_cost_twice():
    one, two = seconds(), seconds("gossip.rounds=2")
    assert two - one == pytest.approx(2 * LATENCY + 2 * MODEL * PER_BYTE)


def test_rounds_along_a_tree_follow_one_another():
    """Two to the root and two back; a receiver has been ready for long but in the first, so only that shakes hands."""
    changes = ["graph=chain", "gossip.tree=true", "training.steps=1", "training.evaluate_every=1"]
    messages = 1 + 2 + 2 + 1  # the root receives two at a time, and sends two
    assert seconds(*changes, steps=1) == pytest.approx(GRADIENT + 5 * LATENCY + messages * MODEL * PER_BYTE)


def test_one_slow_machine_holds_up_the_others_only_after_as_many_steps_as_it_is_far_away():
    training = parse(FILE, ['compute.gradient_of={0="1030 ms"}', "graph=chain", "training.steps=1"]).start()
    training.step()
    late = training.clock.now.numpy() > 1
    assert late.tolist() == [True, True, False, False, False]


def test_an_edge_may_have_a_latency_and_a_bandwidth_of_its_own():
    assert seconds('links.latency_of={0-1="120 ms"}') == pytest.approx(seconds() + 0.2)
    limited = seconds('links.bandwidth_of={0-1="100 kbit/s"}')
    assert limited == pytest.approx(GRADIENT + 2 * LATENCY + 10 * MODEL * PER_BYTE)


def test_the_spread_keeps_the_mean_and_has_the_deviation_it_says():
    drawn = Compute("30 ms", spread=0.3).seconds(20_000, seed=1, step=7)
    assert drawn.mean() == pytest.approx(0.03, rel=0.01)
    assert drawn.std() == pytest.approx(0.009, rel=0.03)


@pytest.mark.parametrize("algorithm", ["cga", "sgp", "swarm", "relaysgd", "choco", "ngc"])
def test_any_number_of_processes_comes_to_the_same_simulated_time(algorithm):
    changes = [f"algorithm={algorithm}", "compute.spread=0.5", 'links.bandwidth_of={3="200 kbit/s"}']
    changes += ["graph=chain"] if algorithm == "relaysgd" else []
    alone = seconds(*changes)
    assert alone > GRADIENT
    for processes in (2, 5):
        assert in_threads(processes, lambda group: seconds(*changes, group=group)) == [alone] * processes


def test_a_run_that_is_taken_up_again_has_the_same_simulated_time_to_the_bit():
    changes = ["algorithm=cga", "compute.spread=0.5"]
    whole, first, second = (parse(FILE, changes).start() for _ in range(3))
    expected = list(whole)[-1].simulated_seconds
    first.step()
    second.load_state_dict(first.state_dict())
    assert list(second)[-1].simulated_seconds == expected


def test_without_links_and_machines_there_is_no_simulated_time_and_no_state_of_it():
    training = parse(FILE.split("links")[0]).start()
    assert training.evaluate().simulated_seconds is None
    assert "clock" not in training.state_dict()


def test_links_and_machines_are_written_and_read_back():
    experiment = parse(FILE, ['links.latency_of={0-1="1 s"}', 'compute.gradient_of={3="2 s"}'])
    assert parse(to_toml(experiment)) == experiment


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ("links.bandwidth=100", "links.bandwidth"),
        ("links.bandwidth=100 Mb", "such as '100 Mbit/s'; found '100 Mb'"),
        ("links.bandwidth=0 B/s", "above 0"),
        ('links.latency_of={0-7="1 s"}', "agents 0 to 4; found '0-7'"),
        ('links.latency_of={a="1 s"}', r"an agent \(3\) or the two agents of an edge"),
        ('compute.gradient_of={9="1 s"}', "agents 0 to 4; found '9'"),
        ("compute.spread=-1", "from 0 to 10"),
    ],
)
def test_a_mistake_is_one_sentence(change, sentence):
    with pytest.raises(ValueError, match=sentence):
        parse(FILE, [change])


def test_links_without_limits_take_no_time():
    assert Links().seconds_per_byte(3).tolist() == [0, 0, 0]
