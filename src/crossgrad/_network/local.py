"""The agents' network as one process sees it: its own agents are rows of a tensor, and so are their neighbours.

N: agents of the whole network, n: those of this process, K: neighbour slots, D: parameters. Sums over neighbours
run in the order of the slots, so that any spread of the agents over processes gives the same bits.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import ClassVar

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.sparse import csr_array
from torch import Tensor

from crossgrad._network.shard import Shard
from crossgrad._network.traffic import Traffic
from crossgrad._numerics.blocks import blocks
from crossgrad._numerics.mixing import EXACTLY, mix_rows_
from crossgrad._numerics.seeding import generator
from crossgrad._storage.stateful import Stateful
from crossgrad.algorithms.api import CrossGradient, CrossGradients, Meeting, SharedModels
from crossgrad.codecs.codec import Codec, Sent, send
from crossgrad.graphs import Graph, random_pairs
from crossgrad.models.buffers import Buffers

BLOCK_BYTES = 8 << 20  # cross-gradients held at a time; one agent's at least. More is slower: caches are small


@dataclass(frozen=True, eq=False)
class Slots:
    """A graph as a table: slot k of agent j is j's k-th neighbour, in ascending order; spare slots weigh nothing."""

    neighbour_NK: NDArray[np.int64]  # the agent itself in spare slots
    present_NK: NDArray[np.bool_]
    pi_NL: NDArray[np.float64]  # own weight first, then those of the slots
    receiver_E: NDArray[np.int64]  # ascending
    sender_E: NDArray[np.int64]
    slot_E: NDArray[np.int64]

    @classmethod
    def of(cls, graph: Graph) -> "Slots":
        """The table of a graph."""
        receiver, sender, weight = graph.edges
        degree = np.bincount(receiver, minlength=graph.agents)
        slot = np.arange(len(receiver)) - np.repeat(np.cumsum(degree) - degree, degree)
        slots = int(degree.max())
        neighbour = np.repeat(np.arange(graph.agents)[:, None], slots, axis=1)
        present = np.zeros((graph.agents, slots), bool)
        pi = np.zeros((graph.agents, slots + 1))
        neighbour[receiver, slot], present[receiver, slot] = sender, True
        pi[:, 0] = graph.weights.diagonal()
        pi[receiver, slot + 1] = weight
        return cls(neighbour, present, pi, receiver, sender, slot)


table_of = lru_cache(maxsize=64)(Slots.of)  # a fixed graph's table is made once


@dataclass(eq=False)
class NetworkContext(Stateful):
    """What the networks of all steps share: the agents' places, their buffers, the count of bytes, the seed."""

    constants: ClassVar[tuple[str, ...]] = ("shard", "union", "buffers", "seed")  # buffers are saved with the models

    shard: Shard
    union: Graph
    traffic: Traffic
    buffers: Buffers
    seed: int


@dataclass(frozen=True, eq=False)
class Reached:
    """Rows of this process's agents, and of their neighbours in other processes."""

    own: Tensor
    remote: Tensor


