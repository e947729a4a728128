"""CGA's exchange: models reach all neighbours, and the gradients of the neighbours' losses at them come back.

n: agents of this process, K: neighbour slots, D: parameters, M: gradients, R: agents of a block. An edge is the way
from l to j, on which j receives the gradient of l's loss at j's model.
"""

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from crossgrad._network.messages import EdgeMessages, RowMessages
from crossgrad._network.slots import in_slots, slot_towards
from crossgrad._numerics.blocks import blocks
from crossgrad.algorithms.api import CrossGradient, CrossGradients
from crossgrad.codecs.codec import Codec, Sent, send

if TYPE_CHECKING:
    from crossgrad._network.network import AgentNetwork

BLOCK_BYTES = 8 << 20  # cross-gradients held at a time; one agent's at least. More is slower: caches are small


class ModelsAtNeighbours:
    """Models on their way to all neighbours; a cross-gradient is computed as soon as its model has arrived."""

    def __init__(self, net: "AgentNetwork", x: Tensor) -> None:
        self.net, self.x = net, x
        self.messages = RowMessages(net, "model", [x])

    def average_(self, plus: Tensor | None = None) -> Tensor:
        self.net.carry_buffers()
        return self.net.average_(self.x, self.messages, plus=plus)

    def cross_gradients(self, grad: CrossGradient, codec: Codec, memory: Tensor) -> Iterator[CrossGradients]:
        net, x, table = self.net, self.x, self.net.table
        shard, own = net.context.shard, grad.on_demand(x)
        pi = torch.from_numpy(table.pi_NL[shard.rows]).to(x)
        agents = -(-net.graph.agents // net.transport.processes)  # of a process, at most
        for block in blocks(agents, table.neighbour_NK.shape[1] * x[0].nbytes, BLOCK_BYTES):
            rows = slice(min(block.start, len(shard)), min(block.stop, len(shard)))
            g = own(rows) if rows.start < rows.stop else x[:0]  # while models are on their way
            wanted, missing, g_MD = self._exchange(block, rows, grad, codec, memory)
            if rows.start < rows.stop:
                G = in_slots(g_MD, table, slice(rows.start + shard.first, rows.stop + shard.first), wanted)
                answer = CrossGradients(rows, g, G, pi[rows, : G.shape[1] + 1])
                yield self._without(answer, wanted[missing]) if missing else answer
                del G, answer
            del g, g_MD

    def own_gradients(self, grad: CrossGradient) -> Iterator[CrossGradients]:
        net, x, table = self.net, self.x, self.net.table
        shard, own = net.context.shard, grad.on_demand(x)
        pi = torch.from_numpy(table.pi_NL[shard.rows]).to(x)
        self.messages.need_all("an agent takes its gradient at each of its neighbours' models")
        each, remote = x.unbind(), self.messages.remote[0].unbind()
        for rows in blocks(len(shard), table.neighbour_NK.shape[1] * x[0].nbytes, BLOCK_BYTES):
            here = slice(rows.start + shard.first, rows.stop + shard.first)
            edges = np.arange(*np.searchsorted(table.receiver_E, [here.start, here.stop]))
            places = net.routes.place_N[table.sender_E[edges]].tolist()
            models = [each[place] if place < len(shard) else remote[place - len(shard)] for place in places]
            g_MD = grad.cross(models, (table.receiver_E[edges] - shard.first).tolist())
            G = in_slots(g_MD, table, here, edges)
            yield CrossGradients(rows, own(rows), G, pi[rows, : G.shape[1] + 1])
            del g_MD, G

    def _exchange(
        self, block: slice, rows: slice, grad: CrossGradient, codec: Codec, memory: Tensor
    ) -> tuple[NDArray[np.int64], list[int], Tensor]:
        """Compute and exchange the gradients for those who lie at `block` in their processes.

        Returns:
            The edges to this process's agents `rows`, which of them (by position) are missing, and what came on them.
        """
        net, x, receiver_E, sender_E = self.net, self.x, self.net.table.receiver_E, self.net.table.sender_E
        shard, routes = net.context.shard, net.routes
        wanted = np.arange(*np.searchsorted(receiver_E, [shard.first + rows.start, shard.first + rows.stop]))
        served = routes.served[slice(*np.searchsorted(routes.served_index, [block.start, block.stop]))]
        here = shard.holds(receiver_E[served])
        place = {edge: number for number, edge in enumerate(wanted.tolist())} if net.transport.processes > 1 else {}
        like = codec.encode(x.new_zeros(1, x.shape[1]), grad.sizes)
        messages = EdgeMessages(net, codec.kind, like, wanted[~shard.holds(sender_E[wanted])])
        g_MD = self._at_own_models(served[here], grad, codec, memory)
        if not here.all() or len(wanted) > len(g_MD):
            among_own, g_MD = g_MD, x.new_zeros(len(wanted), x.shape[1])
            g_MD[[place[edge] for edge in served[here].tolist()]] = among_own
        for guest, (model,) in self.messages.arrivals(np.unique(receiver_E[served[~here]])):
            edges = served[~here & (receiver_E[served] == guest)]
            g = grad.cross([model] * len(edges), (sender_E[edges] - shard.first).tolist())
            sent = self._send(codec, g, memory, edges, grad.sizes)
            for number, edge in enumerate(edges.tolist()):
                messages.send(edge, [part[number : number + 1] for part in sent.wire])
        there = set()
        for edge, parts in messages.arrived():
            g_MD[place[edge]] = codec.decode(parts, grad.sizes)[0]
            there.add(edge)
        return wanted, [place[edge] for edge in messages.expected if edge not in there], g_MD

    def _at_own_models(self, edges: NDArray[np.int64], grad: CrossGradient, codec: Codec, memory: Tensor) -> Tensor:
        """The gradients on edges between agents of this process, as they arrive."""
        x, first = self.x, self.net.first
        receivers, senders = self.net.table.receiver_E[edges] - first, self.net.table.sender_E[edges] - first
        each = x.unbind()
        g_MD = grad.cross([each[j] for j in receivers.tolist()], senders.tolist())
        for some in blocks(len(edges), x[0].nbytes):
            sent = self._send(codec, g_MD[some], memory, edges[some], grad.sizes)
            if sent.arrives_MD.data_ptr() != g_MD[some].data_ptr():
                g_MD[some] = sent.arrives_MD
        return g_MD

    def _send(self, codec: Codec, g_MD: Tensor, memory: Tensor, edges: NDArray[np.int64], sizes: Sequence[int]) -> Sent:
        """Encode and count gradients, each on its edge; a sender keeps an error memory for each of its receivers."""
        net = self.net
        receivers, senders = net.table.receiver_E[edges], net.table.sender_E[edges]
        if not codec.feedback or not len(edges):
            sent = send(codec, g_MD, None, sizes)
        else:
            mine, towards = senders - net.first, slot_towards(net.context.union, senders, receivers)
            owed = memory[mine, towards]
            sent = send(codec, g_MD, owed, sizes)
            memory[mine, towards] = owed
        net.context.traffic.add(codec.kind, net.edges[edges], sent.bytes_each)
        return sent

    def _without(self, answer: CrossGradients, missing: NDArray[np.int64]) -> CrossGradients:
        """Leave out what did not come on these edges: its weight goes to the own gradient, later slots move up."""
        table, (rows, g, G, pi) = self.net.table, answer
        G, pi = G.clone(), pi.clone()
        for edge in missing.tolist()[::-1]:  # the last slot of an agent first
            j, slot = int(table.receiver_E[edge]) - self.net.first - rows.start, int(table.slot_E[edge])
            pi[j, 0] += pi[j, slot + 1]
            for part, place in ((G[j], slot), (pi[j], slot + 1)):
                part[place:-1] = part[place + 1 :].clone()
                part[-1] = 0
        return CrossGradients(rows, g, G, pi)
