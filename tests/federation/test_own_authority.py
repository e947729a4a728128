"""Certificates of an authority that an organisation has already: openssl, a root and an intermediate one."""

import datetime
import re
import shutil
import subprocess
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from test_intruders import TEXT, Listener

from crossgrad.federation import authority
from crossgrad.federation.certificates import load_certificate, load_certificates, now
from crossgrad.federation.identity import Identity, load_key
from crossgrad.federation.links import Connections
from crossgrad.federation.messages import Join
from crossgrad.federation.queries import Inquirer
from crossgrad.federation.reading import parse_federation
from crossgrad.federation.rehearsal import free_ports
from crossgrad.federation.signatures import IdentityError
from crossgrad.federation.versions import Signed, VersionError, check_signature

CA = "basicConstraints = critical, CA:TRUE\nkeyUsage = critical, keyCertSign, cRLSign\n"
SITE = """subjectAltName = {names}
extendedKeyUsage = {usage}
keyUsage = critical, {key_usage}
basicConstraints = critical, CA:FALSE
"""
NEW_KEY = {"rsa": ["rsa:2048"], "ec": ["ec", "-pkeyopt", "ec_paramgen_curve:P-256"]}


def openssl(*arguments):
    subprocess.run(["openssl", *map(str, arguments)], check=True, capture_output=True)


class Organisation:
    """A root and an intermediate authority in a folder, made with keys of one kind."""

    def __init__(self, folder, kind):
        self.folder, self.kind = folder, kind
        folder.mkdir()
        self.request("root")
        self.sign("root", CA, "-key", folder / "root.key")
        self.request("between")
        self.sign("between", CA, *self.by("root"))

    def path(self, name):
        return self.folder / name

    def by(self, signer):
        return "-CA", self.path(f"{signer}.crt"), "-CAkey", self.path(f"{signer}.key"), "-CAcreateserial"

    def request(self, name, subject=None, kind=None):
        key, csr = self.path(f"{name}.key"), self.path(f"{name}.csr")
        made = ["-newkey", *NEW_KEY[kind or self.kind], "-nodes", "-keyout", key]
        openssl("req", "-new", *made, "-subj", f"/O=Clinic/CN={subject or name}", "-out", csr)

    def sign(self, name, extensions, *signer, days=30):
        (self.folder / "extensions").write_text(extensions)
        signed = ["-days", days, *signer, "-extfile", self.folder / "extensions"]
        openssl("x509", "-req", "-in", self.path(f"{name}.csr"), *signed, "-out", self.path(f"{name}.crt"))

    def site(self, folder, name, kind, signer="between", subject=None, days=30, trusted="root", **about):
        """A site's folder: its key, its certificate with the intermediate authority's, and the root's."""
        about = {"names": f"DNS:{name}", "usage": "serverAuth, clientAuth", "key_usage": "digitalSignature"} | about
        self.request(name, subject, kind)
        self.sign(name, SITE.format(**about), *self.by(signer), days=days)
        folder.mkdir(parents=True)
        shutil.copy(self.path(f"{name}.key"), folder / "site.key")
        chain = self.path(f"{name}.crt").read_bytes() + self.path("between.crt").read_bytes()
        (folder / "site.crt").write_bytes(chain)
        shutil.copy(self.path(f"{trusted}.crt"), folder / "authority.crt")
        return folder


@pytest.fixture(scope="module", params=["rsa", "ec"])
def clinic(request, tmp_path_factory):
    return Organisation(tmp_path_factory.mktemp("own") / request.param, request.param)


@pytest.fixture(scope="module")
def ec_clinic(tmp_path_factory):
    return Organisation(tmp_path_factory.mktemp("own-ec") / "ec", "ec")


