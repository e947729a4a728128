"""Two sites over real connections, through a plain TCP forwarder that can be cut."""

import dataclasses
import shutil
import sys
import time
from pathlib import Path

import pytest
from test_identity import folders  # noqa: F401
from test_intruders import TEXT, Listener

from crossgrad.federation import authority
from crossgrad.federation.identity import Identity
from crossgrad.federation.links import Connections
from crossgrad.federation.messages import Data, Join
from crossgrad.federation.queries import Inquirer, UnreachableError
from crossgrad.federation.reading import parse_federation
from crossgrad.federation.rehearsal import free_ports

sys.path.insert(0, str(Path(__file__).parents[2] / "proofs"))


@pytest.fixture
def delay():
    """Seconds by which the forwarder is late, each way."""
    return 0.0


@pytest.fixture
def pair(folders, delay):  # noqa: F811
    """Sites a and b; b dials a through a forwarder."""
    from sites import Forwarder

    port, outside = free_ports(2)
    federation = parse_federation(TEXT.format(port=port, seed=0))
    a, b = federation.sites
    federation = dataclasses.replace(federation, sites=(dataclasses.replace(a, address=f"127.0.0.1:{outside}"), b))
    forwarder, listeners = Forwarder(outside, port, delay), {"a": Listener(), "b": Listener()}
    links = {
        name: Connections(federation, Identity.load(folders / name, name), listeners[name], 2 << 20) for name in "ab"
    }
    for each in links.values():
        each.start()
    yield links, listeners, forwarder, federation, folders
    for each in links.values():
        each.stop()


def count(kind):
    return lambda listener: sum(event[0] == kind for event in listener.events)


def test_messages_pass_both_ways_through_a_forwarder_in_pieces(pair):
    links, listeners, _, federation, folders = pair  # noqa: F811
    for listener in listeners.values():
        listener.wait_for(count("connected"))
    payload = bytes(range(256)) * 5000
    links["a"].send(1, Data(1, 0, 0, 1, 1), payload)
    links["b"].send(0, Join(1, 0, 0))
    listeners["b"].wait_for(count("received"))
    listeners["a"].wait_for(count("received"))
    assert listeners["b"].events[-1] == ("received", 0, Data(1, 0, 0, 1, 1), payload)
    assert listeners["a"].events[-1] == ("received", 1, Join(1, 0, 0), b"")
    asked = Inquirer(federation, Identity.load(folders / "b", "b"), "a")
    assert asked.status().about["step"] == 7
    assert asked.way().bytes_per_second > 0
    with pytest.raises(UnreachableError, match="only dials out"):
        Inquirer(federation, Identity.load(folders / "a", "a"), "b")


@pytest.mark.parametrize("delay", [0.1])
def test_sites_a_fifth_of_a_second_apart_connect_at_the_first_attempt(pair):
    _, listeners, *_ = pair
    for listener in listeners.values():
        listener.wait_for(count("connected"))
    assert listeners["b"].sentences == []


def test_a_cut_link_is_noticed_by_both_ends_in_time_and_opened_again(pair):
    _, listeners, forwarder, federation, _ = pair
    for listener in listeners.values():
        listener.wait_for(count("connected"))
    forwarder.cut()
    began = time.monotonic()
    for listener in listeners.values():
        listener.wait_for(count("disconnected"))
    assert 0.5 < time.monotonic() - began < 3 * federation.timing.lost_after
    forwarder.mend()
    for listener in listeners.values():
        listener.wait_for(lambda listener: count("connected")(listener) == 2, timeout=20)


def test_a_site_that_leaves_says_goodbye(pair):
    links, listeners, *_ = pair
    for listener in listeners.values():
        listener.wait_for(count("connected"))
    links["b"].stop()
    listeners["a"].wait_for(lambda listener: ("disconnected", 1, True) in listener.events)


def test_two_agents_in_the_name_of_one_site_are_spoken_of_in_the_log_of_its_neighbour(folders):  # noqa: F811
    federation = parse_federation(TEXT.format(port=free_ports(1)[0], seed=0))
    listeners = [Listener() for _ in range(3)]
    links = [
        Connections(federation, Identity.load(folders / name, name), listener, 1000)
        for name, listener in zip("abb", listeners, strict=True)
    ]
    try:
        for each, listener in zip(links, listeners, strict=True):
            each.start()
            if each is not links[0]:
                listener.wait_for(count("connected"))
        twice = "b has connected again while its earlier connection was open"
        listeners[0].wait_for(lambda listener: any(said.startswith(twice) for said in listener.sentences))
    finally:
        for each in links:
            each.stop()


def both_sites(folder):
    """Listeners and connections of a and b, whose identities are in this folder."""
    federation = parse_federation(TEXT.format(port=free_ports(1)[0], seed=0))
    listeners = {name: Listener() for name in "ab"}
    each = {name: Connections(federation, Identity.load(folder / name, name), listeners[name], 1000) for name in "ab"}
    return listeners, each


def test_a_listening_site_that_is_refused_by_who_dials_it_is_told_why(folders, tmp_path):  # noqa: F811
    for name in ("authority", "a", "b"):
        shutil.copytree(folders / name, tmp_path / name)
    shutil.copy(authority.revoke(tmp_path / "authority", "a"), tmp_path / "b" / "revoked.pem")
    listeners, links = both_sites(tmp_path)
    try:
        for each in links.values():
            each.start()
        revoked = "the certificate of a must not be revoked"
        for name, begin in (("a", f"b refused: {revoked}"), ("b", f"refused a: {revoked}")):
            listeners[name].wait_for(lambda listener: any(said.startswith(begin) for said in listener.sentences))  # noqa: B023
        assert not any(listener.events for listener in listeners.values())
    finally:
        for each in links.values():
            each.stop()


def test_a_site_that_is_revoked_while_it_is_connected_is_shut_out_at_once(folders, tmp_path):  # noqa: F811
    for name in ("authority", "a", "b"):
        shutil.copytree(folders / name, tmp_path / name)
    listeners, links = both_sites(tmp_path)
    try:
        for each in links.values():
            each.start()
        listeners["a"].wait_for(count("connected"))
        listed = authority.revoke(tmp_path / "authority", "b")
        shutil.copy(listed, tmp_path / "a" / "revoked.pem")
        listeners["a"].wait_for(count("disconnected"))
        refused = "the certificate of b must not be revoked"
        listeners["a"].wait_for(lambda listener: any(refused in said for said in listener.sentences))
        assert count("connected")(listeners["a"]) == 1
    finally:
        for each in links.values():
            each.stop()
