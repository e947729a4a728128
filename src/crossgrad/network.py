"""The agents' network as one process sees it: its own agents are rows of a tensor, and so are their neighbours.

N: agents of the whole network, n: those of this process, K: neighbour slots, D: parameters. Sums over neighbours
run in the order of the slots, so that any spread of the agents over processes gives the same bits.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from crossgrad.algorithms.api import Answers, CrossGradient, Meeting, Shown
from crossgrad.buffers import Buffers
from crossgrad.codec import Codec, Sent, send
from crossgrad.graphs import Graph, random_pairs
from crossgrad.randomness import generator
from crossgrad.shard import Shard
from crossgrad.traffic import Traffic

BLOCK_BYTES = 64 << 20  # cross-gradients held at a time; one agent's at least


@dataclass(frozen=True, eq=False)
class Slots:
    """A graph as a table: slot k of agent j is j's k-th neighbour, in ascending order; spare slots weigh nothing."""

    neighbour_NK: NDArray[np.int64]  # the agent itself in spare slots
    present_NK: NDArray[np.bool_]
    pi_NL: NDArray[np.float64]  # own weight first, then those of the slots
    hearer_E: NDArray[np.int64]  # ascending
    speaker_E: NDArray[np.int64]
    slot_E: NDArray[np.int64]

    @classmethod
    def of(cls, graph: Graph) -> "Slots":
        """The table of a graph."""
        coo = graph.weights.tocoo()
        off = coo.row != coo.col
        hearer, speaker = coo.row[off].astype(np.int64), coo.col[off].astype(np.int64)
        degree = np.bincount(hearer, minlength=graph.agents)
        slot = np.arange(len(hearer)) - np.repeat(np.cumsum(degree) - degree, degree)
        slots = int(degree.max())
        neighbour = np.repeat(np.arange(graph.agents)[:, None], slots, axis=1)
        present = np.zeros((graph.agents, slots), bool)
        pi = np.zeros((graph.agents, slots + 1))
        neighbour[hearer, slot], present[hearer, slot] = speaker, True
        pi[:, 0] = graph.weights.diagonal()
        pi[hearer, slot + 1] = coo.data[off]
        return cls(neighbour, present, pi, hearer, speaker, slot)


table_of = lru_cache(maxsize=64)(Slots.of)  # a fixed graph's table is made once


@dataclass(frozen=True, eq=False)
class Setting:
    """What stays the same from step to step: the agents' places, their buffers, the count of bytes, the seed."""

    shard: Shard
    union: Graph
    traffic: Traffic
    buffers: Buffers
    seed: int


@dataclass(frozen=True, eq=False)
class Reached:
    """Rows of this process's agents, and of their neighbours in other processes."""

    own: Tensor
    afar: Tensor

    def pick(self, places: NDArray[np.int64]) -> Tensor:
        """The rows at these places; own agents come first, then those from afar."""
        here = places < len(self.own)
        if here.all():
            return self.own.index_select(0, torch.from_numpy(places).to(self.own.device))
        if not here.any():
            return self.afar.index_select(0, torch.from_numpy(places - len(self.own)).to(self.own.device))
        rows = self.own.new_empty(len(places), *self.own.shape[1:])
        rows[here] = self.own[places[here]]
        rows[~here] = self.afar[places[~here] - len(self.own)]
        return rows


