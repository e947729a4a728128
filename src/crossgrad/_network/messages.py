"""Messages of one step between agents in different processes: rows that all neighbours get, and ones for one edge each.

Each is labelled, packed and posted here; in one process there are none.
"""

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from crossgrad._network import wire
from crossgrad._network.departure import Departure
from crossgrad._network.transport import Pending
from crossgrad._network.wire import Label, PeerError
from crossgrad.codecs import Codec

if TYPE_CHECKING:
    from crossgrad._network.network import AgentNetwork


class RowMessages:
    """One exchange of rows: those of own agents are sent to all neighbours, those of remote neighbours received.

    Args:
        net: the network of the step.
        kind: the kind of message.
        parts: the tensors to send, with a row for each own agent.
        places: which own agents, from 0, the rows are of; by default all. Nobody else sends anything.
    """

    def __init__(
        self, net: "AgentNetwork", kind: str, parts: Sequence[Tensor], places: Sequence[int] | None = None
    ) -> None:
        self.net, self.kind, self.sent = net, kind, parts
        self._places = range(len(net.context.shard)) if places is None else places
        self.remote = [part[:0] for part in parts]  # rows of the remote agents, once they are here
        self._receives: list[Pending] = []
        self._sends: list[Pending] = []
        self._inbox: Sequence[Tensor] | Tensor = ()
        self._round = net.next_round(kind)
        self._left = Departure.of(net, [part[0] for part in parts])
        if net.transport.processes > 1:
            self._post(kind, parts)

    def _post(self, kind: str, parts: Sequence[Tensor]) -> None:
        net, routes, transport = self.net, self.net.routes, self.net.transport
        like, width, first = [part[0] for part in parts], wire.message_bytes([part[0] for part in parts]), net.first
        tag, device = net.context.traffic.number(kind) * net.graph.agents, parts[0].device
        senders = sorted({agent for agent, _ in routes.outgoing})
        inbox = net.context.workspace.rows(f"{kind} in", len(routes.remote), width, device)
        outbox = net.context.workspace.rows(f"{kind} out", len(senders), width, device)
        for message, agent in zip(outbox, senders, strict=True):
            label = self._label(kind, agent)._replace(time=self._left.time_of(agent - first))
            wire.pack_message(message, label, [part[self._places.index(agent - first)] for part in parts])
        for message, agent in zip(inbox, routes.remote.tolist(), strict=True):
            rank, label = net.rank_of(agent), self._label(kind, agent)
            self._receives.append(transport.receive(message, rank, tag + agent, label, like))
        for agent, rank in routes.outgoing:
            self._sends.append(transport.send(outbox[senders.index(agent)], rank, tag + agent))
        transport.start()
        self.remote = wire.rows_of(inbox, like)
        self._inbox = inbox

    def wait(self) -> NDArray[np.int64]:
        """Wait for all rows. Return the places (among own and remote rows) of those that are missing."""
        missing = self.receive()
        self._left.wait(self.simulated_arrivals())
        return missing

    def receive(self) -> NDArray[np.int64]:
        """As `wait`, but no agent waits for them in simulated time."""
        there = [each.wait() for each in self._receives]
        for each in self._sends:
            each.wait()
        missing = np.flatnonzero(~np.array(there, bool))
        for rows in self.remote:
            rows[missing] = 0
        return missing + len(self.net.context.shard)

    def need_all(self, why: str) -> None:
        """Wait for all rows.

        Raises:
            PeerError: if one is missing; `why` says what needs it.
        """
        missing = self.wait()
        if len(missing):
            agent = int(self.net.routes.remote[missing[0] - len(self.net.context.shard)])
            raise PeerError(f"{why}; in step {self.net.step} that of agent {agent} is missing.")

    def decoded(self, codec: Codec, sizes: Sequence[int]) -> Tensor:
        """The remote rows as they were before they were encoded, once all are here.

        Raises:
            PeerError: if one is no code; its sender is named.
        """
        if (rows := _decoded(codec, self.remote, sizes)) is not None:
            return rows
        agents = self.net.routes.remote.tolist()
        each = ([part[number : number + 1] for part in self.remote] for number in range(len(agents)))
        labels = [self._label(self.kind, agent) for agent in agents]
        return torch.cat(
            [
                decode_one(codec, parts, sizes, label, self.net.rank_of(label.agent))
                for parts, label in zip(each, labels, strict=True)
            ]
        )

    def simulated_arrivals(self) -> NDArray[np.float64] | None:
        """When the neighbours' rows arrive in simulated time, once they are here; None without a clock."""
        if self.net.context.clock is None:
            return None
        return self._left.arrivals([wire.time_of(message) for message in self._inbox])

    def arrivals(self, agents: NDArray[np.int64]) -> Iterator[tuple[int, Sequence[Tensor]]]:
        """Yield these remote agents and their parts as they arrive; missing ones are left out."""
        places = np.searchsorted(self.net.routes.remote, agents)
        pending = [self._receives[place] for place in places.tolist()]
        for number in self.net.transport.completed(pending):
            if pending[number].wait():
                yield int(agents[number]), [rows[places[number]] for rows in self.remote]

    def _label(self, kind: str, agent: int) -> Label:
        return Label(kind, self.net.step, agent, round=self._round)


