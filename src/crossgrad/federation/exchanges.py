"""The present step of a site, and the interface by which its transport exchanges messages."""

from dataclasses import dataclass
from typing import Protocol

from crossgrad.federation.messages import Message


@dataclass(frozen=True)
class Live:
    """A step that has begun: the neighbours that take part, and how many neighbours take part with each of them."""

    epoch: int
    step: int
    degree: int
    partners: tuple[tuple[int, int], ...]  # agent, its number of links


class Exchanges(Protocol):
    """Exchanges messages for a transport."""

    def open(self, peer: int, exchange: int, payload: bytes) -> None:
        """Begin an exchange with a neighbour by sending it this payload."""

    def settle(self, peer: int, exchange: int) -> bytes | bytearray | None:
        """Wait for the neighbour's payload of an exchange; None if the exchange does not count."""

    def refuse(self, peer: int, exchange: int, why: str) -> None:
        """Reject what the neighbour sent, as it cannot be used."""


class Sender(Protocol):
    """Sends messages to neighbours."""

    def send(self, peer: int, message: Message, payload: bytes = b"") -> None: ...

    def drop(self, peer: int) -> None: ...
