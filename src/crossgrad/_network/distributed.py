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
from crossgrad._network.local import LocalNetwork, Reached, Setting, in_slots, table_of
from crossgrad._network.shard import Shard, holder
from crossgrad._network.traffic import KINDS
from crossgrad._network.transport import Letter, Parcel, Post
from crossgrad._network.wire import Label
from crossgrad._numerics.blocks import blocks
from crossgrad.algorithms.api import Answers, CrossGradient
from crossgrad.codecs.codec import Codec
from crossgrad.graphs import Graph

WATCHED = 8  # arrivals that are waited for at the same time; beyond, in the order of the agents


@dataclass(frozen=True, eq=False)
class Plan:
    """Which of this process's agents are heard where, and who is heard here."""

    afar: NDArray[np.int64]  # agents of other processes that are heard here, ascending
    place_N: NDArray[np.int64]  # where each agent's row lies: own agents first, then those from afar
    index_N: NDArray[np.int64]  # where each agent stands among those of its process
    outgoing: tuple[tuple[int, int], ...]  # (own agent, rank that hears it)

    @classmethod
    def of(cls, graph: Graph, shard: Shard, processes: int) -> "Plan":
        table = table_of(graph)
        here = (table.hearer_E >= shard.first) & (table.hearer_E < shard.last)
        own = (table.speaker_E >= shard.first) & (table.speaker_E < shard.last)
        afar = np.unique(table.speaker_E[here & ~own])
        place = np.zeros(graph.agents, np.int64)
        place[shard.rows] = np.arange(len(shard))
        place[afar] = len(shard) + np.arange(len(afar))
        pairs = zip(table.speaker_E[own & ~here].tolist(), table.hearer_E[own & ~here].tolist(), strict=True)
        outgoing = {(agent, holder(hearer, graph.agents, processes)) for agent, hearer in pairs}
        index = np.concatenate([np.arange(len(Shard.of(graph.agents, rank, processes))) for rank in range(processes)])
        return cls(afar, place, index, tuple(sorted(outgoing)))


_plan = lru_cache(maxsize=64)(Plan.of)


class DistributedNetwork(LocalNetwork):
    """One step's network where neighbours may live in other processes."""

    def __init__(self, graph: Graph, setting: Setting, step: int, post: Post) -> None:
        super().__init__(graph, setting, step)
        self.post = post
        self.plan = _plan(graph, setting.shard, post.processes)

    def on(self, graph: Graph) -> "DistributedNetwork":
        return DistributedNetwork(graph, self.setting, self.step, self.post)

    def show(self, x: Tensor) -> "DistributedShown":
        self._count("model", x)
        return DistributedShown(self, x)

    def reach(self, kind: str, rows: Tensor) -> Reached:
        reached, receives, sends = self.exchange(kind, rows)
        for letter in (*receives, *sends):
            letter.wait()
        return reached

    def places(self, agents: NDArray[np.int64]) -> NDArray[np.int64]:
        return self.plan.place_N[agents]

    def rank_of(self, agent: int) -> int:
        return holder(agent, self.graph.agents, self.post.processes)

    def exchange(self, kind: str, rows: Tensor) -> tuple[Reached, list[Letter], list[Letter]]:
        """Start the exchange of rows: where they will be, and the letters from afar and to there."""
        shard, tag, device = self.setting.shard, KINDS.index(kind) * self.graph.agents, rows.device
        like = [rows[0]]
        afar, speakers = self.plan.afar.tolist(), sorted({agent for agent, _ in self.plan.outgoing})
        inbox = self.post.space(f"{kind} in", len(afar), wire.space(like), device)
        outbox = self.post.space(f"{kind} out", len(speakers), wire.space(like), device)
        for message, agent in zip(outbox, speakers, strict=True):
            wire.pack(message, Label(kind, self.step, agent), [rows[agent - shard.first]])
        receives = [
            self.post.receive(message, self.rank_of(agent), tag + agent, Label(kind, self.step, agent), like)
            for message, agent in zip(inbox, afar, strict=True)
        ]
        sends = [self.post.send(outbox[speakers.index(agent)], rank, tag + agent) for agent, rank in self.plan.outgoing]
        arrived = inbox[:, wire.HEADER : wire.HEADER + rows[0].nbytes].view(rows.dtype).view(len(afar), *rows.shape[1:])
        reached = Reached(rows, arrived)
        if self.post.batched:
            return reached, self.post.start([*receives, *sends]), []
        return reached, self.post.start(receives), self.post.start(sends)


