"""What carries messages between the processes of a run.

A message is a row of bytes with a header that says what it is (`wire.py`); a process is known by its rank, and a rank
holds one agent or several (`shard.py`). The network (`network.py`, `cross_gradients.py`) is written once against the
protocol here. `NoPeers` is the case of one process, `gloo.py` the one of torchrun, `in_memory.py` the one of threads.

To add a transport, write a class that has the methods of `Transport`. For torchrun's processes, `ProcessGroup`
(`_processes/torchrun.py`) chooses it, and also asks it which messages it still waits for (`awaited`). Where processes
meet in another way, it is the `transport` of a `Group` (`_processes/group.py`) of its own, which does the few things
that all processes do together.
Everything else (algorithms, codecs, counted bytes, checkpoints) stays as it is.
"""

from collections.abc import Iterator, Sequence
from typing import Protocol

from torch import Tensor

from crossgrad._network.wire import Label


class Pending(Protocol):
    """A message on its way."""

    def wait(self) -> bool:
        """Block until the message has been sent, or has arrived and been checked. May be called more than once.

        Returns:
            True if it is there, False if it will not come because its peer is missing from this step.

        Raises:
            PeerError: where the transport holds that the run cannot go on, such as a lost process under torchrun.
        """


class Transport(Protocol):
    """Messages from process to process.

    The network calls, in every step and in all processes in the same order: `receive` for all that it expects, `send`
    for all that it has, `start`, and then `wait` on each. It never waits for a message before it has posted those that
    its peers need, so no order of arrival can block. Sizes are known on both sides before anything is sent.

    Whether a peer that is missing ends the run is decided here and by the runtime (`_processes`), not above. A
    transport that goes on without it lets `wait` return False. The network then treats that edge, in that step, as one
    that is not there: the weight of the missing neighbour goes to the receiver's own model, its cross-gradient is left
    out. For the mean of the models to be kept, both ends must lose the edge in the same step, so a transport that
    loses one direction should report the other as missing too. Error memories and copies of a neighbour's model
    (`broadcast_`) need every message: where one is missing the network raises PeerError, and the run's checks
    refuse such experiments beforehand (`Needs.RELIABLE`).
    """

    @property
    def rank(self) -> int:
        """The number of this process."""

    @property
    def processes(self) -> int:
        """How many there are."""

    def send(self, message: Tensor, rank: int, tag: int) -> Pending:
        """Send these bytes to a process.

        Args:
            message: 1-D uint8 on the run's device; it must not be changed until `wait` has returned.
            rank: the receiver.
            tag: a number of at most 31 bits that both sides give to this message. Messages between the same two
                processes with the same tag are received in the order in which they were sent.
        """

    def receive(self, message: Tensor, rank: int, tag: int, label: Label, like: Sequence[Tensor]) -> Pending:
        """Receive bytes into `message`, whose length is that of what was sent.

        Before `wait` returns True, the transport checks what arrived: `wire.check_message(message, label, like, rank)`.
        What a message that is refused means (an error, or a missing peer) is the transport's policy.
        """

    def start(self) -> None:
        """Start everything that was posted since the last call; a transport may have done so at once."""

    def completed(self, pending: Sequence[Pending]) -> Iterator[int]:
        """Yield the positions of messages as they complete, each once; `in_order` is a simple implementation."""


def in_order(pending: Sequence[Pending]) -> Iterator[int]:
    """Wait for one message after the other."""
    for number, each in enumerate(pending):
        each.wait()
        yield number


class NoPeers:
    """The transport of a single process: nothing is ever sent."""

    rank = 0
    processes = 1

    def send(self, message: Tensor, rank: int, tag: int) -> Pending:
        raise ValueError(
            f"a receiver must be another process; found rank {rank}, and a single process has no peers to send to."
        )

    def receive(self, message: Tensor, rank: int, tag: int, label: Label, like: Sequence[Tensor]) -> Pending:
        raise ValueError(
            f"a sender must be another process; found rank {rank}, and a single process has no peers to receive from."
        )

    def start(self) -> None:
        """No-op: there is one process."""

    def completed(self, pending: Sequence[Pending]) -> Iterator[int]:
        return in_order(pending)
