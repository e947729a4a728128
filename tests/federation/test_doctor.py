"""What the doctor of a site says of the ways to its neighbours."""

from test_identity import folders  # noqa: F401

from crossgrad.federation import doctor
from crossgrad.federation.file import parse_federation
from crossgrad.federation.identity import Identity
from crossgrad.federation.rehearsal import free_ports

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
