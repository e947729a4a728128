"""The transport between sites: messages are exchanges, and a neighbour whose exchange does not count is missing.

On a link the n-th message of a step that is sent and the n-th that is received are one exchange.
"""

from collections import Counter
from collections.abc import Iterator, Sequence

import torch
from torch import Tensor

from crossgrad._network import wire
from crossgrad._network.transport import Pending, in_order
from crossgrad._network.wire import Label, PeerError
from crossgrad.federation.exchanges import Exchanges


class SiteTransport:
    """A `Transport` between sites, one agent each."""

    def __init__(self, agent: int, agents: int) -> None:
        self.rank, self.processes = agent, agents
        self.exchanges: Exchanges | None = None
        self._sent: Counter[int] = Counter()
        self._received: Counter[int] = Counter()

    def begin(self) -> None:
        """Begin a step: exchanges are numbered from 1 again."""
        self._sent.clear()
        self._received.clear()

    def send(self, message: Tensor, rank: int, tag: int) -> Pending:
        assert self.exchanges is not None
        self._sent[rank] += 1
        self.exchanges.open(rank, self._sent[rank], message.cpu().numpy().tobytes())
        return SentExchange()

    def receive(self, message: Tensor, rank: int, tag: int, label: Label, like: Sequence[Tensor]) -> Pending:
        assert self.exchanges is not None
        self._received[rank] += 1
        return ExpectedExchange(self.exchanges, rank, self._received[rank], message, label, like)

    def start(self) -> None:
        """No-op: a message is on its way as soon as it is sent."""

    def completed(self, pending: Sequence[Pending]) -> Iterator[int]:
        return in_order(pending)


class SentExchange:
    """A message that has been handed over to the link."""

    def wait(self) -> bool:
        return True


class ExpectedExchange:
    """A message that a neighbour sends, if its exchange counts."""

    def __init__(
        self, exchanges: Exchanges, peer: int, exchange: int, message: Tensor, label: Label, like: Sequence[Tensor]
    ) -> None:
        self.exchanges, self.peer, self.exchange = exchanges, peer, exchange
        self.message, self.label, self.like = message, label, like
        self.there: bool | None = None

    def wait(self) -> bool:
        if self.there is None:
            self.there = self._take()
        return self.there

    def _take(self) -> bool:
        content = self.exchanges.settle(self.peer, self.exchange)
        if content is None:
            return False
        try:
            if len(content) != len(self.message):
                raise PeerError(
                    f"agent {self.peer} must send {len(self.message)} bytes; it sent {len(content)}, which are not "
                    "used."
                )
            self.message.copy_(torch.frombuffer(bytearray(content), dtype=torch.uint8))
            wire.check_message(self.message, self.label, self.like, self.peer)
        except PeerError as error:
            self.exchanges.refuse(self.peer, self.exchange, str(error))
            return False
        return True