def test_sites_with_rsa_and_ec_keys_and_a_chain_to_an_own_root_meet_and_talk(clinic, tmp_path):
    # names as alternative names, whatever the subject is; a name of the machine beside that of the site
    clinic.site(tmp_path / "a", "a", "rsa", subject="Scanner 7", names="DNS:a, DNS:a.clinic.example")
    clinic.site(tmp_path / "b", "b", "ec", subject="Archive", names="DNS:archive.clinic.example, DNS:b")
    federation = parse_federation(TEXT.format(port=free_ports(1)[0], seed=0))
    listeners, links = {name: Listener() for name in "ab"}, {}
    try:
        for name in "ab":
            own = Identity.load(tmp_path / name, name)
            links[name] = Connections(federation, own, listeners[name], 1000)
            links[name].start()
        for listener in listeners.values():
            listener.wait_for(lambda listener: any(event[0] == "connected" for event in listener.events))
        links["b"].send(0, Join(1, 0, 0))
        listeners["a"].wait_for(lambda listener: ("received", 1, Join(1, 0, 0), b"") in listener.events)
        assert Inquirer(federation, Identity.load(tmp_path / "b", "b"), "a").status().about["step"] == 7
    finally:
        for each in links.values():
            each.stop()


def test_a_site_of_another_own_authority_is_refused_though_its_name_is_right(ec_clinic, tmp_path):
    other = Organisation(tmp_path / "other", "ec")
    a = Identity.load(ec_clinic.site(tmp_path / "a", "a", "ec"), "a")
    b = Identity.load(other.site(tmp_path / "b", "b", "ec"), "b")
    with pytest.raises(IdentityError, match="must be signed by this federation's authority"):
        a.check(load_certificates(b.certificate_pem, ""), "b")


@pytest.mark.parametrize(
    ("about", "sentence"),
    [
        ({"names": "DNS:other"}, "must be for 'a'; it is for 'other'"),
        ({"names": "DNS:a.clinic.example"}, "one DNS name without a dot .* found none"),
        ({"names": "DNS:a, DNS:b"}, "found 'a', 'b'"),
        ({"names": "IP:127.0.0.1"}, "found none"),
        ({"usage": "serverAuth"}, "its key usage lacks clientAuth"),
        ({"usage": "clientAuth"}, "its key usage lacks serverAuth"),
        ({"key_usage": "keyEncipherment"}, "its key usage lacks digitalSignature"),
        ({"days": -1}, "it expired on|it begins on"),
    ],
)
def test_what_is_missing_in_a_certificate_of_an_own_authority_is_named_before_anybody_is_dialled(
    ec_clinic, tmp_path, about, sentence
):
    with pytest.raises(IdentityError, match=sentence):
        Identity.load(ec_clinic.site(tmp_path / "a", "a", "ec", **about), "a")


def test_a_missing_intermediate_certificate_is_named(ec_clinic, tmp_path):
    folder = ec_clinic.site(tmp_path / "a", "a", "ec")
    (folder / "site.crt").write_bytes(ec_clinic.path("a.crt").read_bytes())
    with pytest.raises(IdentityError, match=r"intermediate authorities belong into site\.crt"):
        Identity.load(folder, "a")


def test_a_site_cannot_sign_for_another_site(ec_clinic, tmp_path):
    a = Identity.load(ec_clinic.site(tmp_path / "a", "a", "ec"), "a")
    forged = ec_clinic.site(tmp_path / "b", "b", "ec", signer="a")
    chain = [*load_certificates((forged / "site.crt").read_bytes(), ""), *load_certificates(a.certificate_pem, "")]
    with pytest.raises(IdentityError, match="must be signed by"):
        a.check(chain, "b")


def test_a_certificate_in_the_authoritys_list_is_refused_also_if_an_intermediate_one_signed_it(ec_clinic, tmp_path):
    folder = ec_clinic.site(tmp_path / "a", "a", "ec")
    a = Identity.load(folder, "a")
    between = load_certificate(ec_clinic.path("between.crt").read_bytes(), "")
    listed = x509.CertificateRevocationListBuilder().issuer_name(between.subject)
    listed = listed.last_update(now()).next_update(now() + datetime.timedelta(days=7))
    number = load_certificate(a.certificate_pem, "").serial_number
    entry = x509.RevokedCertificateBuilder().serial_number(number).revocation_date(now()).build()
    signed = listed.add_revoked_certificate(entry).sign(load_key(ec_clinic.path("between.key")), hashes.SHA256())
    empty = listed.sign(load_key(ec_clinic.path("between.key")), hashes.SHA256())
    pem = serialization.Encoding.PEM
    (folder / "revoked.pem").write_bytes(empty.public_bytes(pem))
    Identity.load(folder, "a")
    (folder / "revoked.pem").write_bytes(empty.public_bytes(pem) + signed.public_bytes(pem))
    with pytest.raises(IdentityError, match="must not be revoked"):
        Identity.load(folder, "a")


