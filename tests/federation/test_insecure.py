"""Sites without encryption: on the loopback interface only, and with a warning that cannot be overlooked."""

import dataclasses

import pytest
from test_intruders import TEXT, Listener
from typer.testing import CliRunner

from crossgrad._cli.app import app
from crossgrad.federation.insecure import WARNING, check_loopback, insecure_site
from crossgrad.federation.links import Connections
from crossgrad.federation.messages import Data
from crossgrad.federation.queries import Inquirer, handlers
from crossgrad.federation.reading import parse_federation
from crossgrad.federation.rehearsal import free_ports
from crossgrad.federation.server import serve
from crossgrad.federation.tls_refusals import TlsRefusals
from crossgrad.federation.versions import Signed, VersionError, check_signature


@pytest.fixture
def federation():
    return parse_federation(TEXT.format(port=free_ports(1)[0], seed=0))


def at(federation, **addresses):
    """The federation with other addresses of site a."""
    a, b = federation.sites
    return dataclasses.replace(federation, sites=(dataclasses.replace(a, **addresses), b))


@pytest.mark.parametrize("listen", ["127.0.0.1:1", "127.8.0.1:1", "localhost:1", "[::1]:1"])
def test_sites_on_the_loopback_interface_may_be_insecure(federation, listen):
    assert not insecure_site(at(federation, listen=listen), "b").encrypted


@pytest.mark.parametrize(
    "addresses",
    [{"listen": "0.0.0.0:1"}, {"listen": "10.0.0.1:1"}, {"listen": "a.example.org:1"}, {"listen": "[::]:1"},
     {"listen": "127.0.0.1:1", "address": "relay.example.org:1"}, {"listen": "localhost.example.org:1"}],
)  # fmt: skip
@pytest.mark.parametrize("name", ["a", "b"])
def test_any_other_address_of_a_site_or_of_its_neighbour_is_refused_in_a_sentence(federation, addresses, name):
    with pytest.raises(ValueError, match=r"must have loopback addresses only.*; a has .*Leave --insecure out"):
        insecure_site(at(federation, **addresses), name)


def test_status_asks_no_site_elsewhere_unencrypted(federation):
    with pytest.raises(ValueError, match="must have loopback addresses only"):
        check_loopback(at(federation, listen="10.0.0.1:1"), range(2))


def test_insecure_sites_meet_talk_and_say_that_nothing_is_encrypted(federation):
    listeners = {name: Listener() for name in "ab"}
    links = {name: Connections(federation, insecure_site(federation, name), listeners[name], 1000) for name in "ab"}
    try:
        for each in links.values():
            each.start()
        for listener in listeners.values():
            listener.wait_for(lambda listener: any(event[0] == "connected" for event in listener.events))
        links["b"].send(0, Data(1, 0, 0, 1, 1), b"numbers")
        listeners["a"].wait_for(lambda listener: ("received", 1, Data(1, 0, 0, 1, 1), b"numbers") in listener.events)
        assert Inquirer(federation, insecure_site(federation, "b"), "a").status().about["encrypted"] is False
    finally:
        for each in links.values():
            each.stop()


def test_the_warning_comes_first_and_other_addresses_end_the_command(federation, tmp_path):
    path, run = tmp_path / "federation.toml", CliRunner()
    text = TEXT.format(port=free_ports(1)[0], seed=0)
    path.write_text(text)
    asked = run.invoke(app, ["federation", "status", str(path), "--site", "b", "--insecure"])
    assert asked.stderr.startswith(WARNING)
    assert "nobody listens" in asked.stdout
    path.write_text(text.replace("127.0.0.1", "0.0.0.0"))
    refused = run.invoke(app, ["agent", str(path), "--site", "b", "--insecure"])
    assert "must have loopback addresses only" in str(refused.exception)
    assert WARNING not in refused.stderr


def test_insecure_sites_take_no_later_version_of_the_file(federation):
    with pytest.raises(VersionError, match="without certificates there is no authority"):
        check_signature(Signed("text", b""), insecure_site(federation, "a"))


def test_status_says_where_another_version_of_the_file_is_in_use(tmp_path):
    path, text = tmp_path / "federation.toml", TEXT.format(port=free_ports(1)[0], seed=0)
    path.write_text(text)
    later = parse_federation(f"version = 2\n{text}")
    methods = handlers(later, insecure_site(later, "a"), lambda: {"step": 7, "links": {}})
    server = serve(later, insecure_site(later, "a"), methods, TlsRefusals(print))
    try:
        asked = CliRunner().invoke(app, ["federation", "status", str(path), "--site", "b", "--insecure"])
    finally:
        server.stop(0).wait()
    assert "a: step 7" in asked.stdout
    assert "has version 2 of the file, not 1" in asked.stdout
