"""Both ends of a link agree who takes part, whatever the network does; and journals repeat a run."""

import random

import pytest
from schedules import Network, one_sided, replay

from crossgrad.federation.journal import Adopted, Began
from crossgrad.federation.membership import Member
from crossgrad.federation.messages import Leave
from crossgrad.graphs import bipartite, fully_connected, ring

GRAPHS = {"ring": ring(5), "bipartite": bipartite(5), "full": fully_connected(4)}
GROWN = {"ring": ring(6), "bipartite": bipartite(6), "full": fully_connected(6)}  # by one site, or two


def edges(graph):
    return [(j, int(l)) for j in range(graph.agents) for l in graph.neighbours(j) if j < l]


def carried_out(seed, graph, steps=12, grown=None, **faults):
    versions = {1: edges(graph)} | ({} if grown is None else {2: edges(grown)})
    network = Network(seed, versions, graph.agents, steps)
    network.run(**faults)
    return network, {agent.me: agent.journal for agent in network.agents}


@pytest.mark.parametrize("name", GRAPHS)
def test_without_faults_everybody_counts_everybody_in_every_step(name):
    graph = GRAPHS[name]
    for seed in range(5):
        _, journals = carried_out(seed, graph)
        for agent, events in journals.items():
            began = [event for event in events if isinstance(event, Began)]
            assert [event.step for event in began] == list(range(12))
            near = {int(l) for l in graph.neighbours(agent)}
            assert all({peer for peer, _, _ in event.partners} == near for event in began)


def repeat_schedules(name, seeds, grown=None, steps=12):
    draw = random.Random(name)
    for seed in seeds:
        faults = {"cuts": draw.choice([0, 0.01, 0.05]), "kills": draw.choice([0, 0.002, 0.01])}
        faults |= {"impatience": draw.choice([0, 0.02]), "stalls": draw.choice([0, 0.01])}
        network, journals = carried_out(seed, GRAPHS[name], steps, grown, **faults)
        assert replay(journals) == {agent.me: agent.model for agent in network.agents}, (seed, faults)


@pytest.mark.parametrize("name", GRAPHS)
def test_every_schedule_ends_and_its_journals_repeat_every_model(name):
    repeat_schedules(name, range(25))


@pytest.mark.parametrize("name", GRAPHS)
def test_sites_that_are_added_while_others_fail_take_part_and_every_model_is_repeated(name):
    repeat_schedules(name, range(8), GROWN[name], steps=24)


@pytest.mark.parametrize("name", GRAPHS)
def test_without_faults_everybody_comes_to_the_later_version_with_all_its_neighbours(name):
    for seed in range(4):
        network, journals = carried_out(seed, GRAPHS[name], steps=40, grown=GROWN[name])
        for agent in network.agents:
            assert agent.version == 2, seed
            last = [event for event in journals[agent.me] if isinstance(event, Began)][-1]
            assert {peer for peer, _, _ in last.partners} == {int(l) for l in GROWN[name].neighbours(agent.me)}
        assert any(isinstance(event, Adopted) for event in journals[network.agents[-1].me])
        assert replay(journals) == {agent.me: agent.model for agent in network.agents}


@pytest.mark.slow
@pytest.mark.parametrize("name", GRAPHS)
def test_thousands_of_schedules_end_and_are_repeated(name):
    repeat_schedules(name, range(1000, 2000))
    repeat_schedules(name, range(2000, 2500), GROWN[name], steps=40)


def test_a_replay_ends_the_turn_of_the_process_that_was_killed_first():
    faults = {"cuts": 0.01, "kills": 0.01, "impatience": 0.02, "stalls": 0}
    network, journals = carried_out(1467, GRAPHS["bipartite"], **faults)
    assert replay(journals) == {agent.me: agent.model for agent in network.agents}


def test_who_agrees_to_go_back_while_it_waits_for_an_answer_goes_at_once_and_no_circle_of_sites_hangs():
    network, journals = carried_out(2019, GRAPHS["full"], 40, GROWN["full"], kills=0.002, stalls=0.01)
    assert replay(journals) == {agent.me: agent.model for agent in network.agents}


@pytest.mark.parametrize("name", GRAPHS)
def test_agents_that_step_aside_come_back_and_every_model_is_repeated(name):
    for seed in range(15):
        network, journals = carried_out(seed, GRAPHS[name], 30, pauses=0.1, cuts=0.01 * (seed % 2))
        assert replay(journals) == {agent.me: agent.model for agent in network.agents}, seed


def test_nobody_waits_for_an_agent_that_has_stepped_aside():
    network = Network(0, {1: [(0, 1), (1, 2)]}, 3, 20)
    network.run(most_turns=10**6)
    steps = [event.step for event in network.agents[0].journal if isinstance(event, Began)]
    assert steps == list(range(20))
    pair = [Member(me, [1 - me]) for me in (0, 1)]
    for member, other in zip(pair, pair[::-1], strict=True):
        member.connected(other.me)
    for _ in range(3):
        for member, other in zip(pair, pair[::-1], strict=True):
            member.begin(gathering=True)
            for _, message in member.outbox:
                other.received(member.me, message)
            member.outbox.clear()
    assert pair[0].active() == [1]
    assert pair[1].active() == [0]
    pair[1].step_aside()
    assert pair[1].outbox == [(0, Leave(1))]
    pair[0].received(1, Leave(1))
    pair[0].begin()
    assert pair[0].partners() == []


@pytest.mark.parametrize("name", GRAPHS)
def test_both_ends_count_the_same_as_long_as_connections_last(name):
    for seed in range(40):
        _, journals = carried_out(seed, GRAPHS[name], impatience=0.05, stalls=0.02)
        assert one_sided(journals) == []


def test_a_cut_leaves_at_most_one_link_counted_by_one_end():
    for seed in range(40):
        network, journals = carried_out(seed, GRAPHS["full"], cuts=0.03)
        assert len(one_sided(journals)) <= network.cuts
