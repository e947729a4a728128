"""Ports for processes that are started in a moment."""

import random
import socket

BELOW_OUTGOING = range(15_000, 32_000)  # the system gives none of these to an outgoing connection in between


def free_port() -> int:
    """A port that no program has now, and that none gets by chance until it is used."""
    while True:
        with socket.socket() as probe:
            port = random.SystemRandom().choice(BELOW_OUTGOING)
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                continue
            return port
