"""A transport between threads of one process: what torchrun's processes would do, without starting any."""

import threading
from collections import defaultdict, deque
from collections.abc import Iterator, Sequence

from torch import Tensor

from crossgrad._network import wire
from crossgrad._network.transport import Pending, in_order
from crossgrad._network.wire import Label, LostError

Address = tuple[int, int, int]  # sender, receiver, tag


class Mailboxes:
    """The messages between all ranks of a run; `missing` are the ranks whose messages neither leave nor arrive.

    Args:
        processes: how many ranks there are.
        patience: seconds after which a message that has not arrived raises LostError.
    """

    def __init__(self, processes: int, patience: float = 60.0) -> None:
        self.processes, self.patience = processes, patience
        self.missing: set[int] = set()
        self._messages: dict[Address, deque[Tensor]] = defaultdict(deque)
        self._changed = threading.Condition()

    def put(self, address: Address, message: Tensor) -> None:
        with self._changed:
            self._messages[address].append(message.clone())
            self._changed.notify_all()

    def take(self, address: Address) -> Tensor:
        with self._changed:
            if not self._changed.wait_for(lambda: self._messages[address], self.patience):
                raise LostError
            return self._messages[address].popleft()


class InMemoryTransport:
    """The messages of one rank, through mailboxes that all ranks share."""

    def __init__(self, mailboxes: Mailboxes, rank: int) -> None:
        self.mailboxes, self.rank, self.processes = mailboxes, rank, mailboxes.processes

    def send(self, message: Tensor, rank: int, tag: int) -> Pending:
        missing = bool({self.rank, rank} & self.mailboxes.missing)
        if not missing:
            self.mailboxes.put((self.rank, rank, tag), message)
        return EndedMessage(not missing)

    def receive(self, message: Tensor, rank: int, tag: int, label: Label, like: Sequence[Tensor]) -> Pending:
        if {self.rank, rank} & self.mailboxes.missing:
            return EndedMessage(False)
        return ExpectedMessage(self.mailboxes, (rank, self.rank, tag), message, label, like)

    def start(self) -> None:
        """No-op: a message is in its mailbox as soon as it is sent."""

    def completed(self, pending: Sequence[Pending]) -> Iterator[int]:
        return in_order(pending)


class EndedMessage:
    """A message that was sent, or that will never come."""

    def __init__(self, there: bool) -> None:
        self.there = there

    def wait(self) -> bool:
        return self.there


class ExpectedMessage:
    """A message that is still to be taken out of its mailbox."""

    def __init__(
        self, mailboxes: Mailboxes, address: Address, message: Tensor, label: Label, like: Sequence[Tensor]
    ) -> None:
        self.mailboxes, self.address, self.message, self.label, self.like = mailboxes, address, message, label, like
        self.arrived = False

    def wait(self) -> bool:
        if not self.arrived:
            content = self.mailboxes.take(self.address)
            size = min(len(content), len(self.message))
            self.message[:size] = content[:size]
            wire.check_message(self.message, self.label, self.like, self.address[0])
            self.arrived = True
        return True
