"""The identity of a site: a key that never leaves it, and a certificate for its name, signed by the authority.

`crossgrad site init` makes EC P-256 keys. An organisation that has an authority of its own can use that instead: what
counts is the name, the dates, the usage and the signature (certificates.py).
"""

import os
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

from cryptography import x509
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec

from crossgrad._storage import atomic
from crossgrad.federation import signatures
from crossgrad.federation.certificates import REVOKED, check_certificate, check_name, load_certificates
from crossgrad.federation.signatures import IdentityError, PrivateKey, read_key

SITE_DAYS = 365
AUTHORITY_DAYS = 3650
MAX_FILE_BYTES = 1 << 16
KEY, REQUEST, CERTIFICATE, AUTHORITY = "site.key", "site.csr", "site.crt", "authority.crt"
AUTHORITY_KEY = "authority.key"


def new_key(path: Path) -> ec.EllipticCurvePrivateKey:
    """Make a key, readable by its owner only; never over an existing one."""
    key = ec.generate_private_key(ec.SECP256R1())
    content = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    try:
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    except FileExistsError:
        raise IdentityError(
            f"{path} must not be there yet, as a key is never replaced; it is. Use it, or remove it yourself."
        ) from None
    with os.fdopen(descriptor, "wb") as file:
        file.write(content)
    return key


def read_pem(path: Path) -> bytes:
    """A small file's content."""
    if not path.exists():
        raise IdentityError(f"{path} must be there; it is missing. docs/organisations.md says where it comes from.")
    with atomic.open_regular(path) as file:
        content = file.read(MAX_FILE_BYTES + 1)
    if len(content) > MAX_FILE_BYTES:
        raise IdentityError(
            f"{path} must have at most {MAX_FILE_BYTES:,} bytes, as keys and certificates do; it has more. Copy it "
            "again."
        )
    return content


def load_key(path: Path) -> PrivateKey:
    """The private key of a file."""
    return read_key(read_pem(path), path)


@dataclass(frozen=True)
class Identity:
    """A site's key and certificate, and the authority that it trusts."""

    name: str
    key: PrivateKey
    key_pem: bytes
    certificate_pem: bytes  # and those of intermediate authorities
    authority_pem: bytes
    folder: Path

    encrypted: ClassVar[bool] = True  # whether links have TLS, which proves who is at the other end

    @classmethod
    def load(cls, folder: Path, name: str) -> "Identity":
        """Read and check the files of a site's folder: dates, authority, name, and that the key fits."""
        key, certificate_pem = load_key(folder / KEY), read_pem(folder / CERTIFICATE)
        authority_pem = read_pem(folder / AUTHORITY)
        identity = cls(check_name(name), key, read_pem(folder / KEY), certificate_pem, authority_pem, folder)
        shown = load_certificates(certificate_pem, str(folder / CERTIFICATE))
        identity.check(shown, name)
        if shown[0].public_key() != key.public_key():
            raise IdentityError(
                f"{folder / KEY} must be the key of the first certificate in {folder / CERTIFICATE}; it is not. Ask "
                "for a "
                "new certificate."
            )
        return identity

    @property
    def trusted(self) -> list[x509.Certificate]:
        """The certificates of the authorities that this site trusts."""
        return load_certificates(self.authority_pem, str(self.folder / AUTHORITY))

    def check(self, shown: list[x509.Certificate], name: str) -> None:
        """Raise unless a certificate is that of this site, today; the list of revoked ones is read anew."""
        listed = self.folder / REVOKED
        check_certificate(shown, name, self.trusted, read_pem(listed) if listed.exists() else None)

    def listed_at(self) -> int | None:
        """When the list of revoked certificates was written; None if there is none."""
        try:
            return (self.folder / REVOKED).stat().st_mtime_ns
        except OSError:
            return None

    def sign(self, text: bytes) -> bytes:
        return signatures.sign(self.key, text)

    def verify(self, name: str, certificate_pem: bytes, text: bytes, signature: bytes) -> None:
        """Raise unless this text was signed by the site of that name."""
        shown = load_certificates(certificate_pem, f"what {name} showed")
        self.check(shown, name)
        if not signatures.has_signed(shown[0].public_key(), text, signature):
            raise IdentityError(
                f"{name} must have signed this very greeting; it has not, and may have sent a replayed one."
            )
