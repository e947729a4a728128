"""Exchanges in simulated time: when models leave, when those of the neighbours arrive, and when cross-gradients do.

n: agents of this process, K: neighbour slots.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from torch import Tensor

from crossgrad._network import wire
from crossgrad._network.slots import slot_towards
from crossgrad._numerics.arrays import Floats

if TYPE_CHECKING:
    from crossgrad._network.messages import RowMessages
    from crossgrad._network.network import AgentNetwork


@dataclass(eq=False)
class CrossGradientTimes:
    """When cross-gradients are sent and arrive: each is computed when its model arrives, and sent back on that edge.

    Args:
        net: the network of the step.
        message_bytes: bytes of each cross-gradient.
        ready_n: when the receivers of cross-gradients began to wait.
        begin_nK: when an agent's message to the neighbour in each of its slots begins.
    """

    net: "AgentNetwork"
    message_bytes: int
    ready_n: Floats
    begin_nK: Floats

    @classmethod
    def of(cls, net: "AgentNetwork", messages: "RowMessages", like: Sequence[Tensor]) -> "CrossGradientTimes | None":
        """The times of cross-gradients at models that are on their way; None without a clock.

        With a clock, it waits until all models have arrived, since their simulated times decide the order.
        """
        if (clock := net.context.clock) is None:
            return None
        messages.receive()
        arrive_nK, length, ready_n = messages.simulated_arrivals(), wire.message_bytes(like), clock.now.numpy().copy()
        assert arrive_nK is not None
        return cls(net, length, ready_n, clock.send_cross_gradients(arrive_nK, length))

    def time_of(self, edge: int) -> float:
        """When the cross-gradient on an edge begins, whose sender is an agent of this process."""
        table = self.net.table
        sender, receiver = table.sender_E[edge : edge + 1], table.receiver_E[edge : edge + 1]
        slot = slot_towards(self.net.graph, sender, receiver)
        return float(self.begin_nK[sender - self.net.first, slot][0])

    def wait(self, remote: Mapping[int, float]) -> None:
        """Every agent waits for its cross-gradients, given when those of remote agents began, by edge."""
        table, clock = self.net.table, self.net.context.clock
        assert clock is not None
        begin_nK = np.zeros_like(self.begin_nK)
        for edge in np.flatnonzero(clock.shard.holds(table.receiver_E)).tolist():
            own = clock.shard.first <= table.sender_E[edge] < clock.shard.last
            time = self.time_of(edge) if own else remote.get(edge, 0.0)
            begin_nK[table.receiver_E[edge] - self.net.first, table.slot_E[edge]] = time
        clock.wait(clock.arrivals(self.net, begin_nK, self.ready_n, self.message_bytes, together=False))


@dataclass(eq=False)
class Departure:
    """The sending of the rows of all agents of this process; without a clock, nothing is computed."""

    net: "AgentNetwork"
    message_bytes: int
    begin_n: Floats | None = None
    ready_n: Floats | None = None  # when the receivers began to wait
    arrive_nK: Floats | None = None  # once it is known

    @classmethod
    def of(cls, net: "AgentNetwork", like: Sequence[Tensor]) -> "Departure":
        """Every agent now sends a message with tensors like these to each of its neighbours."""
        if (clock := net.context.clock) is None:
            return cls(net, 0)
        length = wire.message_bytes(like)
        ready_n = clock.now.numpy().copy()
        return cls(net, length, clock.send(net, length), ready_n)

    def time_of(self, row: int) -> float:
        """When the message of an agent of this process begins."""
        return 0.0 if self.begin_n is None else float(self.begin_n[row])

    def arrivals(self, remote: Sequence[float]) -> Floats | None:
        """When the neighbours' messages arrive, given when those of remote agents began."""
        clock, net = self.net.context.clock, self.net
        if clock is None or self.begin_n is None or self.ready_n is None:
            return None
        if self.arrive_nK is None:
            begin = np.concatenate([self.begin_n, remote])  # in the order of places
            begin_nK = begin[net.routes.place_N[net.table.neighbour_NK[clock.shard.rows]]]
            self.arrive_nK = clock.arrivals(net, begin_nK, self.ready_n, self.message_bytes, together=True)
        return self.arrive_nK

    def wait(self, arrive_nK: Floats | None) -> None:
        """Every agent waits for all of them."""
        if arrive_nK is not None and self.net.context.clock is not None:
            self.net.context.clock.wait(arrive_nK)
