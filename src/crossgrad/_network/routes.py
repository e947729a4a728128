"""Where the agents' messages go: which stay in this process, and which other processes need the rest.

N: agents, n: those of this process, m: agents of other processes that send to those here.
"""

from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.sparse import csr_array

from crossgrad._network.kept import kept_with_graph
from crossgrad._network.shard import Shard, holder
from crossgrad._network.slots import table_of
from crossgrad._numerics.mixing import EXACTLY
from crossgrad.graphs import Graph


@dataclass(frozen=True, eq=False)
class Routes:
    """The edges of a graph as one process sees them."""

    remote: NDArray[np.int64]  # agents of other processes that send to own ones, ascending
    place_N: NDArray[np.int64]  # where each agent's row lies: own agents first, then the remote ones
    outgoing: tuple[tuple[int, int], ...]  # (own agent, rank that receives from it)
    sending: NDArray[np.int64]  # edges on which own agents are the sender, ascending
    served: NDArray[np.int64]  # the same, in the order of their receivers' index within their process
    served_index: NDArray[np.int64]  # that index

    @classmethod
    def of(cls, graph: Graph, shard: Shard, processes: int) -> "Routes":
        """The routes of this process's agents."""
        table = table_of(graph)
        here, own = shard.holds(table.receiver_E), shard.holds(table.sender_E)
        remote = np.unique(table.sender_E[here & ~own])
        place = np.zeros(graph.agents, np.int64)
        place[shard.rows] = np.arange(len(shard))
        place[remote] = len(shard) + np.arange(len(remote))
        pairs = zip(table.sender_E[own & ~here].tolist(), table.receiver_E[own & ~here].tolist(), strict=True)
        outgoing = {(agent, holder(receiver, graph.agents, processes)) for agent, receiver in pairs}
        firsts = [Shard.of(graph.agents, rank, processes) for rank in range(processes)]
        index_N = np.concatenate([np.arange(len(each)) for each in firsts])
        sending = np.flatnonzero(own)
        index = index_N[table.receiver_E[sending]]
        order = np.argsort(index, kind="stable")
        return cls(remote, place, tuple(sorted(outgoing)), sending, sending[order], index[order])


routes_of = kept_with_graph(Routes.of)


@kept_with_graph
def matrix_of(graph: Graph, shard: Shard, processes: int, lazy: float, dtype: torch.dtype) -> csr_array:
    """The rows of (1 - lazy) Pi + lazy I for this process's agents, and columns for own and remote agents.

    The entries of a row are stored own weight first, then in the order of the slots: sums run in this order.
    """
    table, routes, rows = table_of(graph), routes_of(graph, shard, processes), shard.rows
    pi_nL = ((1 - lazy) * torch.from_numpy(table.pi_NL[rows])).to(dtype)
    pi_nL[:, 0] += lazy
    here_nL = np.pad(table.present_NK[rows], ((0, 0), (1, 0)), constant_values=True)
    own_n1 = np.arange(rows.start, rows.stop)[:, None]
    places_nL = routes.place_N[np.hstack([own_n1, table.neighbour_NK[rows]])]
    ends = np.concatenate([[0], here_nL.sum(axis=1).cumsum()])
    entries = pi_nL.double().numpy() if dtype not in EXACTLY else pi_nL.numpy()
    return csr_array((entries[here_nL], places_nL[here_nL], ends), shape=(len(shard), len(shard) + len(routes.remote)))


@kept_with_graph
def ends_of(graph: Graph, shard: Shard) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """The rows of own agents that send to somebody, and of those that receive."""
    table = table_of(graph)
    sending, receiving = (agents[shard.holds(agents)] for agents in (table.sender_E, table.receiver_E))
    return np.unique(sending) - shard.first, np.unique(receiving) - shard.first


@kept_with_graph
def arriving_of(graph: Graph, shard: Shard, processes: int, dtype: torch.dtype) -> csr_array:
    """The rows of `matrix_of` for own agents that receive, without own weights; a column for each that sends."""
    matrix, (senders, receivers) = matrix_of(graph, shard, processes, 0.0, dtype), ends_of(graph, shard)
    rows, remote = matrix[receivers], matrix.shape[1] - len(shard)
    place = np.zeros(matrix.shape[1], np.int64)
    place[senders] = np.arange(len(senders))
    place[len(shard) :] = len(senders) + np.arange(remote)
    own = rows.indptr[:-1]  # the first entry of each row
    ends = rows.indptr - np.arange(len(receivers) + 1)
    entries = np.delete(rows.data, own), place[np.delete(rows.indices, own)], ends
    return csr_array(entries, shape=(len(receivers), len(senders) + remote))


def without(matrix: csr_array, missing: NDArray[np.int64]) -> csr_array:
    """The matrix with zeros in these columns; their weight goes to the row's own agent.

    >>> without(csr_array(([0.5, 0.25, 0.25], [0, 1, 2], [0, 3]), shape=(1, 3)), np.array([2])).toarray().tolist()
    [[0.75, 0.25, 0.0]]
    """
    changed = matrix.copy()
    for row, (first, last) in enumerate(zip(matrix.indptr[:-1], matrix.indptr[1:], strict=True)):
        gone = first + np.flatnonzero(np.isin(matrix.indices[first:last], missing))
        changed.data[matrix.indptr[row]] += matrix.data[gone].sum()
        changed.data[gone] = 0
    return changed
