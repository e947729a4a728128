"""The identity of a site: a key that never leaves it, and a certificate for its name, signed by the authority.

EC P-256 keys, X.509 certificates whose name is the site's, in the subject and as the only DNS name. An organisation
that has an authority of its own can use that instead: what counts is the name, the dates and the signature.
"""

import datetime
import os
import re
from dataclasses import dataclass
from pathlib import Path

from cryptography import x509
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

NAME = re.compile(r"[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?")
SITE_DAYS = 365
AUTHORITY_DAYS = 3650
MAX_FILE_BYTES = 1 << 16
KEY, REQUEST, CERTIFICATE, AUTHORITY, REVOKED = "site.key", "site.csr", "site.crt", "authority.crt", "revoked.pem"
AUTHORITY_KEY = "authority.key"

PrivateKey = ec.EllipticCurvePrivateKey


class IdentityError(ValueError):
    """A key or certificate cannot be used; the text says why and what to do."""


def check_name(name: str) -> str:
    """Return the name. Raises IdentityError unless a site may have it."""
    if not NAME.fullmatch(name):
        raise IdentityError(
            f"a site's name is made of lower-case letters, digits and hyphens, such as hospital-a; found {name!r}."
        )
    return name


def now() -> datetime.datetime:
    return datetime.datetime.now(datetime.UTC)


def new_key(path: Path) -> PrivateKey:
    """Make a key, readable by its owner only; never over an existing one."""
    key = ec.generate_private_key(ec.SECP256R1())
    content = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    try:
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    except FileExistsError:
        raise IdentityError(f"{path} exists, and a key is never replaced. Use it, or remove it yourself.") from None
    with os.fdopen(descriptor, "wb") as file:
        file.write(content)
    return key


def read_pem(path: Path) -> bytes:
    """A small file's content."""
    if not path.exists():
        raise IdentityError(f"{path} is missing. docs/organisations.md says where it comes from.")
    with path.open("rb") as file:
        content = file.read(MAX_FILE_BYTES + 1)
    if len(content) > MAX_FILE_BYTES:
        raise IdentityError(f"{path} is too large to be a key or a certificate.")
    return content


def load_key(path: Path) -> PrivateKey:
    content = read_pem(path)
    try:
        key = serialization.load_pem_private_key(content, None)
    except (ValueError, TypeError):
        raise IdentityError(f"{path} is not a private key in PEM form.") from None
    if not isinstance(key, ec.EllipticCurvePrivateKey):
        raise IdentityError(f"{path} must be a key on an elliptic curve; `crossgrad site init` makes one.")
    return key


def load_certificate(content: bytes, what: str) -> x509.Certificate:
    try:
        return x509.load_pem_x509_certificate(content)
    except ValueError:
        raise IdentityError(f"{what} is not a certificate in PEM form.") from None


def site_name(certificate: x509.Certificate) -> str:
    """The only DNS name of a certificate. One without is refused, as TLS would then use its subject."""
    try:
        names = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
        found = names.get_values_for_type(x509.DNSName)
    except (x509.ExtensionNotFound, ValueError):
        found = []
    if len(found) != 1:
        raise IdentityError(f"a site's certificate must have one DNS name, that of the site; found {len(found)}.")
    return found[0]


def check_certificate(
    certificate: x509.Certificate, name: str, authority: x509.Certificate, revoked: bytes | None
) -> None:
    """Raise unless the certificate is this site's, signed by the authority, valid today and not revoked."""
    if (found := site_name(certificate)) != name:
        raise IdentityError(f"the certificate is for {found!r}, not for {name!r}.")
    try:
        certificate.verify_directly_issued_by(authority)
    except (ValueError, TypeError, InvalidSignature):
        raise IdentityError(f"the certificate of {name} was not signed by this federation's authority.") from None
    if certificate.not_valid_after_utc < now():
        raise IdentityError(f"the certificate of {name} expired on {certificate.not_valid_after_utc:%Y-%m-%d}.")
    if certificate.not_valid_before_utc > now():
        raise IdentityError(
            f"the certificate of {name} is valid from {certificate.not_valid_before_utc:%Y-%m-%d %H:%M} UTC on only; "
            "compare the clocks of the machines."
        )
    if revoked is not None and _is_revoked(certificate, authority, revoked):
        raise IdentityError(f"the certificate of {name} has been revoked.")


def _is_revoked(certificate: x509.Certificate, authority: x509.Certificate, content: bytes) -> bool:
    try:
        listed = x509.load_pem_x509_crl(content)
    except ValueError:
        raise IdentityError(f"{REVOKED} is not a list of revoked certificates in PEM form.") from None
    if not listed.is_signature_valid(authority.public_key()):  # type: ignore[arg-type]
        raise IdentityError(f"{REVOKED} was not signed by this federation's authority.")
    return listed.get_revoked_certificate_by_serial_number(certificate.serial_number) is not None


@dataclass(frozen=True)
class Identity:
    """A site's key and certificate, and the authority that it trusts."""

    name: str
    key: PrivateKey
    key_pem: bytes
    certificate_pem: bytes
    authority_pem: bytes
    folder: Path

    @classmethod
    def load(cls, folder: Path, name: str) -> "Identity":
        """Read and check the files of a site's folder: dates, authority, name, and that the key fits."""
        key, certificate_pem = load_key(folder / KEY), read_pem(folder / CERTIFICATE)
        authority_pem = read_pem(folder / AUTHORITY)
        identity = cls(check_name(name), key, read_pem(folder / KEY), certificate_pem, authority_pem, folder)
        certificate = load_certificate(certificate_pem, str(folder / CERTIFICATE))
        identity.check(certificate, name)
        if certificate.public_key() != key.public_key():
            raise IdentityError(f"{folder / KEY} is not the key of {folder / CERTIFICATE}. Ask for a new certificate.")
        return identity

    def check(self, certificate: x509.Certificate, name: str) -> None:
        """Raise unless a certificate is that of this site, today; the list of revoked ones is read anew."""
        authority = load_certificate(self.authority_pem, str(self.folder / AUTHORITY))
        listed = self.folder / REVOKED
        check_certificate(certificate, name, authority, read_pem(listed) if listed.exists() else None)

    def sign(self, text: bytes) -> bytes:
        return self.key.sign(text, ec.ECDSA(hashes.SHA256()))

    def verify(self, name: str, certificate_pem: bytes, text: bytes, signature: bytes) -> None:
        """Raise unless this text was signed by the site of that name."""
        certificate = load_certificate(certificate_pem, f"what {name} showed")
        self.check(certificate, name)
        public = certificate.public_key()
        try:
            assert isinstance(public, ec.EllipticCurvePublicKey)
            public.verify(signature, text, ec.ECDSA(hashes.SHA256()))
        except (InvalidSignature, AssertionError):
            raise IdentityError(f"{name} did not sign this very greeting; it may be a replayed one.") from None


def subject(name: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])


def usage() -> x509.ExtendedKeyUsage:
    return x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH, ExtendedKeyUsageOID.CLIENT_AUTH])
