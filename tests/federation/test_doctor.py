"""What the doctor of a site says of the ways to its neighbours."""

import dataclasses

import pytest
import torch
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec
from test_identity import DAY, certificate, folders  # noqa: F401
from test_intruders import pem_of

from crossgrad.data import Samples
from crossgrad.federation import authority, doctor, queries
from crossgrad.federation.identity import Identity
from crossgrad.federation.reading import parse_federation
from crossgrad.federation.rehearsal import free_ports
from crossgrad.federation.start import SiteData
from crossgrad.tasks import Classification

TEXT = """
[experiment]
model = "mlp"
graph = "ring"
algorithm = "dpsgd"
partition = "iid"
training = {{ steps = 3 }}
[[sites]]
name = "a"
listen = "127.0.0.1:{port}"
[[sites]]
name = "b"
"""


def test_two_doctors_both_know_latency_and_bandwidth_though_only_one_can_dial(folders):  # noqa: F811
    federation = parse_federation(TEXT.format(port=free_ports(1)[0]))
    a, b = (doctor.Neighbours(federation, Identity.load(folders / name, name)) for name in "ab")
    assert not a.look()
    assert not b.look()
    missed = [*a.findings(), *b.findings()]
    assert not any(finding.good for finding in missed)
    assert "only dials out, and has not dialled us" in missed[0].sentence
    assert "nobody listens" in missed[1].sentence
    assert "firewall" in missed[1].sentence
    listening, server = doctor.port(federation, a.identity, a.told)
    try:
        assert listening.good
        assert b.look()
        assert a.look()
    finally:
        server.stop(0).wait()
    for neighbours, how in ((a, "measured there"), (b, "measured here")):
        (finding,) = neighbours.findings()
        assert finding.good
        assert "ms there and back" in finding.sentence
        assert "MB/s" in finding.sentence
        assert how in finding.sentence


def test_a_doctor_that_is_dialled_with_a_bad_certificate_does_not_say_that_nobody_dialled(folders, tmp_path):  # noqa: F811
    federation = parse_federation(TEXT.format(port=free_ports(1)[0]))
    authority.make_authority(tmp_path / "other", "other")
    request = authority.make_request(tmp_path / "b", "b")
    authority.install(tmp_path / "b", authority.sign_request(tmp_path / "other", request, "b"), tmp_path / "other")
    a = doctor.Neighbours(federation, Identity.load(folders / "a", "a"))
    b = doctor.Neighbours(federation, Identity.load(tmp_path / "b", "b"))
    _, server = doctor.port(federation, a.identity, a.told, a.refusals)
    try:
        assert not b.look()
        assert not a.look()
    finally:
        server.stop(0).wait()
    assert "another authority" in next(b.findings()).sentence
    (finding,) = a.findings()
    assert not finding.good
    assert "has not come through TLS" in finding.sentence
    assert "compare authority.crt" in finding.sentence


@pytest.fixture(scope="module")
def federation():
    return parse_federation(TEXT.format(port=free_ports(1)[0]))


def identity(folders, name, found=None, root=None):  # noqa: F811
    """A site's identity, with another certificate than its own, or another authority, where these are given."""
    own = Identity.load(folders / name, name)
    key, made = found or (own.key, None)
    pem = own.certificate_pem if made is None else made.public_bytes(serialization.Encoding.PEM)
    return dataclasses.replace(
        own, key=key, key_pem=pem_of(key), certificate_pem=pem, authority_pem=root or own.authority_pem
    )


def seen(federation, a, b):
    """What b's doctor says of site a, which answers meanwhile."""
    listening, server = doctor.port(federation, a, lambda site, way: None)
    assert listening.good
    neighbours = doctor.Neighbours(federation, b)
    try:
        neighbours.look()
    finally:
        server.stop(0).wait()
    return " | ".join(finding.sentence for finding in neighbours.findings() if not finding.good)


def made(folders, **about):  # noqa: F811
    key = ec.generate_private_key(ec.SECP256R1())
    return key, certificate(folders, key=key, **about)


