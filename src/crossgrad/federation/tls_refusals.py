"""Connections that TLS refuses, of which gRPC tells a server no more than that they began."""

import time
from collections import deque
from collections.abc import Callable
from typing import Any

from crossgrad.federation.grpc_options import HANDSHAKE_SECONDS, grpc

QUIET_SECONDS = 60.0  # between two sentences, so that a stranger cannot fill the disk with them
SAME_CONNECTION_SECONDS = 60.0  # between calls; after them the address may be another connection's
MAX_BEGUN = 100_000  # that are counted at a time


class TlsRefusals:
    """Counts connections that began and on which no call came, and says how many there were.

    Args:
        say: writes a sentence.
    """

    patience = 2 * HANDSHAKE_SECONDS  # seconds within which a call must come

    def __init__(self, say: Callable[[str], None]) -> None:
        self._say = say
        self._begun: deque[float] = deque(maxlen=MAX_BEGUN)  # of connections without a call so far
        self._called: dict[str, float] = {}  # addresses of those with one
        self._said = -QUIET_SECONDS
        self._refused = 0

    def began(self) -> None:
        """Note a connection; gRPC calls this before each, and takes None as "with the same certificate"."""
        self._begun.append(time.monotonic())

    def watched(self, handler: Any) -> Any:
        """A handler of a method that notes that a connection has come through TLS."""
        kind = "stream_stream" if handler.stream_stream else "unary_unary"
        answer = getattr(handler, kind)

        def noted(request: Any, context: Any) -> Any:
            self._came(context.peer())
            return answer(request, context)

        return getattr(grpc, f"{kind}_rpc_method_handler")(noted)

    def look(self, asleep: bool = False) -> None:
        """Say how many connections were refused lately. To be called every few seconds.

        Args:
            asleep: whether this process was stopped, so that calls may have come that it has not seen.
        """
        now = time.monotonic()
        if asleep:
            self._begun.clear()
        while self._begun and now - self._begun[0] > self.patience:
            self._begun.popleft()
            self._refused += 1
        for peer in [peer for peer, at in self._called.copy().items() if now - at > SAME_CONNECTION_SECONDS]:
            del self._called[peer]
        if self._refused and now - self._said >= QUIET_SECONDS:
            how_many = "A connection" if self._refused == 1 else f"{self._refused} connections"
            self._say(
                f"{how_many} to our port ended before a greeting: TLS refused the caller's certificate, the caller "
                "refused ours, or it was no site. If a neighbour cannot connect, its own log says why; compare "
                "authority.crt and the clocks of both machines."
            )
            self._said, self._refused = now, 0

    def _came(self, peer: str) -> None:
        if peer not in self._called and self._begun:
            self._begun.popleft()
        self._called[peer] = time.monotonic()
