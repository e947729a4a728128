"""CGA's exchange: models are sent to all neighbours, and the gradients of the neighbours' losses at them come back.

n: agents of this process, K: neighbour slots, D: parameters, M: gradients, R: agents of a block. An edge is the way
from l to j, on which j receives the gradient of l's loss at j's model.
"""

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from crossgrad._network.departure import CrossGradientTimes
from crossgrad._network.messages import EdgeMessages, RowMessages
from crossgrad._network.robust import shorten_
from crossgrad._network.slots import in_slots, slot_towards
from crossgrad._numerics.blocks import blocks
from crossgrad.algorithms.api import CrossGradient, CrossGradients
from crossgrad.codecs.codec import Codec, EncodedMessages, send

if TYPE_CHECKING:
    from crossgrad._network.network import AgentNetwork

BLOCK_BYTES = 8 << 20  # cross-gradients held at a time; one agent's at least. More is slower: caches are small


class ModelsAtNeighbours:
    """Models on their way to all neighbours; a cross-gradient is computed as soon as its model has arrived."""

    def __init__(self, net: "AgentNetwork", x: Tensor) -> None:
        self.net, self.x = net, x
        self.messages = RowMessages(net, "model", [net.leaving(x)])

    def average_(self, plus: Tensor | None = None) -> Tensor:
        self.net.carry_buffers()
        return self.net.average_(self.x, self.messages, plus=plus)

    def cross_gradients(self, grad: CrossGradient, codec: Codec, memory: Tensor) -> Iterator[CrossGradients]:
        net, x, table = self.net, self.x, self.net.table
        shard, own = net.context.shard, grad.on_demand(x)
        pi = torch.from_numpy(table.pi_NL[shard.rows]).to(x)
        simulated = CrossGradientTimes.of(net, self.messages, self._like(codec, grad.sizes))
        times: dict[int, float] = {}
        agents = -(-net.graph.agents // net.transport.processes)  # of a process, at most
        for block in blocks(agents, table.neighbour_NK.shape[1] * x[0].nbytes, BLOCK_BYTES):
            rows = slice(min(block.start, len(shard)), min(block.stop, len(shard)))
            g = own(rows) if rows.start < rows.stop else x[:0]  # computed while models are on their way
            wanted, missing, g_MD = self._exchange(block, rows, grad, codec, memory, simulated, times)
            if rows.start < rows.stop:
                G = in_slots(g_MD, table, slice(rows.start + shard.first, rows.stop + shard.first), wanted)
                if net.context.robust is not None:
                    shorten_(G, g)
                received = CrossGradients(rows, g, G, pi[rows, : G.shape[1] + 1])
                yield self._without(received, wanted[missing]) if missing else received
                del G, received
            del g, g_MD
        if simulated is not None:
            simulated.wait(times)

    def own_gradients(self, grad: CrossGradient) -> Iterator[CrossGradients]:
        own, shard = grad.on_demand(self.x), self.net.context.shard
        for rows in blocks(len(shard), self.net.table.neighbour_NK.shape[1] * self.x[0].nbytes, BLOCK_BYTES):
            yield self.at_neighbours(grad, rows, own(rows))

    def at_neighbours(self, grad: CrossGradient, rows: slice, g: Tensor) -> CrossGradients:
        net, table, shard = self.net, self.net.table, self.net.context.shard
        self.messages.need_all("an agent takes its gradient at each of its neighbours' models")
        each, remote = self.messages.sent[0].unbind(), self.messages.remote[0].unbind()
        here = slice(rows.start + shard.first, rows.stop + shard.first)
        edges = np.arange(*np.searchsorted(table.receiver_E, [here.start, here.stop]))
        places = net.routes.place_N[table.sender_E[edges]].tolist()
        models = [each[place] if place < len(shard) else remote[place - len(shard)] for place in places]
        g_MD = grad.cross(models, (table.receiver_E[edges] - shard.first).tolist())
        if (clock := net.context.clock) is not None:
            clock.add_gradients(np.bincount(table.receiver_E[edges] - shard.first, minlength=len(shard)))
        G = in_slots(g_MD, table, here, edges)
        return CrossGradients(rows, g, G, torch.from_numpy(table.pi_NL[here]).to(g)[:, : G.shape[1] + 1])

    def _exchange(
        self,
        block: slice,
        rows: slice,
        grad: CrossGradient,
        codec: Codec,
        memory: Tensor,
        simulated: CrossGradientTimes | None,
        times: dict[int, float],
    ) -> tuple[NDArray[np.int64], list[int], Tensor]:
        """Compute and exchange the gradients for one block of agents of every process.

        Args:
            block: the agents' places within their processes.
            rows: the same for this process, which may have fewer agents.
            grad: the gradients.
            codec: how they are encoded.
            memory: the error memories: what earlier messages left out.
            simulated: when each is sent in simulated time; None without a clock.
            times: filled in: by edge, when the messages of remote agents began.

        Returns:
            The edges to this process's agents `rows`, the positions of those that are missing, and what arrived.
        """
        net, x, receiver_E, sender_E = self.net, self.x, self.net.table.receiver_E, self.net.table.sender_E
        shard, routes = net.context.shard, net.routes
        wanted = np.arange(*np.searchsorted(receiver_E, [shard.first + rows.start, shard.first + rows.stop]))
        served = routes.served[slice(*np.searchsorted(routes.served_index, [block.start, block.stop]))]
        here = shard.holds(receiver_E[served])
        place = {edge: number for number, edge in enumerate(wanted.tolist())} if net.transport.processes > 1 else {}
        messages = EdgeMessages(net, codec.kind, self._like(codec, grad.sizes), wanted[~shard.holds(sender_E[wanted])])
        g_MD = self._at_own_models(served[here], grad, codec, memory)
        if not here.all() or len(wanted) > len(g_MD):
            among_own, g_MD = g_MD, x.new_zeros(len(wanted), x.shape[1])
            g_MD[[place[edge] for edge in served[here].tolist()]] = among_own
        for agent, (model,) in self.messages.arrivals(np.unique(receiver_E[served[~here]])):
            edges = served[~here & (receiver_E[served] == agent)]
            g = grad.cross([model] * len(edges), (sender_E[edges] - shard.first).tolist())
            sent = self._send(codec, g, memory, edges, grad.sizes)
            for number, edge in enumerate(edges.tolist()):
                time = 0.0 if simulated is None else simulated.time_of(edge)
                messages.send(edge, [part[number : number + 1] for part in sent.wire], time)
        there = set()
        for edge, parts in messages.arrived():
            g_MD[place[edge]] = messages.decoded(edge, parts, codec, grad.sizes)[0]
            there.add(edge)
        times |= messages.times
        return wanted, [place[edge] for edge in messages.expected if edge not in there], g_MD

    def _like(self, codec: Codec, sizes: Sequence[int]) -> Sequence[Tensor]:
        """Tensors of the shapes and types of a message; made where needed, since they are as large as a gradient."""
        return codec.encode(self.x.new_zeros(1, self.x.shape[1]), sizes)

    def _at_own_models(self, edges: NDArray[np.int64], grad: CrossGradient, codec: Codec, memory: Tensor) -> Tensor:
        """The gradients on edges between agents of this process, as they arrive."""
        x, first = self.messages.sent[0], self.net.first
        receivers, senders = self.net.table.receiver_E[edges] - first, self.net.table.sender_E[edges] - first
        each = x.unbind()
        g_MD = grad.cross([each[j] for j in receivers.tolist()], senders.tolist())
        for some in blocks(len(edges), x[0].nbytes):
            sent = self._send(codec, g_MD[some], memory, edges[some], grad.sizes)
            if sent.arrives_MD.data_ptr() != g_MD[some].data_ptr():
                g_MD[some] = sent.arrives_MD
        return g_MD

    def _send(
        self, codec: Codec, g_MD: Tensor, memory: Tensor, edges: NDArray[np.int64], sizes: Sequence[int]
    ) -> EncodedMessages:
        """Encode and count gradients, each on its edge; a sender keeps an error memory for each of its receivers."""
        net = self.net
        receivers, senders = net.table.receiver_E[edges], net.table.sender_E[edges]
        g_MD = net.context.attack(g_MD, senders.tolist(), net.context.seed, net.step)
        if not codec.feedback or not len(edges):
            sent = send(codec, g_MD, None, sizes)
        else:
            mine, towards = senders - net.first, slot_towards(net.context.union, senders, receivers)
            owed = memory[mine, towards]
            sent = send(codec, g_MD, owed, sizes)
            memory[mine, towards] = owed
        net.context.traffic.add(codec.kind, net.edges[edges], sent.bytes_each)
        return sent

    def _without(self, received: CrossGradients, missing: NDArray[np.int64]) -> CrossGradients:
        """Leave out missing cross-gradients: their weight goes to the own gradient, and later slots move up."""
        table, (rows, g, G, pi) = self.net.table, received
        G, pi = G.clone(), pi.clone()
        for edge in missing.tolist()[::-1]:  # the last slot of an agent first
            j, slot = int(table.receiver_E[edge]) - self.net.first - rows.start, int(table.slot_E[edge])
            pi[j, 0] += pi[j, slot + 1]
            for part, place in ((G[j], slot), (pi[j], slot + 1)):
                part[place:-1] = part[place + 1 :].clone()
                part[-1] = 0
        return CrossGradients(rows, g, G, pi)
