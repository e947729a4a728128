"""A graph as tables: the slots in which an agent finds its neighbours, and the edges in order.

N: agents, K: slots of an agent, L: own weight and slots, E: directed edges.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from crossgrad._network.kept import kept_with_graph
from crossgrad.graphs import Graph


@dataclass(frozen=True, eq=False)
class Slots:
    """A graph as a table: slot k of agent j is j's k-th neighbour, in ascending order; spare slots have weight 0."""

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


table_of = kept_with_graph(Slots.of)  # a fixed graph's table is made once


def in_slots(g_MD: Tensor, table: Slots, rows: slice, edges: NDArray[np.int64]) -> Tensor:
    """What the agents `rows` received on these edges, by slot, with as many slots as one of them needs: (R, K, D)."""
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
