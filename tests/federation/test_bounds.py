"""A neighbour that is let in cannot send without end, nor move others to steps that there are not."""

import dataclasses
import errno
import os
import re

import pytest

from crossgrad._storage import atomic
from crossgrad.federation import bounds, participation
from crossgrad.federation.bounds import Budget
from crossgrad.federation.door import Door
from crossgrad.federation.frames import FrameError
from crossgrad.federation.greeting import RefusedError
from crossgrad.federation.journal import Adopted, Journal, Saved, read_journal
from crossgrad.federation.listener import Notices
from crossgrad.federation.messages import Activate, Activated, Counted, Data, Join, Leave, ModelFollows, RequestModel
from crossgrad.federation.participation import Participation
from crossgrad.federation.reading import parse_federation
from crossgrad.federation.stream import Stream

TEXT = """
[experiment]
model = "mlp"
graph = "ring"
algorithm = "dpsgd"
partition = "iid"
training = { steps = 9 }
[timing]
lost_after = 0.3
[[sites]]
name = "a"
listen = "127.0.0.1:1"
[[sites]]
name = "b"
[[sites]]
name = "c"
listen = "127.0.0.1:2"
"""
LAST_STEP = 9


class Links:
    """Answers wishes for a model at once."""

    def __init__(self):
        self.models, self.sent = {}, []

    def send(self, peer, message, payload=b""):
        self.sent.append((peer, message))
        if isinstance(message, RequestModel) and peer in self.models:
            self.site.received(peer, ModelFollows(0, 4, 6), bytearray(self.models[peer]))

    def drop(self, peer): ...


@pytest.fixture
def site(tmp_path):
    """Site b between a, which leads, and c."""
    said, links = [], Links()
    journal = Journal(tmp_path / "journal.jsonl")
    made = Participation(parse_federation(TEXT), 1, journal, 0, 0, said.append, LAST_STEP)
    made.links, links.site, made.said, made.path = links, made, said, tmp_path / "journal.jsonl"
    yield made
    journal.close()


def joined(site, step=0):
    """Let a and c take part from a step on."""
    for peer in (0, 2):
        site.connected(peer)
    site.received(2, Join(1, step, 0), bytearray())
    with site._changed:
        site.member.begin()
        site._flush()
    site.received(0, Activate(1, step, True), bytearray())
    site.received(2, Activated(1, site.member.edges[2].first), bytearray())


def test_a_site_whose_disk_is_full_steps_aside_in_place_of_ending(site, monkeypatch):
    joined(site)
    full, append = [True], atomic.append_to

    def append_to(handle, content):
        if full[0]:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        append(handle, content)

    def sleep(seconds):
        assert any(isinstance(message, Leave) for _, message in site.links.sent)
        full[0] = False

    monkeypatch.setattr(atomic, "append_to", append_to)
    monkeypatch.setattr(participation.time, "sleep", sleep)
    site.journal.add(Saved(0, 0))
    site.begin()
    assert any("No space left" in said and "pauses until it can write" in said for said in site.said)
    assert [type(event).__name__ for event in read_journal(site.path)] == ["Saved", "Began"]


def test_a_site_that_waits_for_the_others_at_the_start_says_for_whom(site, monkeypatch):
    monkeypatch.setattr(participation, "SECONDS_WITHOUT_A_WORD", 0.0)
    site.timing = dataclasses.replace(site.timing, gather=1.0)
    site.gather()
    assert re.fullmatch(r"waits for a, c, for \d s at most\.", site.said[0])
    assert site.said[1:] == ["goes on without a, c."]


def flood(site, messages, peer=0):
    """All of these messages from a neighbour."""
    for message in messages:
        site.received(peer, message, bytearray(10))


def test_messages_of_ever_further_exchanges_are_not_kept(site):
    joined(site)
    with pytest.raises(FrameError, match="before the first of them was answered"):
        flood(site, [Data(1, 0, 1, exchange, 1) for exchange in range(1, 1000)])
    assert len(site.arrivals.payloads) <= bounds.MAX_AHEAD + 1
    with pytest.raises(FrameError, match="before the first of them was answered"):
        flood(site, [Counted(1, 1, exchange) for exchange in range(1000)])


def test_numbers_that_nobody_waits_for_are_not_kept(site):
    joined(site)
    with pytest.raises(FrameError, match="nothing new"):
        flood(site, 1000 * [Data(7, 0, 1, 1, 1)])
    assert not site.arrivals.payloads
    with pytest.raises(FrameError, match="nothing new"):  # c does not lead, so it has nothing to decide
        flood(site, [Counted(1, 1, exchange) for exchange in range(1000)], peer=2)


@pytest.mark.parametrize(
    "message", [Join(2, 10, 0), Activate(1, 1 << 50, True), Activated(1, 10), Data(1, 0, 10, 1, 1)]
)
def test_nobody_is_moved_beyond_the_last_step(site, message):
    joined(site)
    with pytest.raises(FrameError, match="a step up to 9 was expected"):
        site.received(0, message, bytearray())
    assert site.member.edges[0].first <= LAST_STEP


def test_signs_of_life_are_counted_and_the_budget_fills_up_again():
    now = [0.0]
    budget = Budget(lambda: now[0])
    for _ in range(int(bounds.SELDOM_AT_ONCE)):
        budget.spend()
    with pytest.raises(FrameError):
        budget.spend()
    now[0] += 1
    for _ in range(int(bounds.SELDOM_PER_SECOND) - 1):
        budget.spend()
    stream = Stream(0, 1.0, 100)
    with pytest.raises(FrameError, match="nothing new"):
        stream.incoming(iter([b""] * 2000), None)


def test_a_connection_ends_whose_other_end_does_not_read():
    stream = Stream(0, 1.0, 100)
    for _ in range(bounds.MAX_QUEUED_MESSAGES + 1):
        assert not stream.closed
        stream.send(ModelFollows(0, 0, 0), b"model")
    assert stream.closed


def test_a_neighbours_model_that_cannot_be_used_is_not_taken_over_and_the_next_one_is_asked(site):
    def take(content):
        if content == b"bad":
            raise ValueError("it is bad.")
        taken.append(bytes(content))

    joined(site, step=6)
    taken, site.links.models = [], {0: b"bad", 2: b"good"}
    site.received(0, ModelFollows(0, 0, 0), bytearray(b"not asked for"))
    site.adopt(take)
    assert taken == [b"good"]
    assert "does not take over the model of a: it is bad." in site.said
    assert [event.peer for event in read_journal(site.path) if isinstance(event, Adopted)] == [2]


def test_a_site_greets_on_few_connections_at_a_time_and_is_shut_out_after_a_fault():
    door = Door(parse_federation(TEXT), 0)
    with door.greeting("b"), door.greeting("b"), pytest.raises(RefusedError, match="already"), door.greeting("b"):
        pass
    with door.greeting("c"), door.greeting("b"):
        door.shut_out(1)
    with pytest.raises(RefusedError, match="let in again in 10 s"), door.greeting("b"):
        pass


def test_what_another_site_says_cannot_write_a_line_of_its_own_into_the_log():
    said = []
    Notices(said.append).add("b", "b refused: \x1b[2Jx\n12:00:00 a: all is well")
    assert said == ["b refused: ?[2Jx?12:00:00 a: all is well"]
