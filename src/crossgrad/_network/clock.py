"""Simulated time: when each agent has finished its work so far, on given links and machines.

The network and the gradients report to the clock what happens, in the order in which a process with one agent would do
it; no algorithm is known here. A message carries the time at which it began, so that every process knows the times of
its own agents, and any number of processes comes to the same ones.

N: agents of the whole network, n: those of this process, K: neighbour slots, E: directed edges.
"""

from typing import TYPE_CHECKING, ClassVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from crossgrad._network.shard import Shard
from crossgrad._numerics.arrays import Floats
from crossgrad._storage.stateful import Stateful
from crossgrad.graphs import Graph
from crossgrad.graphs.links import Compute, Links
from crossgrad.graphs.units import seconds

if TYPE_CHECKING:
    from crossgrad._network.network import AgentNetwork

NO_ARRIVAL = -np.inf  # the arrival time in spare slots, in which there is no neighbour


class Clock(Stateful):
    """The simulated time of every agent of this process, in seconds since the start.

    An agent's messages that begin together share its bandwidth equally, so that all of them end when the last does;
    later messages wait until these are sent. What it receives passes its connection one message after the other, in
    the order in which they begin to arrive.

    Args:
        links: what messages travel on.
        compute: how long gradients take.
        union: a graph with every edge that ever occurs.
        shard: the agents of this process.
        seed: seed of the random differences in computing time.
    """

    constants: ClassVar[tuple[str, ...]] = (
        *("links", "compute", "shard", "seed", "latency_E", "limit_E", "per_byte_N", "gradient_n", "other"),
    )

    def __init__(self, links: Links, compute: Compute, union: Graph, shard: Shard, seed: int) -> None:
        links.check(union.agents)
        compute.check(union.agents)
        self.links, self.compute, self.shard, self.seed = links, compute, shard, seed
        self.latency_E, self.limit_E = links.latencies(union), links.seconds_per_byte_of_edges(union)
        self.per_byte_N = links.seconds_per_byte(union.agents)
        self.gradient_n = np.zeros(len(shard))  # seconds, in this step
        self.other = seconds(compute.step, "step")
        self.now = torch.zeros(len(shard), dtype=torch.float64)  # when the agent is done with its work so far
        self.sent = torch.zeros(len(shard), dtype=torch.float64)  # when the last byte has left
        self.received = torch.zeros(len(shard), dtype=torch.float64)  # when the last byte has arrived

    def begin(self, step: int, present_n: Tensor) -> None:
        """Begin a step in which these agents are present."""
        self.gradient_n = self.compute.seconds(len(self.per_byte_N), self.seed, step)[self.shard.rows]
        self.now[present_n] += self.other

    def add_gradients(self, counts_n: NDArray[np.int64]) -> None:
        """Every agent computes this many gradients, one after the other."""
        self.now += torch.from_numpy(counts_n * self.gradient_n)

    def send(self, net: "AgentNetwork", message_bytes: int) -> Floats:
        """Every agent sends a message to each of its neighbours; returns when they begin."""
        count_n = _out_degrees(net)[self.shard.rows]
        begin_n: Floats = np.maximum(self.now.numpy(), self.sent.numpy())
        through = begin_n + count_n * message_bytes * self.per_byte_N[self.shard.rows]
        self.sent.copy_(torch.from_numpy(np.where(count_n > 0, through, self.sent.numpy())))
        return begin_n

    def arrivals(
        self, net: "AgentNetwork", begin_nK: Floats, ready_n: Floats, message_bytes: int, together: bool
    ) -> Floats:
        """When messages that neighbours began to send at these times arrive; NO_ARRIVAL in spare slots.

        Args:
            net: the network of the step.
            begin_nK: when each began.
            ready_n: when the receiver was ready for them.
            message_bytes: bytes of each message.
            together: whether a sender's messages to all its neighbours began together and shared its bandwidth.
        """
        table, rows = net.table, self.shard.rows
        present_nK, neighbour_nK = table.present_NK[rows], table.neighbour_NK[rows]
        latency_nK, limit_nK = (_in_slots(net, values[net.edges]) for values in (self.latency_E, self.limit_E))
        share_N = self.per_byte_N * (_out_degrees(net) if together else 1)
        if self.links.handshake:
            begin_nK = np.maximum(begin_nK, ready_n[:, None] + latency_nK)
        first_nK = np.where(present_nK, begin_nK + latency_nK, np.inf)
        last_nK = first_nK + message_bytes * np.maximum(share_N[neighbour_nK], limit_nK)
        order_nK, row = np.argsort(first_nK, axis=1, kind="stable"), np.arange(len(first_nK))
        through_n, each_n = self.received.numpy().copy(), message_bytes * self.per_byte_N[rows]
        arrive_nK = np.full(first_nK.shape, NO_ARRIVAL)
        for slot_n in order_nK.T:
            there_n = present_nK[row, slot_n]
            through_n = np.where(there_n, np.maximum(through_n, first_nK[row, slot_n]) + each_n, through_n)
            arrive_nK[row, slot_n] = np.where(there_n, np.maximum(last_nK[row, slot_n], through_n), NO_ARRIVAL)
        self.received.copy_(torch.from_numpy(through_n))
        return arrive_nK

    def wait(self, arrive_nK: Floats) -> None:
        """Every agent waits until the last of these times."""
        latest_n = arrive_nK.max(axis=1, initial=NO_ARRIVAL)
        self.now.copy_(torch.from_numpy(np.maximum(self.now.numpy(), latest_n)))

    def send_cross_gradients(self, arrive_nK: Floats, message_bytes: int) -> Floats:
        """Every agent computes a gradient for each model, in the order in which they arrive, and sends it back.

        Returns:
            When each message begins.
        """
        order_nK, row = np.argsort(arrive_nK, axis=1, kind="stable"), np.arange(len(arrive_nK))
        now_n, sent_n = self.now.numpy().copy(), self.sent.numpy().copy()
        each_n = message_bytes * self.per_byte_N[self.shard.rows]
        begin_nK = np.zeros(arrive_nK.shape)
        for slot_n in order_nK.T:
            arrive_n = arrive_nK[row, slot_n]
            there_n = arrive_n > NO_ARRIVAL
            now_n = np.where(there_n, np.maximum(now_n, arrive_n) + self.gradient_n, now_n)
            begin_nK[row, slot_n] = begin_n = np.maximum(now_n, sent_n)
            sent_n = np.where(there_n, begin_n + each_n, sent_n)
        self.now.copy_(torch.from_numpy(now_n))
        self.sent.copy_(torch.from_numpy(sent_n))
        return begin_nK


def _out_degrees(net: "AgentNetwork") -> NDArray[np.int64]:
    return np.bincount(net.table.sender_E, minlength=net.agents)


def _in_slots(net: "AgentNetwork", values_E: Floats) -> Floats:
    """Values of edges to this process's agents, arranged by the agents' slots."""
    table, shard = net.table, net.context.shard
    here = shard.holds(table.receiver_E)
    found = np.zeros((len(shard), table.neighbour_NK.shape[1]))
    found[table.receiver_E[here] - shard.first, table.slot_E[here]] = values_E[here]
    return found
