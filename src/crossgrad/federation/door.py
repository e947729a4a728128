"""Who may greet a site now: neighbours that dial it, a few at a time, and none that has just broken the rules."""

import math
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager

from crossgrad.federation.file import Federation
from crossgrad.federation.greeting import RefusedError

SHUT_OUT_SECONDS = 10.0  # after a message that no honest neighbour sends
MAX_GREETINGS = 2  # of one site at a time, so that those of others find a thread


class Door:
    """The way into a site.

    Args:
        federation: what all sites have agreed on.
        me: this site's number.
    """

    def __init__(self, federation: Federation, me: int) -> None:
        self.federation, self.me = federation, me
        self._until: dict[int, float] = {}  # neighbours that are shut out
        self._greetings: Counter[str] = Counter()
        self._lock = threading.Lock()

    def shut_out(self, peer: int) -> None:
        """Let a neighbour in no more for a while."""
        self._until[peer] = time.monotonic() + SHUT_OUT_SECONDS

    def seconds_shut(self, peer: int) -> float:
        """How long a neighbour is still shut out."""
        return max(0.0, self._until.get(peer, 0.0) - time.monotonic())

    @contextmanager
    def greeting(self, name: str) -> Iterator[None]:
        """While a site that dials this one greets it.

        Raises:
            RefusedError: it is shut out, or greets on other connections, too.
        """
        if (left := self.seconds_shut(self.federation.number(name))) > 0:
            raise RefusedError(
                f"{name} has sent what no honest site sends, and is let in again in {math.ceil(left)} s."
            )
        with self._lock:
            if self._greetings[name] >= MAX_GREETINGS:
                raise RefusedError(f"a site may greet on {MAX_GREETINGS} connections at a time; {name} does already.")
            self._greetings[name] += 1
        try:
            yield
        finally:
            with self._lock:
                self._greetings[name] -= 1

    def dialler(self, name: str) -> int:
        """The neighbour of this name, if it is one that dials this site."""
        peer, me = self.federation.number(name), self.me
        if peer not in self.federation.neighbours(me) or self.federation.dials(me, peer):
            own = self.federation.sites[me].name
            raise RefusedError(
                f"who dials {own} must be a neighbour of it that dials; {name} is not. Compare federation.toml."
            )
        return peer
