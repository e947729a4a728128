"""The federation's certificate authority: a folder with its key, to sign sites' requests and revoke certificates."""

import datetime
import json
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization

from crossgrad._storage import atomic
from crossgrad.federation.certificates import REVOKED, check_name, load_certificate, now, site_name, subject, usage
from crossgrad.federation.identity import (
    AUTHORITY,
    AUTHORITY_DAYS,
    AUTHORITY_KEY,
    CERTIFICATE,
    KEY,
    REQUEST,
    SITE_DAYS,
    load_key,
    new_key,
    read_pem,
)
from crossgrad.federation.signatures import IdentityError

ISSUED = "issued.json"
CLOCKS = datetime.timedelta(minutes=5)  # by which clocks may differ
PEM = serialization.Encoding.PEM


def make_authority(folder: Path, name: str) -> None:
    """Make the key and the certificate of a federation's authority in a new folder."""
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    key = new_key(folder / AUTHORITY_KEY)
    certificate = (
        x509.CertificateBuilder()
        .subject_name(subject(f"{name} authority"))
        .issuer_name(subject(f"{name} authority"))
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now() - CLOCKS)
        .not_valid_after(now() + datetime.timedelta(days=AUTHORITY_DAYS))
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .sign(key, hashes.SHA256())
    )
    atomic.write(folder / AUTHORITY, [certificate.public_bytes(PEM)])
    _list_revoked(folder, [])


def make_request(folder: Path, name: str) -> Path:
    """Make a site's key and its request for a certificate; the request is what leaves the site."""
    check_name(name)
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    key = new_key(folder / KEY)
    request = (
        x509.CertificateSigningRequestBuilder()
        .subject_name(subject(name))
        .add_extension(x509.SubjectAlternativeName([x509.DNSName(name)]), critical=False)
        .sign(key, hashes.SHA256())
    )
    atomic.write(folder / REQUEST, [request.public_bytes(PEM)])
    return folder / REQUEST


def sign_request(folder: Path, path: Path, name: str, days: int = SITE_DAYS) -> bytes:
    """Sign a site's request and return its certificate; `name` is the site from which the request was received."""
    content = read_pem(path)
    try:
        request = x509.load_pem_x509_csr(content)
    except ValueError:
        raise IdentityError(
            f"{path} must be a request for a certificate in PEM form, as `crossgrad site init` writes it; it is not. "
            "Ask "
            "the site for it again."
        ) from None
    if not request.is_signature_valid:
        raise IdentityError(
            f"{path} must be as the site made it; its signature does not fit, so it was changed. Ask the site for it "
            "again."
        )
    if (found := site_name(request)) != check_name(name):  # type: ignore[arg-type]  # has the same extensions
        raise IdentityError(
            f"{path} must ask for the name {name!r}; it asks for {found!r}. Give the name of the site that it came "
            "from."
        )
    authority = load_certificate(read_pem(folder / AUTHORITY), str(folder / AUTHORITY))
    certificate = (
        x509.CertificateBuilder()
        .subject_name(subject(name))
        .issuer_name(authority.subject)
        .public_key(request.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now() - CLOCKS)
        .not_valid_after(now() + datetime.timedelta(days=days))
        .add_extension(x509.SubjectAlternativeName([x509.DNSName(name)]), critical=False)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(usage(), critical=False)
        .sign(load_key(folder / AUTHORITY_KEY), hashes.SHA256())
    )
    issued = _issued(folder)
    issued.append({"name": name, "serial": str(certificate.serial_number), "revoked": False})
    atomic.write(folder / ISSUED, [json.dumps(issued, indent=1).encode()])
    return certificate.public_bytes(PEM)


def revoke(folder: Path, name: str) -> Path:
    """Revoke all certificates of a site. The list that this writes must be given to the other sites."""
    issued = _issued(folder)
    if name not in {entry["name"] for entry in issued}:
        raise IdentityError(
            f"{folder} must have signed a certificate for {name!r} to revoke it; it has signed for "
            f"{', '.join(sorted({str(entry['name']) for entry in issued})) or 'nobody'}. Correct the name."
        )
    for entry in issued:
        entry["revoked"] = entry["revoked"] or entry["name"] == name
    atomic.write(folder / ISSUED, [json.dumps(issued, indent=1).encode()])
    return _list_revoked(folder, [int(str(entry["serial"])) for entry in issued if entry["revoked"]])


def install(folder: Path, certificate: bytes, authority: Path) -> None:
    """Put a signed certificate, the authority's and its list of revoked ones into a site's folder."""
    atomic.write(folder / CERTIFICATE, [certificate])
    for name in (AUTHORITY, REVOKED):
        atomic.write(folder / name, [read_pem(authority / name)])


def check_authority(folder: Path) -> None:
    """Raise unless the folder holds an authority."""
    if not (folder / AUTHORITY_KEY).exists():
        raise IdentityError(
            f"{folder} must hold an authority; it has no {AUTHORITY_KEY}. `crossgrad federation init {folder}` makes "
            "one."
        )


def _issued(folder: Path) -> list[dict[str, object]]:
    check_authority(folder)
    found = atomic.read_json(folder / ISSUED) if (folder / ISSUED).exists() else []
    assert isinstance(found, list)
    return found


def _list_revoked(folder: Path, serials: list[int]) -> Path:
    authority = load_certificate(read_pem(folder / AUTHORITY), str(folder / AUTHORITY))
    made = (
        x509.CertificateRevocationListBuilder()
        .issuer_name(authority.subject)
        .last_update(now() - CLOCKS)
        .next_update(now() + datetime.timedelta(days=AUTHORITY_DAYS))
    )
    for serial in serials:
        entry = x509.RevokedCertificateBuilder().serial_number(serial).revocation_date(now() - CLOCKS)
        made = made.add_revoked_certificate(entry.build())
    atomic.write(folder / REVOKED, [made.sign(load_key(folder / AUTHORITY_KEY), hashes.SHA256()).public_bytes(PEM)])
    return folder / REVOKED