def test_the_doctor_names_the_fault_of_a_neighbours_certificate(federation, folders, tmp_path):  # noqa: F811
    a, b = (identity(folders, name) for name in "ab")
    authority.make_authority(tmp_path / "other", "other")
    stranger = identity(folders, "b", root=(tmp_path / "other" / "authority.crt").read_bytes())
    assert seen(federation, a, b) == ""
    assert "shows a certificate of another authority" in seen(federation, a, stranger)
    cases = {
        "the certificate of a has expired": {"begins": -2 * DAY, "ends": -DAY},
        "the certificate of a is not valid yet; compare the clocks": {"begins": DAY, "ends": 2 * DAY},
        "is not a: its certificate has another name": {"name": "x"},
    }
    for sentence, about in cases.items():
        assert sentence in seen(federation, identity(folders, "a", made(folders, **about)), b)
    old = identity(folders, "b", made(folders, name="b", begins=-2 * DAY, ends=-DAY))
    assert "no site lets us in: the certificate of b must be valid today; it expired on" in seen(federation, a, old)


def test_the_doctor_names_another_version_another_file_and_a_clock_that_is_off(federation, folders, monkeypatch):  # noqa: F811
    a, b = (identity(folders, name) for name in "ab")
    asked = queries.Inquirer.status

    def elsewhere(self):
        answer = asked(self)
        return queries.Answer(
            answer.about | {"crossgrad": "9.9", "federation": "0"}, answer.seconds, answer.clock + 3600
        )

    monkeypatch.setattr(queries.Inquirer, "status", elsewhere)
    said = seen(federation, a, b)
    assert "a: has crossgrad 9.9, we" in said
    assert "install the same" in said
    assert "has another federation.toml: compare the files" in said
    assert "its clock is +3600 s off ours: set both by NTP" in said


def test_the_doctor_names_a_port_that_is_taken_a_short_certificate_and_few_samples(federation, folders):  # noqa: F811
    a = identity(folders, "a")
    _, server = doctor.port(federation, a, lambda site, way: None)
    taken, _ = doctor.port(federation, a, lambda site, way: None)
    server.stop(0).wait()
    assert "the port is taken" in taken.sentence
    assert not taken.good
    short = doctor.certificate_dates(identity(folders, "a", made(folders, begins=-DAY, ends=DAY)))
    assert not short.good
    assert "signed again" in short.sentence
    samples = Samples(torch.zeros(3, 2), torch.zeros(3, dtype=torch.int64))
    few = doctor.data(federation, 0, SiteData(samples, None, Classification(2), [3, 3]))
    assert "fewer than a batch" in few.sentence
    beyond = doctor.data(
        federation, 0, SiteData(Samples(samples.inputs, samples.labels + 5), None, Classification(2), [3, 3])
    )
    assert "cannot be trained on it: agent 0: labels of 2 classes must be 0 to 1" in beyond.sentence


def test_the_doctor_asks_about_a_firewall_only_where_nobody_answers(federation, folders):  # noqa: F811
    b = identity(folders, "b")
    said = seen(federation, identity(folders, "a", made(folders, name="x")), b)
    assert said.endswith("its certificate has another name")
    unknown = parse_federation(TEXT.format(port=1).replace("127.0.0.1", "a.no-such-machine.invalid"))
    neighbours = doctor.Neighbours(unknown, b)
    neighbours.look()
    (finding,) = neighbours.findings()
    assert finding.sentence == "a: the name in a.no-such-machine.invalid:1 is not known"


def test_the_doctor_measures_a_slow_way_instead_of_asking_whether_anybody_is_there(federation, folders, monkeypatch):  # noqa: F811
    def slowly(self, method, request, patience=None):
        if len(request) / 50_000 > (patience or self.patience):
            raise queries.UnreachableError("a does not answer in time", unanswered=True)
        return b"", 0.1 + len(request) / 50_000

    monkeypatch.setattr(queries.Inquirer, "_ask", slowly)
    way = queries.Inquirer(federation, identity(folders, "b"), "a").way()
    assert way.bytes_per_second == pytest.approx(50_000)
    assert str(way) == "100.0 ms there and back, 50 kB/s"
