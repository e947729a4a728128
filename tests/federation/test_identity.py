"""Keys, certificates and the authority."""

import datetime
import os

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec

from crossgrad.federation import authority
from crossgrad.federation.certificates import load_certificate, now, site_name, subject
from crossgrad.federation.identity import Identity, load_key, read_pem
from crossgrad.federation.signatures import IdentityError

DAY = datetime.timedelta(days=1)


@pytest.fixture(scope="module")
def folders(tmp_path_factory):
    """An authority, and the sites a and b that it has signed."""
    folder = tmp_path_factory.mktemp("identity")
    authority.make_authority(folder / "authority", "wards")
    for name in ("a", "b"):
        request = authority.make_request(folder / name, name)
        authority.install(
            folder / name, authority.sign_request(folder / "authority", request, name), folder / "authority"
        )
    return folder


def certificate(folders, name="a", begins=-DAY, ends=DAY, dns=True, signer=None, key=None):
    """A certificate of the authority, or of somebody else, with dates and names as wished."""
    key = key or ec.generate_private_key(ec.SECP256R1())
    issuer = load_certificate(read_pem(folders / "authority" / "authority.crt"), "")
    made = x509.CertificateBuilder().subject_name(subject(name)).issuer_name(issuer.subject)
    made = made.public_key(key.public_key()).serial_number(x509.random_serial_number())
    made = made.not_valid_before(now() + begins).not_valid_after(now() + ends)
    if dns:
        made = made.add_extension(x509.SubjectAlternativeName([x509.DNSName(name)]), critical=False)
    return made.sign(signer or load_key(folders / "authority" / "authority.key"), hashes.SHA256())


def test_a_signed_site_proves_itself_to_another(folders):
    a, b = Identity.load(folders / "a", "a"), Identity.load(folders / "b", "b")
    b.verify("a", a.certificate_pem, b"text", a.sign(b"text"))
    with pytest.raises(IdentityError, match="replayed"):
        b.verify("a", a.certificate_pem, b"another text", a.sign(b"text"))
    with pytest.raises(IdentityError, match="must be for 'b'; it is for 'a'"):
        a.verify("b", a.certificate_pem, b"text", a.sign(b"text"))


def test_keys_are_readable_by_their_owner_only_and_never_replaced(folders):
    assert os.stat(folders / "a" / "site.key").st_mode & 0o077 == 0
    with pytest.raises(IdentityError, match="never replaced"):
        authority.make_request(folders / "a", "a")


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"begins": -2 * DAY, "ends": -DAY}, "expired"),
        ({"begins": DAY, "ends": 2 * DAY}, "must be valid today; it begins on"),
        ({"name": "c"}, "must be for 'a'; it is for 'c'"),
        ({"dns": False}, "one DNS name"),
        ({"signer": ec.generate_private_key(ec.SECP256R1())}, "must be signed by this federation's authority"),
    ],
)
def test_bad_certificates_are_refused_in_a_sentence(folders, changes, sentence):
    a = Identity.load(folders / "a", "a")
    with pytest.raises(IdentityError, match=sentence):
        a.check([certificate(folders, **changes)], "a")


def test_a_key_of_another_certificate_is_noticed_at_the_start(folders, tmp_path):
    for name in ("site.key", "site.crt", "authority.crt"):
        source = folders / ("b" if name == "site.key" else "a") / name
        (tmp_path / name).write_bytes(source.read_bytes())
    with pytest.raises(IdentityError, match="must be the key of"):
        Identity.load(tmp_path, "a")


def test_a_request_is_signed_for_the_name_it_came_from_only(folders, tmp_path):
    request = authority.make_request(tmp_path / "x", "hospital-x")
    with pytest.raises(IdentityError, match="must ask for the name 'a'; it asks for 'hospital-x'"):
        authority.sign_request(folders / "authority", request, "a")
    with pytest.raises(IdentityError, match="lower-case"):
        authority.make_request(tmp_path / "y", "../y")


def test_a_revoked_site_is_refused_once_the_list_has_arrived(tmp_path):
    authority.make_authority(tmp_path / "authority", "wards")
    request = authority.make_request(tmp_path / "a", "a")
    signed = authority.sign_request(tmp_path / "authority", request, "a")
    authority.install(tmp_path / "a", signed, tmp_path / "authority")
    a = Identity.load(tmp_path / "a", "a")
    listed = authority.revoke(tmp_path / "authority", "a")
    (tmp_path / "a" / "revoked.pem").write_bytes(listed.read_bytes())
    with pytest.raises(IdentityError, match="revoked"):
        a.check([load_certificate(signed, "")], "a")
    with pytest.raises(IdentityError, match="for 'nobody' to revoke it; it has signed for a"):
        authority.revoke(tmp_path / "authority", "nobody")


def test_a_list_of_revoked_certificates_must_be_signed_by_the_authority(folders, tmp_path):
    authority.make_authority(tmp_path / "other", "other")
    for name in ("site.key", "site.crt", "authority.crt"):
        (tmp_path / name).write_bytes((folders / "a" / name).read_bytes())
    (tmp_path / "revoked.pem").write_bytes((tmp_path / "other" / "revoked.pem").read_bytes())
    with pytest.raises(IdentityError, match="must be signed by this federation's authority"):
        Identity.load(tmp_path, "a")


def test_certificates_name_their_site_once(folders):
    found = load_certificate(read_pem(folders / "a" / "site.crt"), "")
    assert site_name(found) == "a"
    assert found.public_bytes(serialization.Encoding.PEM) == read_pem(folders / "a" / "site.crt")
