"""The agents' network over several processes: point-to-point messages between those that hold neighbours.

n: agents of this process, D: parameters. Nothing here knows an algorithm. All messages are posted before anything is
waited for, so no order of arrival can block; sizes follow from the experiment, which all processes have agreed on.
"""

from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from crossgrad._network import local, wire
from crossgrad._network.local import LocalNetwork, NetworkContext, Reached, in_slots, table_of
from crossgrad._network.shard import Shard, holder
from crossgrad._network.traffic import KINDS
from crossgrad._network.transport import Operation, Pending, Transport
from crossgrad._network.wire import Label
from crossgrad._numerics.blocks import blocks
from crossgrad.algorithms.api import CrossGradient, CrossGradients
from crossgrad.codecs.codec import Codec
from crossgrad.graphs import Graph

WATCHED = 8  # arrivals that are waited for at the same time; beyond, in the order of the agents


@dataclass(frozen=True, eq=False)
class Plan:
    """Which of this process's agents are heard where, and who is heard here."""

    remote: NDArray[np.int64]  # agents of other processes that are heard here, ascending
    place_N: NDArray[np.int64]  # where each agent's row lies: own agents first, then those from remote
    index_N: NDArray[np.int64]  # where each agent stands among those of its process
    outgoing: tuple[tuple[int, int], ...]  # (own agent, rank that hears it)

    @classmethod
    def of(cls, graph: Graph, shard: Shard, processes: int) -> "Plan":
        table = table_of(graph)
        here = shard.holds(table.receiver_E)
        own = shard.holds(table.sender_E)
        remote = np.unique(table.sender_E[here & ~own])
        place = np.zeros(graph.agents, np.int64)
        place[shard.rows] = np.arange(len(shard))
        place[remote] = len(shard) + np.arange(len(remote))
        pairs = zip(table.sender_E[own & ~here].tolist(), table.receiver_E[own & ~here].tolist(), strict=True)
        outgoing = {(agent, holder(receiver, graph.agents, processes)) for agent, receiver in pairs}
        index = np.concatenate([np.arange(len(Shard.of(graph.agents, rank, processes))) for rank in range(processes)])
        return cls(remote, place, index, tuple(sorted(outgoing)))


_plan = lru_cache(maxsize=64)(Plan.of)


class DistributedNetwork(LocalNetwork):
    """One step's network where neighbours may live in other processes."""

    def __init__(self, graph: Graph, context: NetworkContext, step: int, transport: Transport) -> None:
        super().__init__(graph, context, step)
        self.transport = transport
        self.plan = _plan(graph, context.shard, transport.processes)

    def on(self, graph: Graph) -> "DistributedNetwork":
        return DistributedNetwork(graph, self.context, self.step, self.transport)

    def share(self, x: Tensor) -> "DistributedSharedModels":
        self._count("model", x)
        return DistributedSharedModels(self, x)

    def reach(self, kind: str, rows: Tensor) -> Reached:
        reached, receives, sends = self.exchange(kind, rows)
        for each in (*receives, *sends):
            each.wait()
        return reached

    def places(self, agents: NDArray[np.int64]) -> NDArray[np.int64]:
        return self.plan.place_N[agents]

    def rank_of(self, agent: int) -> int:
        return holder(agent, self.graph.agents, self.transport.processes)

    def exchange(self, kind: str, rows: Tensor) -> tuple[Reached, list[Pending], list[Pending]]:
        """Start the exchange of rows: where they will be, and the pending from remote and to there."""
        shard, tag, device = self.context.shard, KINDS.index(kind) * self.graph.agents, rows.device
        like = [rows[0]]
        remote, senders = self.plan.remote.tolist(), sorted({agent for agent, _ in self.plan.outgoing})
        inbox = self.transport.space(f"{kind} in", len(remote), wire.space(like), device)
        outbox = self.transport.space(f"{kind} out", len(senders), wire.space(like), device)
        for message, agent in zip(outbox, senders, strict=True):
            wire.pack(message, Label(kind, self.step, agent), [rows[agent - shard.first]])
        receives = [
            self.transport.receive(message, self.rank_of(agent), tag + agent, Label(kind, self.step, agent), like)
            for message, agent in zip(inbox, remote, strict=True)
        ]
        sends = [
            self.transport.send(outbox[senders.index(agent)], rank, tag + agent) for agent, rank in self.plan.outgoing
        ]
        arrived = (
            inbox[:, wire.HEADER : wire.HEADER + rows[0].nbytes].view(rows.dtype).view(len(remote), *rows.shape[1:])
        )
        reached = Reached(rows, arrived)
        if self.transport.batched:
            return reached, self.transport.start([*receives, *sends]), []
        return reached, self.transport.start(receives), self.transport.start(sends)


