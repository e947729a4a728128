"""gRPC's channels and ports with a site's certificates, and who is at the other end.

Both ends show a certificate, in TLS 1.3. Without encryption (insecure.py) the other end only says who it is.
"""

from collections.abc import Callable
from typing import Any

from crossgrad.federation.certificates import load_certificates, site_name
from crossgrad.federation.file import Federation
from crossgrad.federation.grpc_options import ChannelOptions, grpc, reason
from crossgrad.federation.identity import Identity
from crossgrad.federation.signatures import IdentityError

SITE = "site"  # who calls, where there is no encryption
Metadata = tuple[tuple[str, str], ...]


def open_channel(identity: Identity, address: str, options: ChannelOptions) -> Any:
    """A channel to another site."""
    if not identity.encrypted:  # it must not leave the machine by a proxy
        return grpc.insecure_channel(address, options=[*options, ("grpc.enable_http_proxy", 0)])
    credentials = grpc.ssl_channel_credentials(identity.authority_pem, identity.key_pem, identity.certificate_pem)
    return grpc.secure_channel(address, credentials, options=options)


def open_port(server: Any, identity: Identity, address: str, began: Callable[[], None]) -> None:
    """Let a server listen, and call `began` before each connection. Raises RuntimeError if it cannot."""
    if not identity.encrypted:
        server.add_insecure_port(address)
        return
    pair = (identity.key_pem, identity.certificate_pem)
    shown = grpc.ssl_server_certificate_configuration([pair], identity.authority_pem)
    credentials = grpc.dynamic_ssl_server_credentials(shown, began, require_client_authentication=True)
    server.add_secure_port(address, credentials)


def metadata(identity: Identity) -> Metadata:
    """What goes with every call: without certificates, who calls."""
    return () if identity.encrypted else ((SITE, identity.name),)


def why_not(identity: Identity, error: "grpc.RpcError", peer: str, address: str) -> str:
    """A sentence that says why another site could not be reached; where it just closed, a fault of our certificate."""
    if identity.encrypted and "Socket closed" in str(error):
        try:
            identity.check(load_certificates(identity.certificate_pem, "our certificate"), identity.name)
        except IdentityError as fault:
            return f"no site lets us in: {fault}"
    return reason(error, peer, address)


def caller(federation: Federation, identity: Identity, context: Any) -> str:
    """The name of the site that calls: by the certificate that TLS has checked, unless it is revoked or of no site."""
    if identity.encrypted:
        about = context.auth_context()
        if about.get("ssl_tls_version", [b"TLSv1.3"])[0] != b"TLSv1.3":
            raise IdentityError("a connection between sites must have TLS 1.3; an older one was tried. Update OpenSSL.")
        pem = b"".join(about.get("x509_pem_cert", []) + about.get("x509_pem_cert_chain", []))
        shown = load_certificates(pem, "what the site that calls showed")  # its own first
        name = site_name(shown[0])
    else:
        name, shown = str(dict(context.invocation_metadata()).get(SITE, "")), []
    if name not in {entry.name for entry in federation.sites}:
        raise IdentityError(f"{name!r} is not a site of this federation. Compare the names in federation.toml.")
    identity.check(shown, name)
    return name
