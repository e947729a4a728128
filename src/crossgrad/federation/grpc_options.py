"""Options of gRPC for links: limits, keep-alive, quick reconnection; and its errors as sentences."""

import os
import threading
from collections.abc import Callable
from typing import Any

os.environ.setdefault("GRPC_ENABLE_FORK_SUPPORT", "0")  # with it, workers of a DataLoader stall for seconds
os.environ.setdefault("GRPC_VERBOSITY", "NONE")  # a stranger on the port must not fill the disk with lines

import grpc as grpc

METHOD = "open"
SERVICE = "crossgrad.Link"
MAX_FRAME_BYTES = 1 << 20
HANDSHAKE_SECONDS = 5.0

ChannelOptions = list[tuple[str, int | str]]


def common(lost_after: float) -> ChannelOptions:
    """Options of both ends. gRPC's ping waits behind data, so its timeout must be longer than that of our own pings."""
    return [
        ("grpc.max_receive_message_length", MAX_FRAME_BYTES),
        ("grpc.max_send_message_length", MAX_FRAME_BYTES),
        ("grpc.keepalive_time_ms", max(2000, int(500 * lost_after))),
        ("grpc.keepalive_timeout_ms", int(2000 * lost_after)),
        ("grpc.http2.ping_timeout_ms", int(2000 * lost_after)),
        ("grpc.http2.max_pings_without_data", 0),
        ("grpc.keepalive_permit_without_calls", 1),
    ]


def of_client(lost_after: float, peer: str) -> ChannelOptions:
    return [
        *common(lost_after),
        ("grpc.initial_reconnect_backoff_ms", 200),
        ("grpc.min_reconnect_backoff_ms", int(1000 * HANDSHAKE_SECONDS)),  # despite its name, the time to connect in
        ("grpc.max_reconnect_backoff_ms", 1000),
        ("grpc.ssl_target_name_override", peer),
        ("grpc.use_local_subchannel_pool", 1),
    ]


def of_server(lost_after: float, edges: int) -> ChannelOptions:
    return [
        *common(lost_after),
        ("grpc.http2.min_recv_ping_interval_without_data_ms", 1000),
        ("grpc.http2.max_ping_strikes", 0),
        ("grpc.so_reuseport", 0),
        ("grpc.server_handshake_timeout_ms", int(1000 * HANDSHAKE_SECONDS)),
        ("grpc.max_concurrent_streams", 3),
    ]


def limited(seconds: float, cancel: Callable[[], Any]) -> threading.Timer:
    """A timer that cancels a call after so many seconds, unless it is cancelled before."""
    timer = threading.Timer(seconds, cancel)
    timer.daemon = True
    timer.start()
    return timer


REASONS = {
    "unable to get local issuer": "{peer} shows a certificate of another authority; compare authority.crt of both",
    "certificate has expired": "the certificate of {peer} has expired",
    "not yet valid": "the certificate of {peer} is not valid yet; compare the clocks of the machines",
    "self signed certificate": "{peer} shows a certificate that it signed itself",
    "self-signed certificate": "{peer} shows a certificate that it signed itself",
    "Hostname Verification Check failed": "who answers at {address} is not {peer}: its certificate has another name",
    "Peer name": "who answers at {address} is not {peer}: its certificate has another name",
    "Socket closed": (
        "{peer} closed the connection at its beginning: it probably does not accept our certificate (compare "
        "authority.crt and the clocks of both), or only one of us was started with --insecure"
    ),
    "TSI_PROTOCOL_FAILURE": (
        "who answers at {address} does not speak TLS: another program, or {peer} was started with --insecure and we "
        "were not"
    ),
    "Endpoint clos": (  # gRPC cuts its details short
        "{peer} at {address} takes connections and does not answer: its program hangs or is stopped, or the machine "
        "has too much to do"
    ),
    "Connection refused": "nobody listens at {address}",
    "Network is unreachable": "there is no way to {address} from here",
    "No route to host": "no machine answers at {address}",
    "DNS resolution failed": "the name in {address} is not known",
    "Name or service not known": "the name in {address} is not known",
    "errors resolving": "the name in {address} is not known",
}
UNANSWERED = ("Connection refused", "Network is unreachable", "No route to host")


def reason(error: "grpc.RpcError", peer: str, address: str) -> str:
    """A sentence that says why a connection could not be opened or was ended."""
    code = error.code() if hasattr(error, "code") else None
    details = _details(error)
    if code is grpc.StatusCode.PERMISSION_DENIED:
        return f"{peer} refused: {details[:300]}"
    if code is grpc.StatusCode.DEADLINE_EXCEEDED:
        return f"{peer} at {address} does not answer in time"
    if (mark := _mark(details)) is not None:
        return REASONS[mark].format(peer=peer, address=address)
    return f"the connection to {peer} at {address} ended ({getattr(code, 'name', 'lost')}: {details[:120]})"


def unanswered(error: "grpc.RpcError") -> bool:
    """Whether nobody has answered, so that a program that is not running, or a firewall, may be the reason."""
    refused = hasattr(error, "code") and error.code() is grpc.StatusCode.PERMISSION_DENIED
    return not refused and _mark(_details(error)) in (None, *UNANSWERED)


def _details(error: "grpc.RpcError") -> str:
    return str(error.details() if hasattr(error, "details") else error) or ""


def _mark(details: str) -> str | None:
    """The first of the known marks of a reason."""
    return next((mark for mark in REASONS if mark in details), None)
