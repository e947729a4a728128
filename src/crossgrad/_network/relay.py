"""RelaySum's exchange on a tree: every agent relays what its other neighbours sent it.

n: agents of this process, K: neighbour slots of the union graph, D: parameters, T: trees.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import Tensor

from crossgrad._network.departure import Departure
from crossgrad._network.messages import EdgeMessages
from crossgrad._network.slots import slot_towards
from crossgrad._network.wire import PeerError

if TYPE_CHECKING:
    from crossgrad._network.network import AgentNetwork


def relay_(trees: Sequence["AgentNetwork"], x: Tensor, received: Tensor, counts: Tensor) -> tuple[Tensor, Tensor]:
    """Send m_ij = x_i + sum_{k != j} received_ik on every edge; see `Network.relay_`.

    Each of several trees relays its share of the numbers. All send before one of them waits.
    """
    if not len(trees[0].table.sender_E):  # a single agent has no neighbours
        return torch.zeros_like(x), x.new_zeros(len(x), 1)
    T = len(trees)
    parts = zip(trees, x.tensor_split(T, dim=1), received.tensor_split(T, dim=2), counts.chunk(T, dim=1), strict=True)
    relays = [Relay(number, *part) for number, part in enumerate(parts)]
    ends = [relay.wait() for relay in relays]
    if T == 1:
        return ends[0]
    return torch.cat([total for total, _ in ends], dim=1), torch.cat([c.expand_as(total) for total, c in ends], dim=1)


class Relay:
    """The exchange on one tree, under way.

    Args:
        number: the number of the tree.
        net: the network of the step on this tree.
        x: the part of the models that is relayed, n rows.
        received: what each neighbour sent last, n x K rows; `wait` writes over it.
        counts: how many models are in each of these sums, n x K; `wait` writes over it.
    """

    def __init__(self, number: int, net: "AgentNetwork", x: Tensor, received: Tensor, counts: Tensor) -> None:
        self.net, self.x, self.received, self.counts = net, x, received, counts
        table, shard, union = net.table, net.context.shard, net.context.union
        receiver_E, sender_E = table.receiver_E, table.sender_E
        self.expected = np.flatnonzero(shard.holds(receiver_E) & ~shard.holds(sender_E))
        like = (x[:1], counts[:1, :1])
        self.messages = EdgeMessages(net, "model", like, self.expected, number)
        self.left = Departure.of(net, like)
        slots = slot_towards(union, sender_E, receiver_E)  # of the receiver, at the sender
        self.back = slot_towards(union, receiver_E, sender_E)  # of the sender, at the receiver
        self.received_next, self.counts_next = torch.zeros_like(received), torch.zeros_like(counts)
        sending = net.routes.sending
        for agent in np.unique(sender_E[sending]).tolist():
            i = agent - shard.first
            sums, numbers = _all_but_one(x[i], received[i]), _all_but_one(torch.ones_like(counts[i, 0]), counts[i])
            for edge in sending[sender_E[sending] == agent].tolist():
                j, m, c = int(receiver_E[edge]), sums[slots[edge]], numbers[slots[edge]]
                if shard.first <= j < shard.last:
                    self._put(edge, m, c)
                else:
                    self.messages.send(edge, (m[None], c.reshape(1, 1)), self.left.time_of(i))
        net.count("model", [x, counts[:, :1]])

    def _put(self, edge: int, m: Tensor, c: Tensor) -> None:
        j = int(self.net.table.receiver_E[edge]) - self.net.context.shard.first
        self.received_next[j, self.back[edge]], self.counts_next[j, self.back[edge]] = m, c

    def wait(self) -> tuple[Tensor, Tensor]:
        """The sums over what arrived from the neighbours, and how many models are in them."""
        net, arrived = self.net, dict(self.messages.arrived())
        sender_E = net.table.sender_E
        if len(arrived) < len(self.expected):
            gone = next(edge for edge in self.expected.tolist() if edge not in arrived)
            raise PeerError(f"relayed sums need every message; in step {net.step} agent {sender_E[gone]}'s is missing.")
        began = {int(sender_E[edge]): time for edge, time in self.messages.times.items()}
        self.left.wait(self.left.arrivals([began[agent] for agent in net.routes.remote.tolist()]))
        for edge, (m, c) in arrived.items():
            self._put(edge, m[0], c[0, 0])
        self.received.copy_(self.received_next)
        self.counts.copy_(self.counts_next)
        total, count = torch.zeros_like(self.x), torch.zeros_like(self.counts[:, :1])
        for slot in range(self.received.shape[1]):  # in this order, in every runtime
            total += self.received[:, slot]
            count += self.counts[:, slot : slot + 1]
        return total, count


def _all_but_one(start: Tensor, parts: Tensor) -> list[Tensor]:
    """For every part, `start` plus the sum of all other parts, by sums from both ends instead of a subtraction.

    >>> [float(value) for value in _all_but_one(torch.tensor(1.0), torch.tensor([10.0, 20.0, 30.0]))]
    [51.0, 41.0, 31.0]
    """
    before, after = [start], [torch.zeros_like(start)]
    for part in parts[:-1]:
        before.append(before[-1] + part)
    for part in parts.flip(0)[:-1]:
        after.append(after[-1] + part)
    return [left + right for left, right in zip(before, reversed(after), strict=True)]