class LocalNetwork:
    """One step's network. Alone in its process, it holds every agent; `reach` is what another process would add."""

    def __init__(self, graph: Graph, setting: Setting, step: int) -> None:
        self.graph, self.setting, self.step = graph, setting, step
        self.table = table_of(graph)
        shard = setting.shard
        self.spoken = np.flatnonzero((self.table.speaker_E >= shard.first) & (self.table.speaker_E < shard.last))
        self.edges = setting.traffic.edges(self.table.hearer_E, self.table.speaker_E)
        self.weights = torch.from_numpy(self.table.pi_NL[shard.rows])

    @property
    def slots(self) -> int:
        return int(table_of(self.setting.union).neighbour_NK.shape[1])

    def mix(self, x: Tensor, *, kind: str = "model", lazy: float = 0.0) -> Tensor:
        self._count(kind, x)
        if kind == "model":
            self.carry_buffers(lazy=lazy)
        return self.average(self.reach(kind, x), lazy)

    def push(self, u: Tensor, w: Tensor) -> tuple[Tensor, Tensor]:
        self._count("model", u)
        self._count("weight", w)
        w_next = self.average(self.reach("weight", w))
        self.carry_buffers(weight=w, weight_next=w_next)
        return self.average(self.reach("model", u)), w_next

    def show(self, x: Tensor) -> Shown:
        self._count("model", x)
        return LocalShown(self, x)

    def meet(self, single: bool) -> Meeting:
        pairs = random_pairs(self.graph, generator(self.setting.seed, "meet", self.step), single)
        network = self.on(pairs)
        awake: NDArray[np.bool_] = np.ones(self.graph.agents, bool)
        if single and self.graph.agents > 1:
            awake = network.table.present_NK.any(axis=1)  # type: ignore[assignment]
        return Meeting(torch.from_numpy(awake[self.setting.shard.rows]), network)

    def on(self, graph: Graph) -> "LocalNetwork":
        """The same step on another graph."""
        return LocalNetwork(graph, self.setting, self.step)

    def draw(self, purpose: str) -> Tensor:
        everybody = generator(self.setting.seed, purpose, self.step).random(self.graph.agents)
        return torch.from_numpy(everybody[self.setting.shard.rows])

    def average(self, reached: Reached, lazy: float = 0.0) -> Tensor:
        """The weighted sums over what `reach` brought."""
        pi = ((1 - lazy) * self.weights).to(reached.own)
        mixed = (pi[:, 0] + lazy)[:, None] * reached.own
        rows = self.setting.shard.rows
        for k, (near, here) in enumerate(
            zip(self.table.neighbour_NK[rows].T, self.table.present_NK[rows].T, strict=True)
        ):
            if here.all():
                mixed += reached.pick(self.places(near)).mul_(pi[:, k + 1, None])
            else:
                who = torch.from_numpy(np.flatnonzero(here)).to(mixed.device)
                mixed.index_add_(0, who, reached.pick(self.places(near[here])).mul_(pi[who, k + 1, None]))
        return mixed

    def answer(
        self,
        codec: Codec,
        g_MD: Tensor,
        memory_NKD: Tensor,
        hearer_M: NDArray[np.int64],
        speaker_M: NDArray[np.int64],
        sizes: Sequence[int],
    ) -> Sent:
        """Send gradients from speakers of this process; each keeps an error memory for each of its hearers."""
        if not codec.feedback or not len(speaker_M):
            return send(codec, g_MD, None, sizes)
        mine, towards = speaker_M - self.setting.shard.first, slot_towards(self.setting.union, speaker_M, hearer_M)
        owed = memory_NKD[mine, towards]
        sent = send(codec, g_MD, owed, sizes)
        memory_NKD[mine, towards] = owed
        return sent

    def reach(self, kind: str, rows: Tensor) -> Reached:
        """These rows, and those of the neighbours in other processes."""
        return Reached(rows, rows[:0])

    def places(self, agents: NDArray[np.int64]) -> NDArray[np.int64]:
        """Where these agents lie in what `reach` returns; itself for a spare slot."""
        return agents

    def carry_buffers(self, lazy: float = 0.0, weight: Tensor | None = None, weight_next: Tensor | None = None) -> None:
        """Average the buffers just as the models they travel with."""
        buffers = self.setting.buffers
        floats = buffers.floats_NF
        if floats.shape[1] == 0:
            return
        self._count("buffer", floats)
        if weight is None or weight_next is None:
            buffers.floats_NF = self.average(self.reach("buffer", floats), lazy)
        else:
            buffers.floats_NF = self.average(self.reach("buffer", weight * floats)) / weight_next

    def _count(self, kind: str, rows: Tensor) -> None:
        self.setting.traffic.add(kind, self.edges[self.spoken], rows.nbytes // len(rows))


class LocalShown:
    """Models that all neighbours see; here all of them are at hand."""

    def __init__(self, net: LocalNetwork, x: Tensor) -> None:
        self.net, self.x = net, x

    def average(self) -> Tensor:
        self.net.carry_buffers()
        return self.net.average(self.net.reach("model", self.x))

    def answers(self, grad: CrossGradient, codec: Codec, memory: Tensor) -> Iterator[Answers]:
        table, x = self.net.table, self.x
        agents, slots = table.neighbour_NK.shape
        pi, each = self.net.weights.to(x), x.unbind()
        for rows in blocks(agents, slots * x.shape[1] * x.element_size()):
            edges = np.arange(*np.searchsorted(table.hearer_E, [rows.start, rows.stop]))
            hearer, speaker = table.hearer_E[edges], table.speaker_E[edges]
            g = grad.cross([each[j] for j in hearer.tolist()], speaker.tolist())
            sent = self.net.answer(codec, g, memory, hearer, speaker, grad.sizes)
            self.net.setting.traffic.add(codec.kind, self.net.edges[edges], sent.bytes_each)
            G = in_slots(sent.arrives_MD, table, rows, edges)
            yield Answers(rows, G, pi[rows, : G.shape[1] + 1])


def blocks(agents: int, bytes_each: int) -> Iterator[slice]:
    """As many agents at a time as the budget allows."""
    size = max(1, BLOCK_BYTES // max(1, bytes_each))
    for first in range(0, agents, size):
        yield slice(first, min(first + size, agents))


def in_slots(g_MD: Tensor, table: Slots, rows: slice, edges: NDArray[np.int64]) -> Tensor:
    """The answers that the agents `rows` got on these edges, each in its slot; as many slots as one of them needs."""
    agents, slots = rows.stop - rows.start, int(table.slot_E[edges].max(initial=-1)) + 1
    if len(edges) == agents * slots:
        return g_MD.view(agents, slots, g_MD.shape[1])
    G = g_MD.new_zeros(agents, slots, g_MD.shape[1])
    G[table.hearer_E[edges] - rows.start, table.slot_E[edges]] = g_MD
    return G


def slot_towards(union: Graph, speaker: NDArray[np.int64], hearer: NDArray[np.int64]) -> NDArray[np.int64]:
    """The slot that `speaker` keeps for `hearer`, the same in every step of a graph that changes."""
    table = table_of(union)
    matches = (table.neighbour_NK[speaker] == hearer[:, None]) & table.present_NK[speaker]
    slots: NDArray[np.int64] = matches.argmax(axis=1)
    return slots
