"""What a site's certificate must be: of the site's name, from the federation's authority, valid today, not revoked.

The authority may be the one of `crossgrad federation init`, or one that an organisation has, with intermediate
authorities: `site.crt` then has the site's certificate first and the intermediate ones behind it, and `authority.crt`
has the roots.
"""

import datetime
import re
from collections.abc import Sequence
from typing import TypeVar

from cryptography import x509
from cryptography.exceptions import InvalidSignature
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from crossgrad.federation.signatures import IdentityError

NAME = re.compile(r"[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?")
REVOKED = "revoked.pem"
MAX_CHAIN = 6  # certificates from a site's to a root
LIST = re.compile(rb"-----BEGIN X509 CRL-----.+?-----END X509 CRL-----", re.DOTALL)
Extension = TypeVar("Extension", bound=x509.ExtensionType)
PURPOSES = {ExtendedKeyUsageOID.SERVER_AUTH: "serverAuth", ExtendedKeyUsageOID.CLIENT_AUTH: "clientAuth"}


def check_name(name: str) -> str:
    """Return the name. Raises IdentityError unless a site may have it."""
    if not NAME.fullmatch(name):
        raise IdentityError(
            f"a site's name must be made of lower-case letters, digits and hyphens, such as hospital-a; found {name!r}."
        )
    return name


def now() -> datetime.datetime:
    return datetime.datetime.now(datetime.UTC)


def load_certificates(content: bytes, what: str) -> list[x509.Certificate]:
    """All certificates of a PEM text, in their order: at least one."""
    try:
        return x509.load_pem_x509_certificates(content)
    except ValueError:
        raise IdentityError(
            f"{what} must be a certificate in PEM form; it is not. Copy it again from the one who signed it."
        ) from None


def load_certificate(content: bytes, what: str) -> x509.Certificate:
    """The first certificate of a PEM text."""
    return load_certificates(content, what)[0]


def site_name(certificate: x509.Certificate) -> str:
    """The site of a certificate: its only DNS name without a dot. Others may be names of machines.

    One without is refused, as TLS would then use its subject.
    """
    try:
        names = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
        found = [name for name in names.get_values_for_type(x509.DNSName) if "." not in name]
    except (x509.ExtensionNotFound, ValueError):
        found = []
    if len(found) != 1:
        raise IdentityError(
            "a site's certificate must have one DNS name without a dot among its alternative names, that of the site; "
            f"found {', '.join(map(repr, found)) or 'none'}. Ask for one with that name."
        )
    return found[0]


def check_certificate(
    shown: Sequence[x509.Certificate], name: str, trusted: Sequence[x509.Certificate], revoked: bytes | None
) -> None:
    """Raise unless this is the site's certificate, from a trusted authority, valid today and not revoked.

    Args:
        shown: the site's certificate, and those of intermediate authorities.
        name: of the site.
        trusted: certificates of authorities.
        revoked: lists of revoked certificates in PEM form.
    """
    if (found := site_name(shown[0])) != name:
        raise IdentityError(f"the certificate must be for {name!r}; it is for {found!r}. Use the one of {name}.")
    chain = _chain(shown, name, trusted)
    for certificate in chain:
        _check_dates(certificate, name if certificate is shown[0] else f"the authority of {name}")
    _check_usage(shown[0], name)
    if revoked is not None and _is_revoked(chain, [*trusted, *shown[1:]], revoked):
        raise IdentityError(
            f"the certificate of {name} must not be revoked; it is in {REVOKED}. Sign a new one if it is to take part."
        )


def _chain(shown: Sequence[x509.Certificate], name: str, trusted: Sequence[x509.Certificate]) -> list[x509.Certificate]:
    """The certificates from a site's to that of a trusted authority."""
    chain, authorities = [shown[0]], [*trusted, *shown[1:]]
    while len(chain) == 1 or chain[-1] not in trusted:
        last, below = chain[-1], len(chain) - 1
        signers = [each for each in authorities if each not in chain and _has_signed(each, last, below)]
        if not signers or len(chain) == MAX_CHAIN:
            raise IdentityError(
                f"the certificate of {name} must be signed by this federation's authority; it is not. Compare "
                "authority.crt of both sites; certificates of intermediate authorities belong into site.crt."
            )
        chain.append(signers[0])
    return chain


def _has_signed(authority: x509.Certificate, certificate: x509.Certificate, below: int) -> bool:
    """Whether an authority has signed a certificate, and may, with so many intermediate ones below it."""
    try:
        certificate.verify_directly_issued_by(authority)
        basic = authority.extensions.get_extension_for_class(x509.BasicConstraints).value
    except (ValueError, TypeError, InvalidSignature, x509.ExtensionNotFound):
        return False
    usage = _extension(authority, x509.KeyUsage)
    may_sign = usage is None or usage.key_cert_sign
    return basic.ca and may_sign and (basic.path_length is None or below <= basic.path_length)


def _check_dates(certificate: x509.Certificate, whose: str) -> None:
    if certificate.not_valid_after_utc < now():
        raise IdentityError(
            f"the certificate of {whose} must be valid today; it expired on "
            f"{certificate.not_valid_after_utc:%Y-%m-%d}. Ask "
            "for a new one."
        )
    if certificate.not_valid_before_utc > now():
        raise IdentityError(
            f"the certificate of {whose} must be valid today; it begins on "
            f"{certificate.not_valid_before_utc:%Y-%m-%d %H:%M} "
            "UTC. Compare the clocks of the machines."
        )


def _check_usage(certificate: x509.Certificate, name: str) -> None:
    """A site is a client of some neighbours and the server of others."""
    extended, usage = _extension(certificate, x509.ExtendedKeyUsage), _extension(certificate, x509.KeyUsage)
    missing = [text for purpose, text in PURPOSES.items() if extended is not None and purpose not in extended]
    if usage is not None and not usage.digital_signature:
        missing.append("digitalSignature")
    if missing:
        raise IdentityError(
            f"the certificate of {name} must be for servers and clients of TLS; its key usage lacks "
            f"{', '.join(missing)}. Ask for a new one."
        )


def _extension(certificate: x509.Certificate, kind: type[Extension]) -> Extension | None:
    """The value of an extension; None if the certificate does not have it."""
    try:
        return certificate.extensions.get_extension_for_class(kind).value
    except (x509.ExtensionNotFound, ValueError):
        return None


def revocation_lists(content: bytes) -> list[x509.CertificateRevocationList]:
    """All lists of a PEM text."""
    try:
        found = [x509.load_pem_x509_crl(each) for each in LIST.findall(content)]
    except ValueError:
        found = []
    if not found:
        raise IdentityError(
            f"{REVOKED} must be a list of revoked certificates in PEM form; it is not. Copy it again from the one who "
            "runs the authority."
        )
    return found


def _is_revoked(chain: Sequence[x509.Certificate], authorities: Sequence[x509.Certificate], content: bytes) -> bool:
    for listed in revocation_lists(content):
        if not any(listed.is_signature_valid(each.public_key()) for each in authorities):  # type: ignore[arg-type]
            raise IdentityError(
                f"{REVOKED} must be signed by this federation's authority; it is not. Copy it again from the one who "
                "runs the "
                "authority; those of intermediate authorities need their certificates in authority.crt."
            )
        for certificate in chain:
            numbered = listed.get_revoked_certificate_by_serial_number(certificate.serial_number)
            if certificate.issuer == listed.issuer and numbered is not None:
                return True
    return False


def subject(name: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])


def usage() -> x509.ExtendedKeyUsage:
    return x509.ExtendedKeyUsage(list(PURPOSES))
