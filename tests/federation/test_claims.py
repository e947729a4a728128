"""How far ahead a neighbour is believed to be."""

import random

import pytest
from schedules import Network, replay
from test_bounds import LAST_STEP, joined, site  # noqa: F401
from test_membership import GRAPHS, edges

from crossgrad.federation.claims import MEASURED_STEPS, REST_SECONDS, TIMES_AS_FAST, Claims
from crossgrad.federation.frames import FrameError
from crossgrad.federation.journal import Ended
from crossgrad.federation.membership import SLACK, Member
from crossgrad.federation.messages import Activate, Activated, Data, Join, Leave

LAST = 1000


class Clock:
    now = 0.0

    def __call__(self):
        return self.now


@pytest.fixture
def clock():
    return Clock()


@pytest.fixture
def claims(clock):
    """Those of a site that takes a second for a step, after its first steps."""
    made = Claims(LAST, print, str, clock)
    for step in range(MEASURED_STEPS):
        made.taken(step, 1.0)
    return made


def member_at(step, me, limits):
    made = Member(me, [1 - me], step, 0, limits)
    made.connected(1 - me)
    made.begin()
    made.outbox.clear()
    return made


def test_a_leader_does_not_go_to_the_last_step_that_a_neighbour_names(claims):
    leader = member_at(50, 0, claims)
    leader.received(1, Join(1, LAST - 1, 0))
    leader.begin()
    assert (leader.step, leader.outbox) == (50, [])
    leader.received(1, Join(2, 52, 0))
    leader.begin()
    assert leader.outbox == [(1, Activate(2, 52, False))]


def test_a_leader_does_not_go_to_a_later_step_than_the_one_that_it_had_agreed_to(claims, clock):
    clock.now += 6.0
    leader = member_at(50, 0, claims)
    leader.received(1, Join(1, 60, 0))
    leader.begin()
    leader.outbox.clear()
    leader.received(1, Activated(1, LAST - 1))
    leader.begin()
    assert (leader.step, leader.outbox) == (50, [(1, Leave(1))])


def test_a_follower_refuses_a_step_that_cannot_be_and_asks_again_after_a_while(claims, clock):
    follower = member_at(50, 1, claims)
    follower.received(0, Activate(1, LAST - 1, True))
    assert follower.outbox == [(0, Leave(1))]
    follower.begin()
    assert follower.step == 50
    assert len(follower.outbox) == 1
    clock.now += REST_SECONDS
    follower.begin()
    assert follower.outbox[-1] == (0, Join(2, 50, 0))


def test_what_is_believed_grows_with_the_time_that_has_passed(claims, clock):
    assert not claims.allows(1, 120)
    clock.now += 12.0
    assert claims.allows(1, 120)
    assert claims.furthest == 12 * TIMES_AS_FAST + TIMES_AS_FAST


def test_nobody_is_taken_to_the_end_even_when_it_has_just_started(clock):
    claims = Claims(LAST, print, str, clock)
    assert claims.allows(1, LAST - 1)
    assert not claims.allows(1, LAST)


def test_a_site_that_ended_and_writes_its_end_again_does_not_end_its_neighbours_training():
    leader = member_at(5, 0, Claims(9, print, str))
    leader.received(1, Join(1, 9, 0))
    leader.begin()
    assert leader.step == 5


@pytest.mark.parametrize("message", [Join(1, 0, 2), Join(1, 0, 1 << 40), Data(1, 0, 0, 1, 3)])
def test_a_neighbour_cannot_have_more_links_than_the_file_gives_it(site, message):  # noqa: F811
    joined(site)
    with pytest.raises(FrameError, match="at most 2 links in use were expected"):
        site.received(0, message, bytearray())


def test_it_is_said_once_who_is_not_believed_and_what_to_do(site):  # noqa: F811
    joined(site)
    for _ in range(MEASURED_STEPS):
        site.claims.taken(0, 1e6)
    site.last_step = site.claims.last_step = LAST
    for step in (500, 501):
        site.member.limits.allows(0, step)
    said = [sentence for sentence in site.said if "does not go to step" in sentence]
    assert len(said) == 1
    assert "step 500, where a says that it is" in said[0]
    assert "start this site again" in said[0]
    assert LAST_STEP < LAST


class Doubtful:
    """Believes far steps at random for a while, and then always."""

    def __init__(self, network):
        self.network, self.draw = network, random.Random(1)

    def allows(self, peer, step):
        return self.network.turns > 4000 or self.draw.random() < 0.3

    def rests(self, peer):
        return self.network.turns < 4000 and self.draw.random() < 0.3


@pytest.mark.parametrize("name", GRAPHS)
def test_doubts_hang_nobody_and_every_model_is_repeated(name):
    draw = random.Random(name)
    for seed in range(12):
        network = Network(seed, {1: edges(GRAPHS[name])}, GRAPHS[name].agents, 40, Doubtful)
        network.run(cuts=draw.choice([0.01, 0.05]), kills=draw.choice([0, 0.01]), impatience=0.02)
        journals = {agent.me: agent.journal for agent in network.agents}
        assert all(isinstance(events[-1], Ended) for events in journals.values())
        assert replay(journals) == {agent.me: agent.model for agent in network.agents}, seed


def test_steps_within_the_slack_are_reached_without_asking_for_limits():
    class Never:
        def allows(self, peer, step):
            return False

        def rests(self, peer):
            return False

    leader = member_at(5, 0, Never())
    leader.received(1, Join(1, 5 + SLACK, 0))
    leader.begin()
    assert leader.outbox == [(1, Activate(1, 5 + SLACK, False))]


def test_the_log_says_to_which_step_a_site_went_and_whom_it_followed(site):  # noqa: F811
    joined(site, step=6)
    with site._changed:
        site._begin()
    assert site.member.step == 6
    assert "goes from step 0 to step 6, where a is." in site.said
