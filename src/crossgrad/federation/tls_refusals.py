"""Connections that TLS refuses, of which gRPC tells a server no more than that they began."""

import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from typing import Any

from crossgrad.federation.grpc_options import HANDSHAKE_SECONDS, grpc

MISSING_REPEAT_SECONDS = 60.0  # between two sentences, so that a stranger cannot fill the disk with them
STRANGERS_REPEAT_SECONDS = 3600.0  # the same, while no neighbour is missing
SAME_CONNECTION_SECONDS = 60.0  # between calls; after them the address may be another connection's
STOPPED_SECONDS = 5.0  # between two looks, after which this process was stopped
MAX_BEGUN = 100_000  # that are counted at a time


class TlsRefusals:
    """Counts connections that began and on which no call came, and says how many there were.

    Args:
        say: writes a sentence.
        missing: names of the neighbours that dial this site and are not connected.
    """

    patience = 2 * HANDSHAKE_SECONDS  # seconds within which a call must come

    def __init__(self, say: Callable[[str], None], missing: Callable[[], Sequence[str]] = lambda: ()) -> None:
        self._say, self._missing = say, missing
        self._lock = threading.Lock()  # gRPC's threads note what the site's own looks at
        self._begun: deque[float] = deque(maxlen=MAX_BEGUN)  # of connections without a call so far
        self._called: dict[str, float] = {}  # addresses of those with one
        self._said: float | None = None
        self._refused = 0
        self._looked = time.monotonic()
        self._counts_from = 0.0

    def began(self) -> None:
        """Note a connection; gRPC calls this before each, and takes None as "with the same certificate"."""
        now = time.monotonic()
        with self._lock:
            if now >= self._counts_from:
                self._begun.append(now)

    def watched(self, handler: Any) -> Any:
        """A handler of a method that notes that a connection has come through TLS."""
        kind = "stream_stream" if handler.stream_stream else "unary_unary"
        answer = getattr(handler, kind)

        def noted(request: Any, context: Any) -> Any:
            self._came(context.peer())
            return answer(request, context)

        return getattr(grpc, f"{kind}_rpc_method_handler")(noted)

    def so_far(self) -> int:
        """How many connections have no call yet; of some it may still come."""
        with self._lock:
            return len(self._begun) + self._refused

    def look(self) -> None:
        """Say how many connections were refused lately. To be called every second or so."""
        now = time.monotonic()
        with self._lock:
            self._forget(now)
            while self._begun and now - self._begun[0] > self.patience:
                self._begun.popleft()
                self._refused += 1
        if not self._refused:
            return
        missing = self._missing()
        if self._said is None or now - self._said >= (MISSING_REPEAT_SECONDS if missing else STRANGERS_REPEAT_SECONDS):
            with self._lock:
                refused, self._refused, self._said = self._refused, 0, now
            self._say(_sentence(refused, missing))

    def _forget(self, now: float) -> None:
        """Drop addresses that are old, and connections of a time when this process was stopped.

        Neighbours that dialled it meanwhile have given up, which gRPC sees only after it goes on.
        """
        if now - self._looked > STOPPED_SECONDS:
            self._begun.clear()
            self._counts_from = now + STOPPED_SECONDS
        self._looked = now
        for peer in [peer for peer, at in self._called.items() if now - at > SAME_CONNECTION_SECONDS]:
            del self._called[peer]

    def _came(self, peer: str) -> None:
        with self._lock:
            if peer not in self._called and self._begun:
                self._begun.popleft()
            self._called[peer] = time.monotonic()


def _sentence(refused: int, missing: Sequence[str]) -> str:
    how_many = "A connection" if refused == 1 else f"{refused} connections"
    if not missing:
        return (
            f"{how_many} to our port ended before a greeting, and no neighbour is missing: it was somebody else, such "
            "as a scan of ports or a monitor."
        )
    names, whose = ", ".join(missing), "its" if len(missing) == 1 else "their"
    return (
        f"{how_many} to our port ended before a greeting, and {names} should dial us and {_are(missing)} not "
        f"connected: TLS refused {whose} certificate or ours, or it was somebody else. Compare authority.crt and the "
        f"clocks of the machines; {whose} own log has the reason."
    )


def _are(names: Sequence[str]) -> str:
    return "is" if len(names) == 1 else "are"
