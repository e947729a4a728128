"""Strangers and bad neighbours: each is refused with a sentence, and nothing of theirs is used."""

import datetime
import re
import socket
import ssl
import threading
import time
from contextlib import suppress

import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec
from test_identity import certificate, folders  # noqa: F401

from crossgrad.federation import authority, door, frames, tls_refusals
from crossgrad.federation.greeting import Greeting
from crossgrad.federation.grpc_options import SERVICE, grpc, of_client, reason
from crossgrad.federation.identity import Identity
from crossgrad.federation.links import Connections
from crossgrad.federation.messages import Data, Join
from crossgrad.federation.reading import parse_federation
from crossgrad.federation.rehearsal import free_ports

TEXT = """
[experiment]
model = "mlp"
graph = "ring"
algorithm = "dpsgd"
partition = "iid"
seed = {seed}
training = {{ steps = 3 }}
[timing]
lost_after = 2
[[sites]]
name = "a"
listen = "127.0.0.1:{port}"
[[sites]]
name = "b"
"""


class Listener:
    """Remembers what it was told."""

    def __init__(self):
        self.events, self.sentences = [], []
        self.changed = threading.Condition()

    def note(self, *event):
        with self.changed:
            self.events.append(event)
            self.changed.notify_all()

    def connected(self, peer):
        self.note("connected", peer)

    def disconnected(self, peer, left):
        self.note("disconnected", peer, left)

    def received(self, peer, message, payload):
        self.note("received", peer, message, bytes(payload))

    def handed(self, peer, signed):
        self.note("handed", peer, signed)

    def say(self, sentence):
        with self.changed:
            self.sentences.append(sentence)
            self.changed.notify_all()

    def where(self):
        return {"step": 7, "links": {}}

    def wait_for(self, condition, timeout=10):
        with self.changed:
            assert self.changed.wait_for(lambda: condition(self), timeout), (self.events, self.sentences)


@pytest.fixture(autouse=True)
def nobody_is_shut_out_for_long(monkeypatch):
    monkeypatch.setattr(door, "SHUT_OUT_SECONDS", 0.0)


@pytest.fixture(scope="module")
def site(folders):  # noqa: F811
    """Site a, listening."""
    federation = parse_federation(TEXT.format(port=free_ports(1)[0], seed=0))
    listener = Listener()
    links = Connections(federation, Identity.load(folders / "a", "a"), listener, 1000)
    links.start()
    yield federation, listener, folders
    links.stop()


def call(federation, key, chain, outgoing):
    """Dial site a with this key and certificate, and say these frames; what comes back, or the error."""
    trusted = None if chain is None else key
    root = outgoing.pop("root")
    credentials = grpc.ssl_channel_credentials(root, trusted, chain)
    with grpc.secure_channel(federation.sites[0].listen, credentials, options=of_client(2, "a")) as channel:
        answers = channel.stream_stream(f"/{SERVICE}/open")(iter(outgoing["frames"]), timeout=5)
        try:
            return list(answers), None
        except grpc.RpcError as error:
            return [], error


def pem_of(key):
    none = serialization.NoEncryption()
    return key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, none)


DAY = datetime.timedelta(days=1)


def bad_pair(kind, folders, tmp_path):  # noqa: F811
    """A key and a certificate that TLS refuses."""
    key = chain = None
    if kind == "another authority":
        authority.make_authority(tmp_path / "authority", "other")
        request = authority.make_request(tmp_path / "b", "b")
        key, chain = (
            (tmp_path / "b" / "site.key").read_bytes(),
            authority.sign_request(tmp_path / "authority", request, "b"),
        )
    elif kind != "none":
        made = ec.generate_private_key(ec.SECP256R1())
        dates = {"expired": (-2 * DAY, -DAY), "not yet valid": (DAY, 2 * DAY)}.get(kind, (-DAY, DAY))
        signer = made if kind == "self-signed" else None
        found = certificate(folders, "b", *dates, signer=signer, key=made)
        key, chain = pem_of(made), found.public_bytes(serialization.Encoding.PEM)
    return key, chain


