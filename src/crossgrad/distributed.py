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
import torch.distributed as dist
from numpy.typing import NDArray
from torch import Tensor

from crossgrad.algorithms.api import Answers, CrossGradient
from crossgrad.codec import Codec
from crossgrad.graphs import Graph
from crossgrad.network import LocalNetwork, Reached, Setting, blocks, in_slots, table_of
from crossgrad.shard import Shard, holder
from crossgrad.traffic import KINDS

WATCHED = 8  # arrivals that are waited for at the same time; beyond, in the order of the agents


class Letter:
    """A message on its way."""

    def __init__(self, work: dist.Work) -> None:
        self._work: dist.Work | None = work

    def wait(self) -> None:
        """Return when it has been sent or received; gloo itself would hang if asked twice."""
        work, self._work = self._work, None
        if work is not None:
            work.wait()


class Post:
    """Messages between processes."""

    def __init__(self, rank: int, processes: int) -> None:
        self.rank, self.processes = rank, processes
        self.batched = dist.get_backend() == "nccl"  # NCCL starts all sends and receives of a moment at once
        self.bytes_handed_over = 0
        self._spaces: dict[str, Tensor] = {}

    def start(self, operations: Sequence[dist.P2POp]) -> list[Letter]:
        """Start sending and receiving; the tensors must live until the works are done."""
        if not operations:
            return []
        sends = [each.tensor for each in operations if each.op is dist.isend]
        self.bytes_handed_over += sum(tensor.nbytes for tensor in sends)
        if self.batched:
            return [Letter(work) for work in dist.batch_isend_irecv(list(operations))]
        works = [each.op(each.tensor, each.peer, group=each.group, tag=each.tag) for each in operations]
        return [Letter(work) for work in works if work is not None]

    def space(self, kind: str, shape: tuple[int, ...], like: Tensor) -> Tensor:
        """Memory for what arrives of this kind, the same in every step: new pages would cost more than the copy."""
        held = self._spaces.get(kind)
        if held is None or held.shape != shape or held.dtype != like.dtype:
            held = self._spaces[kind] = like.new_empty(shape)
        return held

    def send(self, tensor: Tensor, rank: int, tag: int) -> dist.P2POp:
        return dist.P2POp(dist.isend, tensor.contiguous(), rank, tag=tag)

    def receive(self, tensor: Tensor, rank: int, tag: int) -> dist.P2POp:
        return dist.P2POp(dist.irecv, tensor, rank, tag=tag)


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
        shard, tag = self.setting.shard, KINDS.index(kind) * self.graph.agents
        reached = Reached(rows, self.post.space(kind, (len(self.plan.afar), *rows.shape[1:]), rows))
        receives = [
            self.post.receive(row, self.rank_of(agent), tag + agent)
            for row, agent in zip(reached.afar, self.plan.afar.tolist(), strict=True)
        ]
        sends = [self.post.send(rows[agent - shard.first], rank, tag + agent) for agent, rank in self.plan.outgoing]
        if self.post.batched:
            return reached, self.post.start([*receives, *sends]), []
        return reached, self.post.start(receives), self.post.start(sends)


class DistributedShown:
    """Models on their way to all neighbours; a question is answered as soon as it has arrived."""

    def __init__(self, net: DistributedNetwork, x: Tensor) -> None:
        self.net, self.x = net, x
        self.reached, self.receives, self.sends = net.exchange("model", x)

    def average(self) -> Tensor:
        for letter in (*self.receives, *self.sends):
            letter.wait()
        self.net.carry_buffers()
        return self.net.average(self.reached)

    def answers(self, grad: CrossGradient, codec: Codec, memory: Tensor) -> Iterator[Answers]:
        net, shard = self.net, self.net.setting.shard
        slots, size = net.table.neighbour_NK.shape[1], self.x.shape[1]
        pi = net.weights.to(self.x)
        largest = -(-net.graph.agents // net.post.processes)  # agents of a process, at most
        for rows in blocks(largest, slots * size * self.x.element_size()):
            g, edges = self._block(rows, grad, codec, memory)
            rows = slice(rows.start, min(rows.stop, len(shard)))
            if rows.start < rows.stop:
                among_all = slice(rows.start + shard.first, rows.stop + shard.first)
                G = in_slots(g, net.table, among_all, edges)
                yield Answers(rows, G, pi[rows, : G.shape[1] + 1])

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
        letters = {edge: [torch.empty_like(part) for part in template] for edge in np.setdiff1d(mine, ours).tolist()}
        receives = [
            net.post.receive(part, net.rank_of(int(table.speaker_E[edge])), self._tag(edge, number))
            for edge, parts in letters.items()
            for number, part in enumerate(parts)
        ]
        under_way = [] if net.post.batched else net.post.start(receives)
        sends: list[dist.P2POp] = []
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
                answer = [
                    net.post.send(part, net.rank_of(guest), self._tag(edge, i)) for i, part in enumerate(sent.wire)
                ]
                sends += answer
                under_way += [] if net.post.batched else net.post.start(answer)
        if net.post.batched:
            under_way = net.post.start([*receives, *sends])
        for letter in under_way:
            letter.wait()
        for edge, parts in letters.items():
            g_MD[place[edge]] = codec.decode(tuple(parts), grad.sizes)[0]
        return g_MD, mine

    def _tag(self, edge: int, part: int) -> int:
        return len(KINDS) * self.net.graph.agents + 2 * int(self.net.edges[edge]) + part

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
