"""RelaySum's exchange on a tree: every agent relays what its other neighbours sent it.

n: agents of this process, K: neighbour slots of the union graph, D: parameters.
"""

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


def relay_(net: "AgentNetwork", x: Tensor, received: Tensor, counts: Tensor) -> tuple[Tensor, Tensor]:
    """Send m_ij = x_i + sum_{k != j} received_ik on every edge; see `Network.relay_`."""
    table, shard, union = net.table, net.context.shard, net.context.union
    receiver_E, sender_E = table.receiver_E, table.sender_E
    if not len(sender_E):  # a single agent has no neighbours
        return torch.zeros_like(x), x.new_zeros(len(x), 1)
    expected = np.flatnonzero(shard.holds(receiver_E) & ~shard.holds(sender_E))
    like = (x[:1], counts[:1, :1])
    messages, left = EdgeMessages(net, "model", like, expected), Departure.of(net, like)
    slots = slot_towards(union, sender_E, receiver_E)  # of the receiver, at the sender
    back = slot_towards(union, receiver_E, sender_E)  # of the sender, at the receiver
    received_next, counts_next = torch.zeros_like(received), torch.zeros_like(counts)
    sending = net.routes.sending
    for agent in np.unique(sender_E[sending]).tolist():
        i = agent - shard.first
        sums, numbers = _all_but_one(x[i], received[i]), _all_but_one(torch.ones_like(counts[i, 0]), counts[i])
        for edge in sending[sender_E[sending] == agent].tolist():
            j, m, c = int(receiver_E[edge]), sums[slots[edge]], numbers[slots[edge]]
            if shard.first <= j < shard.last:
                received_next[j - shard.first, back[edge]], counts_next[j - shard.first, back[edge]] = m, c
            else:
                messages.send(edge, (m[None], c.reshape(1, 1)), left.time_of(i))
    net.count("model", [x, counts[:, :1]])
    arrived = dict(messages.arrived())
    if len(arrived) < len(expected):
        gone = next(edge for edge in expected.tolist() if edge not in arrived)
        raise PeerError(f"relayed sums need every message; in step {net.step} agent {sender_E[gone]}'s is missing.")
    began = {int(sender_E[edge]): time for edge, time in messages.times.items()}
    left.wait(left.arrivals([began[agent] for agent in net.routes.remote.tolist()]))
    for edge, (m, c) in arrived.items():
        j = int(receiver_E[edge]) - shard.first
        received_next[j, back[edge]], counts_next[j, back[edge]] = m[0], c[0, 0]
    received.copy_(received_next)
    counts.copy_(counts_next)
    total, count = torch.zeros_like(x), torch.zeros_like(counts[:, :1])
    for slot in range(received.shape[1]):  # in this order, in every runtime
        total += received[:, slot]
        count += counts[:, slot : slot + 1]
    return total, count


def _all_but_one(start: Tensor, parts: Tensor) -> list[Tensor]:
    """For every part, `start` plus the sum of all the others: sums from both ends, so nothing is ever subtracted.

    >>> [float(value) for value in _all_but_one(torch.tensor(1.0), torch.tensor([10.0, 20.0, 30.0]))]
    [51.0, 41.0, 31.0]
    """
    before, after = [start], [torch.zeros_like(start)]
    for part in parts[:-1]:
        before.append(before[-1] + part)
    for part in parts.flip(0)[:-1]:
        after.append(after[-1] + part)
    return [left + right for left, right in zip(before, reversed(after), strict=True)]