@pytest.mark.parametrize("kind", ["none", "another authority", "expired", "not yet valid", "self-signed"])
def test_tls_closes_the_door_to_bad_certificates(site, tmp_path, kind):
    federation, listener, folders = site  # noqa: F811
    before = list(listener.events)
    root = (folders / "a" / "authority.crt").read_bytes()
    key, chain = bad_pair(kind, folders, tmp_path)
    answers, error = call(federation, key, chain, {"root": root, "frames": [b"x"]})
    assert answers == []
    assert error.code() is grpc.StatusCode.UNAVAILABLE
    assert listener.events == before


def greet(site, changes=None, proof=None, after=(), name="b", folder=None):
    """Dial as b with a right certificate, and a greeting or frames that may be wrong."""
    federation, _, folders = site  # noqa: F811
    identity = Identity.load(folder or folders / name, name)
    own = Greeting(federation, identity, "a")
    answered = threading.Event()
    said = {}

    def outgoing():
        content = frames.read_hello(own.open()) | (changes or {})
        yield frames.hello(content)
        answered.wait(5)
        if "answer" in said:
            closed, _ = own.close(frames.read_hello(said["answer"]))
            yield proof(closed, said) if proof else closed
            yield from after
            time.sleep(1)

    credentials = grpc.ssl_channel_credentials(identity.authority_pem, identity.key_pem, identity.certificate_pem)
    with grpc.secure_channel(federation.sites[0].listen, credentials, options=of_client(2, "a")) as channel:
        answers = channel.stream_stream(f"/{SERVICE}/open")(outgoing(), timeout=8)
        try:
            said["answer"] = next(answers)
            answered.set()
            for _ in answers:
                pass
        except grpc.RpcError as error:
            answered.set()
            return error
    return None


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"crossgrad": "0.0.1"}, "must run the same version"),
        ({"federation": "0" * 64}, "must have the same federation.toml"),
        ({"site": "a"}, "must have the name in the certificate, b; it says a"),
        ({"nonce": 5}, "cannot be read"),
    ],
)
def test_a_greeting_that_differs_is_refused_in_one_sentence_at_both_ends(site, changes, sentence):
    before = list(site[1].events)
    error = greet(site, changes)
    assert error.code() is grpc.StatusCode.PERMISSION_DENIED
    assert sentence in error.details()
    assert any(sentence in said for said in site[1].sentences)
    assert site[1].events == before


def test_a_greeting_that_is_played_back_is_refused(site):
    kept = {}
    greet(site, proof=lambda closed, said: kept.setdefault("frame", closed))
    site[1].wait_for(lambda listener: listener.events and listener.events[-1][0] == "disconnected")
    before = list(site[1].events)
    error = greet(site, proof=lambda closed, said: kept["frame"])
    assert "replayed" in error.details()
    assert site[1].events == before


@pytest.mark.parametrize(
    ("frames_after", "sentence"),
    [
        ([b"\xff" * 40], "another frame was expected here"),
        ([bytes([frames.PIECE]) + b"1234"], "another frame was expected here"),
        ([frames.control(Data(1, 0, 0, 1, 1), 1 << 40)], "were announced|was announced"),
        (
            [frames.control(Data(1, 0, 0, 1, 1), 100), bytes([frames.PIECE]) + b"1"],
            "a piece of 100 bytes was expected; found 1",
        ),
        ([bytes([frames.CONTROL]) + b"short"], "cannot be read"),
    ],
)
def test_bad_frames_of_a_neighbour_end_its_connection_and_are_not_handed_on(site, frames_after, sentence):
    before = sum(event[0] == "received" for event in site[1].events)
    greet(site, after=frames_after)
    site[1].wait_for(lambda listener: any(re.search(sentence, said) for said in listener.sentences))
    assert sum(event[0] == "received" for event in site[1].events) == before


def test_an_honest_neighbour_is_let_in_and_heard(site):
    message = Join(1, 0, 0)
    greet(site, after=[frames.control(message), frames.control(Data(1, 0, 0, 1, 1), 3), bytes([frames.PIECE]) + b"abc"])
    received = [event for event in site[1].events if event[0] == "received"]
    assert ("received", 1, message, b"") in received
    assert ("received", 1, Data(1, 0, 0, 1, 1), b"abc") in received


def test_a_site_that_is_no_neighbour_is_refused(site, tmp_path):
    folders = site[2]  # noqa: F811
    request = authority.make_request(tmp_path / "c", "c")
    authority.install(
        tmp_path / "c", authority.sign_request(folders / "authority", request, "c"), folders / "authority"
    )
    error = greet(site, name="c", folder=tmp_path / "c")
    assert error.code() is grpc.StatusCode.PERMISSION_DENIED
    assert "'c' is not a site of this federation" in error.details()


