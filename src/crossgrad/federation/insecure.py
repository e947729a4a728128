"""Sites of one machine without encryption and without proof of who they are: for trials, by `--insecure` only."""

import ipaddress
from collections.abc import Iterable
from pathlib import Path
from typing import ClassVar

from cryptography import x509

from crossgrad.federation.certificates import check_name
from crossgrad.federation.file import Federation
from crossgrad.federation.identity import Identity

WARNING = (
    "WARNING: --insecure: NOTHING IS ENCRYPTED, and any program of this machine can pass for a site. For trials only, "
    "never with data that must not leave."
)


class Unproven(Identity):
    """A site that only says who it is."""

    encrypted: ClassVar[bool] = False

    @classmethod
    def named(cls, name: str) -> "Unproven":
        return cls(check_name(name), None, b"", b"", b"", Path())  # type: ignore[arg-type]  # no key is used

    def check(self, shown: list[x509.Certificate], name: str) -> None:
        """No-op: there are no certificates."""

    def sign(self, text: bytes) -> bytes:
        return b""

    def verify(self, name: str, certificate_pem: bytes, text: bytes, signature: bytes) -> None:
        """No-op: nothing is proven."""


def insecure_site(federation: Federation, name: str) -> Unproven:
    """A site without certificates.

    Raises:
        ValueError: the site or one of its neighbours has an address that is not of this machine alone.
    """
    agent = federation.number(name)
    check_loopback(federation, [agent, *federation.neighbours(agent)])
    return Unproven.named(name)


def check_loopback(federation: Federation, agents: Iterable[int]) -> None:
    """Raise ValueError unless all addresses of these sites are of this machine alone."""
    for agent in agents:
        entry = federation.sites[agent]
        for key, address in (("listen", entry.listen), ("address", entry.address)):
            if address is not None and not _is_loopback(address):
                raise ValueError(
                    "--insecure sends everything unencrypted, so a site and its neighbours must have loopback "
                    f"addresses only, such as 127.0.0.1:7443; {entry.name} has {key} = {address!r}. Leave --insecure "
                    "out, and make certificates (docs/organisations.md)."
                )


def _is_loopback(address: str) -> bool:
    host = address.rpartition(":")[0].strip("[]")
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