class LocalNetwork:
    """One step of the network, where one process holds all agents."""

    def __init__(self, graph: Graph, context: NetworkContext, step: int) -> None:
        self.graph, self.context, self.step = graph, context, step
        self.table = table_of(graph)
        shard = context.shard
        self.spoken = np.flatnonzero(shard.holds(self.table.sender_E))
        self.edges = context.traffic.edges(self.table.receiver_E, self.table.sender_E)
        self.weights = torch.from_numpy(self.table.pi_NL[shard.rows])

    @property
    def slots(self) -> int:
        return int(table_of(self.context.union).neighbour_NK.shape[1])

    def mix(self, x: Tensor, *, kind: str = "model", lazy: float = 0.0) -> Tensor:
        """As `mix_`, but x stays as it is."""
        return self.mix_(x.clone(), kind=kind, lazy=lazy)

    def mix_(self, x: Tensor, plus: Tensor | None = None, *, kind: str = "model", lazy: float = 0.0) -> Tensor:
        self._count(kind, x)
        if kind == "model":
            self.carry_buffers(lazy=lazy)
        return self.average_(self.reach(kind, x), lazy, plus)

    def push(self, u: Tensor, w: Tensor) -> tuple[Tensor, Tensor]:
        """As `push_`, but u and w stay as they are."""
        return self.push_(u.clone(), w.clone())

    def push_(self, u: Tensor, w: Tensor) -> tuple[Tensor, Tensor]:
        self._count("model", u)
        self._count("weight", w)
        before = w.clone()
        self.average_(self.reach("weight", w))
        self.carry_buffers(weight=before, weight_next=w)
        return self.average_(self.reach("model", u)), w

    def share(self, x: Tensor) -> SharedModels:
        self._count("model", x)
        return LocalSharedModels(self, x)

    def meet(self, single: bool) -> Meeting:
        pairs = random_pairs(self.graph, generator(self.context.seed, "meet", self.step), single)
        network = self.on(pairs)
        awake: NDArray[np.bool_] = np.ones(self.graph.agents, bool)
        if single and self.graph.agents > 1:
            awake = network.table.present_NK.any(axis=1)  # type: ignore[assignment]
        return Meeting(torch.from_numpy(awake[self.context.shard.rows]), network)

    def on(self, graph: Graph) -> "LocalNetwork":
        """The same step on another graph."""
        return LocalNetwork(graph, self.context, self.step)

    def draw(self, purpose: str) -> Tensor:
        everybody = generator(self.context.seed, purpose, self.step).random(self.graph.agents)
        return torch.from_numpy(everybody[self.context.shard.rows])

    def average_(self, reached: Reached, lazy: float = 0.0, plus: Tensor | None = None) -> Tensor:
        """Put the weighted sums over what `reach` brought, plus what is asked for, in the place of the own rows."""
        own, remote = reached.own, reached.remote
        return mix_rows_(self._matrix(lazy, own.dtype, len(own) + len(remote)), own, remote, plus)

    def _matrix(self, lazy: float, dtype: torch.dtype, columns: int) -> csr_array:
        """The weights of this process's agents, own ones first, then in the order of the slots."""
        rows = self.context.shard.rows
        pi_nL = ((1 - lazy) * self.weights).to(dtype)
        pi_nL[:, 0] += lazy
        here_nL = np.pad(self.table.present_NK[rows], ((0, 0), (1, 0)), constant_values=True)
        own_n1 = np.arange(rows.start, rows.stop)[:, None]
        places_nL = self.places(np.hstack([own_n1, self.table.neighbour_NK[rows]]))
        ends = np.concatenate([[0], here_nL.sum(axis=1).cumsum()])
        entries = pi_nL.double().numpy() if dtype not in EXACTLY else pi_nL.numpy()
        return csr_array((entries[here_nL], places_nL[here_nL], ends), shape=(len(own_n1), columns))

    def send_cross_gradients(
        self,
        codec: Codec,
        g_MD: Tensor,
        memory_NKD: Tensor,
        receiver_M: NDArray[np.int64],
        sender_M: NDArray[np.int64],
        sizes: Sequence[int],
    ) -> Sent:
        """Send gradients from senders of this process; each keeps an error memory for each of its receivers."""
        if not codec.feedback or not len(sender_M):
            return send(codec, g_MD, None, sizes)
        mine, towards = sender_M - self.context.shard.first, slot_towards(self.context.union, sender_M, receiver_M)
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
        buffers = self.context.buffers
        floats = buffers.floats_NF
        if floats.shape[1] == 0:
            return
        self._count("buffer", floats)
        if weight is None or weight_next is None:
            self.average_(self.reach("buffer", floats), lazy)
        else:
            self.average_(self.reach("buffer", floats.mul_(weight))).div_(weight_next)

    def _count(self, kind: str, rows: Tensor) -> None:
        self.context.traffic.add(kind, self.edges[self.spoken], rows.nbytes // len(rows))


class LocalSharedModels:
    """Models that all neighbours see; here all of them are at hand."""

    def __init__(self, net: LocalNetwork, x: Tensor) -> None:
        self.net, self.x = net, x

    def average_(self, plus: Tensor | None = None) -> Tensor:
        self.net.carry_buffers()
        return self.net.average_(self.net.reach("model", self.x), plus=plus)

    def cross_gradients(self, grad: CrossGradient, codec: Codec, memory: Tensor) -> Iterator[CrossGradients]:
        table, x = self.net.table, self.x
        agents, slots = table.neighbour_NK.shape
        pi, each, own = self.net.weights.to(x), x.unbind(), grad.on_demand(x)
        for rows in blocks(agents, slots * x.shape[1] * x.element_size(), BLOCK_BYTES):
            edges = np.arange(*np.searchsorted(table.receiver_E, [rows.start, rows.stop]))
            g = grad.cross([each[j] for j in table.receiver_E[edges].tolist()], table.sender_E[edges].tolist())
            for some in blocks(len(edges), x.shape[1] * x.element_size()):
                self._send(codec, g[some], memory, edges[some], grad.sizes)
            G = in_slots(g, table, rows, edges)
            yield CrossGradients(rows, own(rows), G, pi[rows, : G.shape[1] + 1])
            del g, G

    def _send(self, codec: Codec, g_MD: Tensor, memory: Tensor, edges: NDArray[np.int64], sizes: Sequence[int]) -> None:
        """Send these gradients, each on its edge; what arrives is put in their place."""
        receiver, sender = self.net.table.receiver_E[edges], self.net.table.sender_E[edges]
        sent = self.net.send_cross_gradients(codec, g_MD, memory, receiver, sender, sizes)
        self.net.context.traffic.add(codec.kind, self.net.edges[edges], sent.bytes_each)
        if sent.arrives_MD.data_ptr() != g_MD.data_ptr():
            g_MD.copy_(sent.arrives_MD)


def in_slots(g_MD: Tensor, table: Slots, rows: slice, edges: NDArray[np.int64]) -> Tensor:
    """The answers that the agents `rows` got on these edges, each in its slot; as many slots as one of them needs."""
    agents, slots = rows.stop - rows.start, int(table.slot_E[edges].max(initial=-1)) + 1
    if len(edges) == agents * slots:
        return g_MD.view(agents, slots, g_MD.shape[1])
    G = g_MD.new_zeros(agents, slots, g_MD.shape[1])
    G[table.receiver_E[edges] - rows.start, table.slot_E[edges]] = g_MD
    return G


def slot_towards(union: Graph, sender: NDArray[np.int64], receiver: NDArray[np.int64]) -> NDArray[np.int64]:
    """The slot that `sender` keeps for `receiver`, the same in every step of a graph that changes."""
    table = table_of(union)
    matches = (table.neighbour_NK[sender] == receiver[:, None]) & table.present_NK[sender]
    slots: NDArray[np.int64] = matches.argmax(axis=1)
    return slots