class DistributedShown:
    """Models on their way to all neighbours; a question is answered as soon as it has arrived."""

    def __init__(self, net: DistributedNetwork, x: Tensor) -> None:
        self.net, self.x = net, x
        self.reached, self.receives, self.sends = net.exchange("model", x)

    def average_(self, plus: Tensor | None = None) -> Tensor:
        for letter in (*self.receives, *self.sends):
            letter.wait()
        self.net.carry_buffers()
        return self.net.average_(self.reached, plus=plus)

    def answers(self, grad: CrossGradient, codec: Codec, memory: Tensor) -> Iterator[Answers]:
        net, shard = self.net, self.net.setting.shard
        slots, size = net.table.neighbour_NK.shape[1], self.x.shape[1]
        pi, own = net.weights.to(self.x), grad.on_demand(self.x)
        largest = -(-net.graph.agents // net.post.processes)  # agents of a process, at most
        for block in blocks(largest, slots * size * self.x.element_size(), local.BLOCK_BYTES):
            rows = slice(block.start, min(block.stop, len(shard)))
            mine = own(rows) if rows.start < rows.stop else self.x[:0]  # while models are on their way
            g, edges = self._block(block, grad, codec, memory)
            if rows.start < rows.stop:
                among_all = slice(rows.start + shard.first, rows.stop + shard.first)
                G = in_slots(g, net.table, among_all, edges)
                yield Answers(rows, mine, G, pi[rows, : G.shape[1] + 1])
                del G
            del mine, g

    def _block(
        self, rows: slice, grad: CrossGradient, codec: Codec, memory: Tensor
    ) -> tuple[Tensor, NDArray[np.int64]]:
        """Answer those who lie at `rows` in their processes; the answers to one's own who do, with their edges."""
        net, table, shard = self.net, self.net.table, self.net.setting.shard
        index_E = net.plan.index_N[table.hearer_E]
        asked = np.flatnonzero((index_E >= rows.start) & (index_E < rows.stop))
        mine = asked[(table.hearer_E[asked] >= shard.first) & (table.hearer_E[asked] < shard.last)]
        place = {edge: number for number, edge in enumerate(mine.tolist())}
        ours = np.intersect1d(asked, net.spoken)
        template = codec.encode(self.x.new_zeros(1, self.x.shape[1]), grad.sizes)
        messages = {edge: self._blank(template) for edge in np.setdiff1d(mine, ours).tolist()}
        receives = [
            net.post.receive(message, net.rank_of(int(table.speaker_E[edge])), self._tag(edge), label, template)
            for edge, message in messages.items()
            for label in [self._label(edge, codec)]
        ]
        under_way = [] if net.post.batched else net.post.start(receives)
        sends: list[Parcel] = []
        g_MD = self.x.new_empty(len(mine), self.x.shape[1])
        for guest in self._arrivals(np.unique(table.hearer_E[ours])):
            edges = ours[table.hearer_E[ours] == guest]
            hosts = table.speaker_E[edges]
            where = int(net.plan.place_N[guest])
            model = self.x[where] if where < len(self.x) else self.reached.afar[where - len(self.x)]
            g = grad.cross([model] * len(edges), (hosts - shard.first).tolist())
            for number, edge in enumerate(edges.tolist()):
                one = slice(number, number + 1)
                sent = net.answer(codec, g[one], memory, table.hearer_E[[edge]], hosts[one], grad.sizes)
                net.setting.traffic.add(codec.kind, net.edges[[edge]], sent.bytes_each)
                if edge in place:
                    g_MD[place[edge]] = sent.arrives_MD[0]
                    continue
                message = self._blank(template)
                wire.pack(message, self._label(edge, codec), sent.wire)
                sends.append(net.post.send(message, net.rank_of(guest), self._tag(edge)))
                under_way += [] if net.post.batched else net.post.start(sends[-1:])
        if net.post.batched:
            under_way = net.post.start([*receives, *sends])
        for letter in under_way:
            letter.wait()
        for edge, message in messages.items():
            g_MD[place[edge]] = codec.decode(tuple(wire.parts_of(message, template)), grad.sizes)[0]
        return g_MD, mine

    def _blank(self, template: Sequence[Tensor]) -> Tensor:
        return torch.zeros(wire.space(template), dtype=torch.uint8, device=self.x.device)

    def _label(self, edge: int, codec: Codec) -> Label:
        table = self.net.table
        return Label(codec.kind, self.net.step, int(table.speaker_E[edge]), int(table.hearer_E[edge]))

    def _tag(self, edge: int) -> int:
        return len(KINDS) * self.net.graph.agents + int(self.net.edges[edge])

    def _arrivals(self, guests: NDArray[np.int64]) -> Iterator[int]:
        """The agents to be answered here: one's own first, then those from afar as their models arrive."""
        net, shard = self.net, self.net.setting.shard
        own = (guests >= shard.first) & (guests < shard.last)
        yield from guests[own].tolist()
        if net.post.batched:
            for letter in self.receives:
                letter.wait()
            yield from guests[~own].tolist()
            return
        letters = {agent: self.receives[int(np.searchsorted(net.plan.afar, agent))] for agent in guests[~own].tolist()}
        if not 1 < len(letters) <= WATCHED:
            for agent, letter in letters.items():
                letter.wait()
                yield agent
            return
        with ThreadPoolExecutor(len(letters)) as watchers:
            waiting = {watchers.submit(letter.wait): agent for agent, letter in letters.items()}
            for done in as_completed(waiting):
                done.result()
                yield waiting[done]