class EdgeMessages:
    """Messages for one edge each. Receives are posted at once, sends as soon as there is something to send.

    Args:
        net: the network of the step.
        kind: the kind of message.
        like: tensors with one row, of the shapes and types that every message has.
        expected: the edges on which remote agents send to own ones.
        number: the number of this exchange among those of its kind that are under way at the same time.
    """

    def __init__(
        self, net: "AgentNetwork", kind: str, like: Sequence[Tensor], expected: NDArray[np.int64], number: int = 0
    ) -> None:
        self.net, self.kind, self.like, self.expected, self.number = net, kind, like, expected.tolist(), number
        self._inbox = [self._blank() for _ in self.expected]
        self._receives = [
            net.transport.receive(message, net.rank_of(label.agent), self._tag(edge), label, like)
            for edge, message in zip(self.expected, self._inbox, strict=True)
            for label in [self._label(edge)]
        ]
        self._sends: list[Pending] = []
        self.times: dict[int, float] = {}  # at which those that are here began, in simulated time

    def send(self, edge: int, parts: Sequence[Tensor], time: float = 0.0) -> None:
        """Send the parts of one message, each with one row, which begins at this simulated time."""
        message, label = self._blank(), self._label(edge)._replace(time=time)
        wire.pack_message(message, label, parts)
        self._sends.append(self.net.transport.send(message, self.net.rank_of(label.receiver), self._tag(edge)))

    def decoded(self, edge: int, parts: Sequence[Tensor], codec: Codec, sizes: Sequence[int]) -> Tensor:
        """What arrived on an edge as it was before it was encoded; raises PeerError if it is no code."""
        label = self._label(edge)
        return decode_one(codec, parts, sizes, label, self.net.rank_of(label.agent))

    def arrived(self) -> Iterator[tuple[int, tuple[Tensor, ...]]]:
        """Wait for all messages. Yield the expected edges with what arrived on them, without the missing ones."""
        self.net.transport.start()
        there = [each.wait() for each in self._receives]
        for each in self._sends:
            each.wait()
        for edge, message, here in zip(self.expected, self._inbox, there, strict=True):
            if here:
                self.times[edge] = wire.time_of(message)
                yield edge, tuple(wire.parts_of(message, self.like))

    def _blank(self) -> Tensor:
        return torch.zeros(wire.message_bytes(self.like), dtype=torch.uint8, device=self.like[0].device)

    def _label(self, edge: int) -> Label:
        table = self.net.table
        return Label(self.kind, self.net.step, int(table.sender_E[edge]), int(table.receiver_E[edge]), self.number)

    def _tag(self, edge: int) -> int:
        traffic = self.net.context.traffic
        kind = self.number * len(traffic.kinds) + traffic.number(self.kind)
        return len(traffic.kinds) * self.net.graph.agents + kind * len(traffic.receiver) + int(self.net.edges[edge])


def decode_one(codec: Codec, parts: Sequence[Tensor], sizes: Sequence[int], label: Label, rank: int) -> Tensor:
    """The parts of one message as they were before they were encoded.

    Raises:
        PeerError: if they are no code that the codec makes, such as one with a place beyond the last.
    """
    if (rows := _decoded(codec, parts, sizes)) is None:
        raise PeerError(f"rank {rank} sent {label}, which {type(codec).__name__} cannot decode; it is not used.")
    return rows


def _decoded(codec: Codec, parts: Sequence[Tensor], sizes: Sequence[int]) -> Tensor | None:
    """The decoded rows; None if they cannot be decoded, or to numbers that are not finite."""
    try:
        rows = codec.decode(tuple(parts), sizes)
    except (ValueError, IndexError, OverflowError, RuntimeError):
        return None
    return rows if wire.is_finite(rows) else None
