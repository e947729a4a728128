"""Short questions between sites: where are you, and how fast is the way to you. They carry no models and no data.

Any site of the federation may ask; TLS and the list of revoked certificates hold as for links.
"""

import json
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

from crossgrad import __version__
from crossgrad.federation.channels import caller, metadata, open_channel, why_not
from crossgrad.federation.file import Federation
from crossgrad.federation.grpc_options import SERVICE, grpc, of_client, unanswered
from crossgrad.federation.identity import Identity
from crossgrad.federation.listener import printable
from crossgrad.federation.signatures import IdentityError

PROBE_BYTES = 512 << 10
FAST_BYTES_PER_SECOND = 1e9  # above which half a megabyte takes too little time to be measured
MAX_TOLD_LETTERS, MAX_NUMBER = 70, 1 << 62  # letters of a text, and a number, that another site told
MAX_ANSWER_BYTES = 1 << 16
MAX_TOLD_BYTES = 100

Where = Callable[[], dict[str, Any]]  # what a site tells of itself
Told = Callable[[str, "Way"], None]  # is given what another site has measured
TRIALS = 3  # of each measurement
PROBE_SECONDS = 30.0  # within which half a megabyte must get there
QUICK_SECONDS = 1.0  # above which a measurement is exact enough at the first trial


class UnreachableError(Exception):
    """A site cannot be asked; the text says why.

    Args:
        why: a sentence.
        unanswered: whether nobody has answered, so that a program that is not running, or a firewall, may be why.
    """

    def __init__(self, why: str, unanswered: bool = False) -> None:
        super().__init__(why)
        self.unanswered = unanswered


@dataclass(frozen=True)
class Answer:
    """What a site told of itself, as short texts that can be shown, and how long the way there takes."""

    about: dict[str, Any]
    seconds: float  # there and back
    clock: float  # seconds by which its clock is ahead of ours


class Way(NamedTuple):
    """How far and fast the way to a site is."""

    seconds: float  # there and back
    bytes_per_second: float

    def __str__(self) -> str:
        fast = self.bytes_per_second > FAST_BYTES_PER_SECOND
        megabytes, kilobytes = self.bytes_per_second / 1e6, self.bytes_per_second / 1e3
        rate = f"{megabytes:.1f} MB/s" if megabytes >= 1 else f"{kilobytes:.0f} kB/s"
        return f"{1000 * self.seconds:.1f} ms there and back, {'more than 1,000 MB/s' if fast else rate}"


def handlers(
    federation: Federation, identity: Identity, where: Where, told: Told = lambda site, way: None
) -> dict[str, Any]:
    """The methods of a site's server that answer questions."""

    def status(request: bytes, context: Any) -> bytes:
        _admit(federation, identity, context)
        about = {
            "site": identity.name,
            "crossgrad": __version__,
            "federation": federation.file_digest,
            "time": time.time(),
        }
        about |= {"version": federation.version, "encrypted": identity.encrypted}
        return json.dumps(about | where()).encode()

    def probe(request: bytes, context: Any) -> bytes:
        _admit(federation, identity, context)
        return str(len(request)).encode()

    def measured(request: bytes, context: Any) -> bytes:
        site = _admit(federation, identity, context)
        try:
            way = Way(*map(float, request[:MAX_TOLD_BYTES].split()))
        except (ValueError, TypeError):
            context.abort(grpc.StatusCode.INVALID_ARGUMENT, "two numbers were expected.")
        told(site, way)
        return b""

    return {
        "measured": grpc.unary_unary_rpc_method_handler(measured),
        "status": grpc.unary_unary_rpc_method_handler(status),
        "probe": grpc.unary_unary_rpc_method_handler(probe),
    }


def _admit(federation: Federation, identity: Identity, context: Any) -> str:
    try:
        return caller(federation, identity, context)
    except IdentityError as error:
        context.abort(grpc.StatusCode.PERMISSION_DENIED, str(error))
        raise


def _shown(value: object) -> str:
    return printable(str(value)[:MAX_TOLD_LETTERS])


def _plain(value: object) -> object:
    return value if value is None or (isinstance(value, int) and abs(value) < MAX_NUMBER) else _shown(value)


class Inquirer:
    """Asks one site."""

    def __init__(self, federation: Federation, identity: Identity, site: str, patience: float = 5.0) -> None:
        self.federation, self.identity, self.site, self.patience = federation, identity, site, patience
        agent = federation.number(site)
        if federation.sites[agent].listen is None:
            raise UnreachableError(
                f"{site} only dials out, so it cannot be asked; its neighbours can tell whether it takes part."
            )
        self.address = federation.address(agent)

    def status(self) -> Answer:
        """Where the site is.

        Raises:
            UnreachableError: with the reason.
        """
        content, seconds = self._ask("status", b"")
        try:
            about = json.loads(content[:MAX_ANSWER_BYTES])
            clock = float(about["time"]) - (time.time() - seconds / 2)
            links = {_shown(name): _shown(state) for name, state in about.get("links", {}).items()}
            about = {str(key): _plain(value) for key, value in about.items()} | {"links": links}
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
            raise UnreachableError(
                f"an answer of {self.site} was expected; what came cannot be read. Does crossgrad listen at "
                f"{self.address}?"
            ) from None
        return Answer(about, seconds, clock)

    def way(self) -> Way:
        """The shortest of some ways there and back, and how fast half a megabyte goes there beyond that."""
        far = min(self._ask("probe", b"")[1] for _ in range(TRIALS))
        with_load = self._ask("probe", bytes(PROBE_BYTES), PROBE_SECONDS)[1]
        if with_load < QUICK_SECONDS:
            with_load = min(with_load, *(self._ask("probe", bytes(PROBE_BYTES))[1] for _ in range(TRIALS - 1)))
        return Way(far, PROBE_BYTES / max(with_load - far, 1e-6))

    def tell(self, way: Way) -> None:
        """Let the site know what was measured here, as it may have no way to measure it."""
        self._ask("measured", f"{way.seconds} {way.bytes_per_second}".encode())

    def _ask(self, method: str, request: bytes, patience: float | None = None) -> tuple[bytes, float]:
        options, who = of_client(self.federation.timing.lost_after, self.site), metadata(self.identity)
        with open_channel(self.identity, self.address, options) as channel:
            try:
                call = channel.unary_unary(f"/{SERVICE}/{method}")
                # opens the connection, so that only the way is measured
                channel.unary_unary(f"/{SERVICE}/status")(b"", timeout=self.patience, metadata=who)
                began = time.monotonic()
                return call(request, timeout=patience or self.patience, metadata=who), time.monotonic() - began
            except grpc.RpcError as error:
                why = why_not(self.identity, error, self.site, self.address)
                raise UnreachableError(why, unanswered(error)) from None
