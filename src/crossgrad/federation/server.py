"""The port of a site: mutual TLS, limits against strangers, and the methods that neighbours may call."""

from concurrent.futures import ThreadPoolExecutor
from typing import Any

from crossgrad.federation.channels import open_port
from crossgrad.federation.file import Federation
from crossgrad.federation.grpc_options import SERVICE, grpc, of_server
from crossgrad.federation.identity import Identity
from crossgrad.federation.tls_refusals import TlsRefusals

SPARE_THREADS = 6


def serve(federation: Federation, identity: Identity, methods: dict[str, Any], refusals: TlsRefusals) -> Any:
    """Listen at the site's address; the server that has been started.

    Raises:
        ValueError: the port is taken, or the address is not one of this machine.
    """
    agent = federation.number(identity.name)
    address = federation.sites[agent].listen or ""
    edges = len(federation.neighbours(agent))
    threads = 2 * edges + SPARE_THREADS
    pool = ThreadPoolExecutor(threads, thread_name_prefix="link")
    options = of_server(federation.timing.lost_after, edges)
    server = grpc.server(pool, options=options, maximum_concurrent_rpcs=threads)
    watched = {name: refusals.watched(handler) for name, handler in methods.items()}
    server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(SERVICE, watched),))
    try:
        open_port(server, identity, address, refusals.began)
    except RuntimeError:
        raise ValueError(
            f"{identity.name} must be able to listen at {address}; the port is taken, or the address is not one of "
            "this "
            "machine. Change `listen`, or end what uses it."
        ) from None
    server.start()
    return server