class DistributedSharedModels:
    """Models on their way to all neighbours; a question is answered as soon as it has arrived."""

    def __init__(self, net: DistributedNetwork, x: Tensor) -> None:
        self.net, self.x = net, x
        self.reached, self.receives, self.sends = net.exchange("model", x)

    def average_(self, plus: Tensor | None = None) -> Tensor:
        for each in (*self.receives, *self.sends):
            each.wait()
        self.net.carry_buffers()
        return self.net.average_(self.reached, plus=plus)

    def cross_gradients(self, grad: CrossGradient, codec: Codec, memory: Tensor) -> Iterator[CrossGradients]:
        net, shard = self.net, self.net.context.shard
        slots, size = net.table.neighbour_NK.shape[1], self.x.shape[1]
        pi, own = net.weights.to(self.x), grad.on_demand(self.x)
        largest = -(-net.graph.agents // net.transport.processes)  # agents of a process, at most
        for block in blocks(largest, slots * size * self.x.element_size(), local.BLOCK_BYTES):
            rows = slice(block.start, min(block.stop, len(shard)))
            mine = own(rows) if rows.start < rows.stop else self.x[:0]  # while models are on their way
            g, edges = self._block(block, grad, codec, memory)
            if rows.start < rows.stop:
                among_all = slice(rows.start + shard.first, rows.stop + shard.first)
                G = in_slots(g, net.table, among_all, edges)
                yield CrossGradients(rows, mine, G, pi[rows, : G.shape[1] + 1])
                del G
            del mine, g

    def _block(
        self, rows: slice, grad: CrossGradient, codec: Codec, memory: Tensor
    ) -> tuple[Tensor, NDArray[np.int64]]:
        """Answer those who lie at `rows` in their processes; the answers to one's own who do, with their edges."""
        net, table, shard = self.net, self.net.table, self.net.context.shard
        index_E = net.plan.index_N[table.receiver_E]
        asked = np.flatnonzero((index_E >= rows.start) & (index_E < rows.stop))
        mine = asked[shard.holds(table.receiver_E[asked])]
        place = {edge: number for number, edge in enumerate(mine.tolist())}
        ours = np.intersect1d(asked, net.spoken)
        template = codec.encode(self.x.new_zeros(1, self.x.shape[1]), grad.sizes)
        messages = {edge: self._blank(template) for edge in np.setdiff1d(mine, ours).tolist()}
        receives = [
            net.transport.receive(message, net.rank_of(int(table.sender_E[edge])), self._tag(edge), label, template)
            for edge, message in messages.items()
            for label in [self._label(edge, codec)]
        ]
        under_way = [] if net.transport.batched else net.transport.start(receives)
        sends: list[Operation] = []
        g_MD = self.x.new_empty(len(mine), self.x.shape[1])
        for guest in self._arrivals(np.unique(table.receiver_E[ours])):
            edges = ours[table.receiver_E[ours] == guest]
            hosts = table.sender_E[edges]
            where = int(net.plan.place_N[guest])
            model = self.x[where] if where < len(self.x) else self.reached.remote[where - len(self.x)]
            g = grad.cross([model] * len(edges), (hosts - shard.first).tolist())
            for number, edge in enumerate(edges.tolist()):
                one = slice(number, number + 1)
                sent = net.send_cross_gradients(codec, g[one], memory, table.receiver_E[[edge]], hosts[one], grad.sizes)
                net.context.traffic.add(codec.kind, net.edges[[edge]], sent.bytes_each)
                if edge in place:
                    g_MD[place[edge]] = sent.arrives_MD[0]
                    continue
                message = self._blank(template)
                wire.pack(message, self._label(edge, codec), sent.wire)
                sends.append(net.transport.send(message, net.rank_of(guest), self._tag(edge)))
                under_way += [] if net.transport.batched else net.transport.start(sends[-1:])
        if net.transport.batched:
            under_way = net.transport.start([*receives, *sends])
        for each in under_way:
            each.wait()
        for edge, message in messages.items():
            g_MD[place[edge]] = codec.decode(tuple(wire.parts_of(message, template)), grad.sizes)[0]
        return g_MD, mine

    def _blank(self, template: Sequence[Tensor]) -> Tensor:
        return torch.zeros(wire.space(template), dtype=torch.uint8, device=self.x.device)

    def _label(self, edge: int, codec: Codec) -> Label:
        table = self.net.table
        return Label(codec.kind, self.net.step, int(table.sender_E[edge]), int(table.receiver_E[edge]))

    def _tag(self, edge: int) -> int:
        return len(KINDS) * self.net.graph.agents + int(self.net.edges[edge])

    def _arrivals(self, guests: NDArray[np.int64]) -> Iterator[int]:
        """The agents to be answered here: one's own first, then those from remote as their models arrive."""
        net, shard = self.net, self.net.context.shard
        own = shard.holds(guests)
        yield from guests[own].tolist()
        if net.transport.batched:
            for each in self.receives:
                each.wait()
            yield from guests[~own].tolist()
            return
        pending = {
            agent: self.receives[int(np.searchsorted(net.plan.remote, agent))] for agent in guests[~own].tolist()
        }
        if not 1 < len(pending) <= WATCHED:
            for agent, each in pending.items():
                each.wait()
                yield agent
            return
        with ThreadPoolExecutor(len(pending)) as watchers:
            waiting = {watchers.submit(each.wait): agent for agent, each in pending.items()}
            for done in as_completed(waiting):
                done.result()
                yield waiting[done]
