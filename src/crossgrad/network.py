"""The agents' network in one process: what agents say to one another is rows of a tensor.

N: agents, K: neighbour slots, D: parameters. Sums over neighbours run in the order of the slots, so that any
other spread of the agents over processes gives the same bits.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property, lru_cache

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from crossgrad.algorithms.api import Answers, CrossGradient, Meeting
from crossgrad.buffers import Buffers
from crossgrad.codec import Codec, send
from crossgrad.graphs import Graph, random_pairs
from crossgrad.randomness import generator
from crossgrad.traffic import Traffic

BLOCK_BYTES = 64 << 20  # cross-gradients held at a time; one agent's at least


@dataclass(frozen=True, eq=False)
class Slots:
    """A graph as a table: slot k of agent j is j's k-th neighbour, in ascending order; spare slots weigh nothing."""

    neighbour_NK: NDArray[np.int64]  # 0 in spare slots
    present_NK: NDArray[np.bool_]
    pi_NL: NDArray[np.float64]  # own weight first, then those of the slots
    hearer_E: NDArray[np.int64]
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
        neighbour = np.zeros((graph.agents, slots), np.int64)
        present = np.zeros((graph.agents, slots), bool)
        pi = np.zeros((graph.agents, slots + 1))
        neighbour[hearer, slot], present[hearer, slot] = speaker, True
        pi[:, 0] = graph.weights.diagonal()
        pi[hearer, slot + 1] = coo.data[off]
        return cls(neighbour, present, pi, hearer, speaker, slot)


class LocalNetwork:
    """All agents in one process, in one step."""

    def __init__(self, graph: Graph, union: Graph, traffic: Traffic, buffers: Buffers, seed: int, step: int) -> None:
        self.graph, self.union, self.traffic, self.buffers = graph, union, traffic, buffers
        self.seed, self.step = seed, step
        self.table = _table(graph)
        self.edges = traffic.edges(self.table.hearer_E, self.table.speaker_E)

    @property
    def slots(self) -> int:
        return int(_table(self.union).neighbour_NK.shape[1])

    @cached_property
    def weights(self) -> Tensor:
        """Pi as a table: own weights first, then those of the slots."""
        return torch.from_numpy(self.table.pi_NL)

    def mix(self, x: Tensor, *, kind: str = "model", lazy: float = 0.0) -> Tensor:
        self._count(kind, x)
        if kind == "model":
            self._carry_buffers(lazy=lazy)
        return self._average(x, lazy)

    def push(self, u: Tensor, w: Tensor) -> tuple[Tensor, Tensor]:
        self._count("model", u)
        self._count("weight", w)
        w_next = self._average(w)
        self._carry_buffers(weight=w, weight_next=w_next)
        return self._average(u), w_next

    def show(self, x: Tensor) -> "LocalShown":
        self._count("model", x)
        self._count("buffer", self.buffers.floats_NF)
        return LocalShown(self, x)

    def meet(self, single: bool) -> Meeting:
        pairs = random_pairs(self.graph, generator(self.seed, "meet", self.step), single)
        network = LocalNetwork(pairs, self.union, self.traffic, self.buffers, self.seed, self.step)
        awake = network.table.present_NK.any(axis=1)
        if not single or self.graph.agents == 1:
            awake = np.ones_like(awake)
        return Meeting(torch.from_numpy(awake), network)

    def draw(self, purpose: str) -> Tensor:
        return torch.from_numpy(generator(self.seed, purpose, self.step).random(self.graph.agents))

    def _average(self, x: Tensor, lazy: float = 0.0) -> Tensor:
        pi = ((1 - lazy) * self.weights).to(x)
        mixed = (pi[:, 0] + lazy)[:, None] * x
        for k, near in enumerate(self.table.neighbour_NK.T):
            mixed += pi[:, k + 1, None] * x[torch.from_numpy(near).to(x.device)]
        return mixed

    def _carry_buffers(
        self, lazy: float = 0.0, weight: Tensor | None = None, weight_next: Tensor | None = None
    ) -> None:
        """Average the buffers just as the models they travel with."""
        floats = self.buffers.floats_NF
        if floats.shape[1] == 0:
            return
        self._count("buffer", floats)
        if weight is None or weight_next is None:
            self.buffers.floats_NF = self._average(floats, lazy)
        else:
            self.buffers.floats_NF = self._average(weight * floats) / weight_next

    def _count(self, kind: str, rows: Tensor) -> None:
        self.traffic.add(kind, self.edges, rows.nbytes // len(rows))


class LocalShown:
    """Models that all neighbours see."""

    def __init__(self, net: LocalNetwork, x: Tensor) -> None:
        self.net, self.x, self.floats = net, x, net.buffers.floats_NF

    def average(self) -> Tensor:
        buffers = self.net.buffers
        if buffers.floats_NF.shape[1]:
            buffers.floats_NF = self.net._average(buffers.floats_NF)
        return self.net._average(self.x)

    def answers(self, grad: CrossGradient, codec: Codec, memory: Tensor) -> Iterator[Answers]:
        table, x, floats = self.net.table, self.x, self.floats
        agents, slots = table.neighbour_NK.shape
        block = max(1, BLOCK_BYTES // max(1, slots * x.shape[1] * x.element_size()))
        pi = self.net.weights.to(x)
        for first in range(0, agents, block):
            rows = slice(first, min(first + block, agents))
            edges = np.arange(*np.searchsorted(table.hearer_E, [rows.start, rows.stop]))
            hearer, speaker = table.hearer_E[edges], table.speaker_E[edges]
            g = grad.cross([x[j] for j in hearer], [floats[j] for j in hearer], speaker.tolist())
            if codec.feedback and len(edges):
                towards = self._slot_towards(speaker, hearer)
                owed = memory[speaker, towards]
                g, bytes_each = send(codec, g, owed, grad.sizes)
                memory[speaker, towards] = owed
            else:
                g, bytes_each = send(codec, g, None, grad.sizes)
            self.net.traffic.add(codec.kind, self.net.edges[edges], bytes_each)
            yield Answers(rows, self._in_slots(g, rows, edges), pi[rows])

    def _in_slots(self, g_MD: Tensor, rows: slice, edges: NDArray[np.int64]) -> Tensor:
        """The answers on these edges, each in its slot."""
        table, agents, slots = self.net.table, rows.stop - rows.start, self.net.table.neighbour_NK.shape[1]
        if len(edges) == agents * slots:
            return g_MD.view(agents, slots, g_MD.shape[1])
        G = g_MD.new_zeros(agents, slots, g_MD.shape[1])
        G[table.hearer_E[edges] - rows.start, table.slot_E[edges]] = g_MD
        return G

    def _slot_towards(self, speaker: NDArray[np.int64], hearer: NDArray[np.int64]) -> NDArray[np.int64]:
        """The slot that `speaker` keeps for `hearer`, the same in every step of a graph that changes."""
        union = _table(self.net.union)
        matches = (union.neighbour_NK[speaker] == hearer[:, None]) & union.present_NK[speaker]
        slots: NDArray[np.int64] = matches.argmax(axis=1)
        return slots


_table = lru_cache(maxsize=64)(Slots.of)  # a fixed graph's table is made once
