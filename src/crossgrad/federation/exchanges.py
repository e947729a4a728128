"""A step that has begun, and what a transport needs of whoever exchanges its messages."""

from dataclasses import dataclass
from typing import Protocol

from crossgrad.federation.messages import Message


@dataclass(frozen=True)
class Live:
    """A step that has begun: with how many partners, and with how many each of them has."""

    epoch: int
    step: int
    degree: int
    partners: tuple[tuple[int, int], ...]  # agent, its number of links


class Exchanges(Protocol):
    """What a transport needs of whoever exchanges its messages."""

    def open(self, peer: int, exchange: int, payload: bytes) -> None:
        """Begin an exchange with a neighbour: send it this."""

    def settle(self, peer: int, exchange: int) -> bytes | bytearray | None:
        """Wait for what the neighbour sent in an exchange; None if it does not count."""

    def refuse(self, peer: int, exchange: int, why: str) -> None:
        """What the neighbour sent cannot be used."""


class Sender(Protocol):
    """The links, as far as they are needed here."""

    def send(self, peer: int, message: Message, payload: bytes = b"") -> None: ...

    def drop(self, peer: int) -> None: ...
