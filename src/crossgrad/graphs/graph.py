"""A graph: who receives from whom in one step, and with which weight."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np
from scipy.sparse import coo_array, csr_array
from scipy.sparse.csgraph import connected_components

from crossgrad.graphs import spectrum, validate
from crossgrad.graphs.base import AnyGraph
from crossgrad.graphs.validate import Indices, Matrix, Sparse, Vector
from crossgrad.graphs.weights import metropolis


class Edges(NamedTuple):
    """The directed edges of a graph, sorted by receiver and then by sender; no agent's edge to itself.

    >>> from crossgrad.graphs import chain
    >>> edges = chain(3).edges
    >>> edges.receiver.tolist(), edges.sender.tolist()
    ([0, 1, 1, 2], [1, 0, 2, 1])
    """

    receiver: Indices
    sender: Indices
    weight: Vector


@dataclass(frozen=True, eq=False, repr=False)
class Graph(AnyGraph):
    """Who receives from whom in one step, and with which weight.

    `weights[j, l]` is the weight of l's model in j's average, so that one averaging is X <- W X. Weights are finite,
    non-negative and float64, and rows or columns (or both) sum to 1. The graph is strongly connected, unless it is
    one step of a sequence, where only the steps together need to be.

    Args:
        weights: N x N; `weights[j, l]` is the weight of l's model in j's average.
        name: shown in tables and messages.
        part_of_sequence: the graph is one step of a sequence, and need not be connected.

    Raises:
        ValueError: the weights are not of that kind, or the graph falls into parts.

    >>> import numpy as np
    >>> from scipy.sparse import csr_array
    >>> Graph(csr_array(np.full((2, 2), 0.5)), "pair")
    Graph('pair', 2 agents, 2 messages)
    """

    weights: Sparse
    name: str = "graph"
    part_of_sequence: bool = False

    def __post_init__(self) -> None:
        if not isinstance(self.weights, csr_array):
            found = type(self.weights).__name__
            raise ValueError(f"{self.name}: weights must be a csr_array; found {found}. Use from_matrix.")
        if self.weights.dtype.kind not in "biuf":
            raise ValueError(f"{self.name}: weights must be real numbers; found {self.weights.dtype}.")
        if len(self.weights.shape) != 2 or len(set(self.weights.shape)) != 1 or not self.weights.shape[0]:
            raise ValueError(
                f"{self.name}: weights must be a square matrix with a row per agent; "
                f"found the shape {self.weights.shape}."
            )
        W = self.weights.astype(np.float64, copy=True)
        W.sum_duplicates()
        W.eliminate_zeros()
        object.__setattr__(self, "weights", W)
        self._check_values()
        self._check_connected()

    def _check_values(self) -> None:
        W = self.weights
        bad = np.flatnonzero(~(np.isfinite(W.data) & (W.data >= 0)))
        if bad.size:
            places = coo_array(W)
            receiver, sender = places.row[bad[0]], places.col[bad[0]]
            raise ValueError(
                f"{self.name}: weights must be finite and not negative; "
                f"found {W.data[bad[0]]:g} for agent {sender} in the average of agent {receiver}."
            )
        if not (self.row_stochastic or self.column_stochastic):
            rows: Vector = np.asarray(W.sum(axis=1))
            columns: Vector = np.asarray(W.sum(axis=0))
            row, column = int(np.abs(rows - 1).argmax()), int(np.abs(columns - 1).argmax())
            raise ValueError(
                f"{self.name}: the rows or the columns of the weights must sum to one; "
                f"found {rows[row]:.10g} in row {row} and {columns[column]:.10g} in column {column}."
            )

    def _check_connected(self) -> None:
        if self.part_of_sequence:
            return
        parts, part = connected_components(self.weights, directed=True, connection="strong")
        if parts > 1:
            other = int(np.flatnonzero(part != part[0])[0])
            raise ValueError(
                f"{self.name}: every agent must be reached from every other, directly or not; found {parts} parts: "
                f"agents 0 and {other} are in different ones. Join them with edges in both directions."
            )

    def __repr__(self) -> str:
        return f"Graph({self.name!r}, {self.agents} agents, {self.messages} messages)"

    @property
    def agents(self) -> int:
        """N, the number of agents."""
        return int(self.weights.shape[0])

    @cached_property
    def edges(self) -> Edges:
        """All directed edges: receiver, sender and weight, as three arrays of the same length.

        >>> from crossgrad.graphs import chain
        >>> receiver, sender, weight = chain(3).edges
        >>> receiver.tolist(), sender.tolist()
        ([0, 1, 1, 2], [1, 0, 2, 1])
        """
        entries = coo_array(self.weights)
        off = entries.row != entries.col
        return Edges(entries.row[off].astype(np.int64), entries.col[off].astype(np.int64), entries.data[off])

    @cached_property
    def undirected(self) -> bool:
        """Whether the weights are symmetric (to 1e-12)."""
        return validate.symmetric(self.weights)

    @cached_property
    def mutual(self) -> bool:
        """Whether the edge pattern is symmetric; weights may differ."""
        pattern = self.weights.astype(np.bool_).astype(np.float64)
        return validate.symmetric(pattern)

    @cached_property
    def row_stochastic(self) -> bool:
        """Whether the rows of the weights sum to 1 (to 1e-9)."""
        return validate.row_stochastic(self.weights)

    @cached_property
    def column_stochastic(self) -> bool:
        """Whether the columns of the weights sum to 1 (to 1e-9), as push-sum needs."""
        return validate.column_stochastic(self.weights)

    def neighbours(self, j: int) -> Indices:
        """The agents that j receives from, itself left out, in ascending order."""
        if not 0 <= j < self.agents:
            raise ValueError(f"{self.name}: an agent must be one of 0 to {self.agents - 1}; found {j}.")
        senders: Indices = self.weights.indices[slice(*self.weights.indptr[j : j + 2])].astype(np.int64)
        others: Indices = senders[senders != j]
        return others

    @cached_property
    def degrees(self) -> Indices:
        """How many neighbours each agent receives from."""
        senders = np.diff(self.weights.indptr).astype(np.int64)
        others: Indices = senders - (self.weights.diagonal() != 0)
        return others

    @property
    def messages(self) -> int:
        """The number of directed edges: messages of a step in which every agent sends once to each receiver."""
        return int(self.degrees.sum())

    @cached_property
    def mixing_rate(self) -> float:
        """The factor by which one averaging reduces disagreement in the worst case: sqrt(rho).

        max(|l2|, |lN|) for symmetric weights; the largest singular value of W - 11'/N for others
        that are doubly stochastic; the second largest modulus of an eigenvalue, which holds only in the
        long run, if only the rows or only the columns sum to one.
        """
        return spectrum.mixing_rate([self.weights])

    @cached_property
    def eigenvalues(self) -> tuple[float, ...]:
        """All eigenvalues of the weights, which must be symmetric, from the smallest to 1.

        >>> from crossgrad.graphs import ring
        >>> [round(eigenvalue, 6) for eigenvalue in ring(4).eigenvalues]
        [-0.333333, 0.333333, 0.333333, 1.0]
        """
        return spectrum.eigenvalues(self.weights)

    @cached_property
    def lowest_eigenvalue(self) -> float:
        """The smallest eigenvalue of the weights, which must be symmetric.

        >>> from crossgrad.graphs import ring
        >>> round(ring(6).lowest_eigenvalue, 6)
        -0.333333
        """
        return spectrum.lowest_eigenvalue(self.weights)

    @property
    def period(self) -> int:
        """1: every step has this graph. Together with `at` and `union`, as in a `GraphSequence`."""
        return 1

    def at(self, step: int) -> Graph:
        """The graph of that step: this one."""
        return self

    def union(self) -> Graph:
        """A graph with all the edges that ever occur: this one."""
        return self

    def to_undirected(self, name: str | None = None) -> Graph:
        """The same edges, each in both directions, with Metropolis weights."""
        both = csr_array(self.weights + self.weights.T)
        return Graph(metropolis(both), self.name if name is None else name, self.part_of_sequence)

    def dense(self) -> Matrix:
        """The weights as an N x N array."""
        return self.weights.toarray()