def test_a_key_with_a_password_and_a_short_key_are_refused_in_a_sentence(ec_clinic, tmp_path):
    folder = ec_clinic.site(tmp_path / "a", "a", "ec")
    openssl("pkey", "-in", ec_clinic.path("a.key"), "-aes256", "-passout", "pass:x", "-out", folder / "site.key")
    with pytest.raises(IdentityError, match="must be a key without a password"):
        Identity.load(folder, "a")
    openssl("genrsa", "-out", folder / "site.key", 1024)
    with pytest.raises(IdentityError, match="RSA key of 2048 bits or more; found RSA of 1024 bits"):
        Identity.load(folder, "a")
    openssl("genpkey", "-algorithm", "ed25519", "-out", folder / "site.key")
    with pytest.raises(IdentityError, match=r"found a .*Ed25519"):
        Identity.load(folder, "a")


def test_an_own_authority_signs_later_versions_with_openssl(clinic, tmp_path):
    own = Identity.load(clinic.site(tmp_path / "a", "a", "ec", trusted="root"), "a")
    path = tmp_path / "federation.toml"
    path.write_text(TEXT)
    openssl("dgst", "-sha256", "-sign", clinic.path("root.key"), "-out", tmp_path / "signature", path)
    check_signature(Signed(TEXT, (tmp_path / "signature").read_bytes()), own)
    with pytest.raises(VersionError, match="authority must have signed"):
        check_signature(Signed(TEXT + " ", (tmp_path / "signature").read_bytes()), own)


def test_the_small_authority_signs_a_request_that_openssl_made(tmp_path):
    authority.make_authority(tmp_path / "authority", "wards")
    (tmp_path / "a").mkdir()
    openssl("req", "-new", "-newkey", "rsa:2048", "-nodes", "-keyout", tmp_path / "a" / "site.key", "-subj", "/CN=a",
            "-addext", "subjectAltName=DNS:a", "-out", tmp_path / "a" / "site.csr")  # fmt: skip
    signed = authority.sign_request(tmp_path / "authority", tmp_path / "a" / "site.csr", "a")
    authority.install(tmp_path / "a", signed, tmp_path / "authority")
    a = Identity.load(tmp_path / "a", "a")
    a.verify("a", a.certificate_pem, b"text", a.sign(b"text"))


def test_the_commands_of_the_page_make_a_site_that_is_let_in(tmp_path):
    page = (Path(__file__).parents[2] / "docs" / "organisations.md").read_text()
    (block,) = [each for each in re.findall(r"```sh\n(.*?)```", page, re.DOTALL) if "openssl x509" in each]
    made = Organisation(tmp_path / "ca", "rsa")
    subprocess.run(["sh", "-e", "-c", block], cwd=made.folder, check=True, capture_output=True)
    one = Identity.load(made.folder, "hospital-a")
    other = Identity.load(made.site(tmp_path / "b", "hospital-b", "ec"), "hospital-b")
    other.verify("hospital-a", one.certificate_pem, b"text", one.sign(b"text"))
    (block,) = [each for each in re.findall(r"```sh\n(.*?)```", page, re.DOTALL) if "openssl dgst" in each]
    (made.folder / "federation.toml").write_text(TEXT)
    subprocess.run(["sh", "-e", "-c", block], cwd=made.folder, check=True, capture_output=True)
    check_signature(Signed(TEXT, (made.folder / "federation.toml.sig").read_bytes()), other)