def test_reasons_of_a_failed_connection_are_sentences():
    class Error(Exception):
        def __init__(self, details):
            self.text = details

        def code(self):
            return grpc.StatusCode.UNAVAILABLE

        def details(self):
            return self.text

    assert "probably does not accept our certificate" in reason(Error("Socket closed"), "b", "h:1")
    assert "nobody listens at h:1" in reason(Error("x: Connection refused"), "b", "h:1")
    assert "another authority" in reason(Error("unable to get local issuer certificate"), "b", "h:1")
    assert "b at h:1 takes connections and does not answer" in reason(Error("read failed (Endpoint closi"), "b", "h:1")


def test_a_stranger_who_asks_for_ever_other_names_writes_nothing_into_the_log(site, capfd):
    address = site[0].sites[0].listen.rpartition(":")
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    for number in range(20):
        with (
            socket.create_connection((address[0], int(address[2])), timeout=5) as plain,
            suppress(OSError),
            context.wrap_socket(plain, server_hostname=f"evil-{number}") as strange,
        ):
            strange.recv(1)
    assert capfd.readouterr().err == ""


def test_a_site_heard_nothing_of_callers_whose_certificates_tls_refused(folders, tmp_path, monkeypatch):  # noqa: F811
    """The listening end says in one sentence how many there were; a neighbour that is let in does not count."""
    monkeypatch.setattr(tls_refusals.TlsRefusals, "patience", 1.0)
    federation = parse_federation(TEXT.format(port=free_ports(1)[0], seed=0))
    listener = Listener()
    links = Connections(federation, Identity.load(folders / "a", "a"), listener, 1000)
    links.start()
    try:
        place = federation, listener, folders
        greet(place)
        root = (folders / "a" / "authority.crt").read_bytes()
        for kind in ("expired", "self-signed"):
            assert call(federation, *bad_pair(kind, folders, tmp_path), {"root": root, "frames": [b"x"]})[1]
        assert call(federation, None, None, {"root": root, "frames": [b"x"]})[1]
        listener.wait_for(lambda one: any("3 connections to our port ended" in said for said in one.sentences))
        [sentence] = [said for said in listener.sentences if "ended before a greeting" in said]
        assert "b should dial us and is not connected" in sentence
        assert "Compare authority.crt" in sentence
        greet(place)
        time.sleep(1.5)
        assert [said for said in listener.sentences if "ended before a greeting" in said] == [sentence]
    finally:
        links.stop()


class Clock:
    """A clock that a test sets."""

    def __init__(self):
        self.now = 1000.0

    def monotonic(self):
        return self.now


def looked_at(refusals, clock, seconds):
    """So many seconds pass, with a look in each."""
    for _ in range(seconds):
        clock.now += 1
        refusals.look()


def test_a_site_that_was_stopped_does_not_take_those_who_dialled_it_meanwhile_for_refused(monkeypatch):
    clock, said = Clock(), []
    monkeypatch.setattr(tls_refusals, "time", clock)
    refusals = tls_refusals.TlsRefusals(said.append, lambda: ["b"])
    refusals.began()  # it has given up when this site goes on
    clock.now += 20
    refusals.began()  # it was accepted while this site was stopped
    refusals.look()
    refusals.began()
    looked_at(refusals, clock, 30)
    assert said == []
    refusals.began()
    looked_at(refusals, clock, 30)
    assert len(said) == 1


def test_a_monitor_that_knocks_every_minute_does_not_fill_the_log_of_a_site_that_misses_nobody(monkeypatch):
    clock, said, missing = Clock(), [], []
    monkeypatch.setattr(tls_refusals, "time", clock)
    refusals = tls_refusals.TlsRefusals(said.append, lambda: missing)
    for _ in range(50):
        refusals.began()
        looked_at(refusals, clock, 60)
    assert len(said) == 1
    assert "no neighbour is missing" in said[0]
    missing.append("b")
    looked_at(refusals, clock, 1)
    assert len(said) == 2
    assert "49 connections" in said[1]
    assert "b should dial us and is not connected" in said[1]
