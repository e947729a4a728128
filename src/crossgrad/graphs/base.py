"""What fixed graphs and graphs that change from step to step have in common."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from crossgrad.graphs.graph import Graph


class AnyGraph(ABC):
    """A `Graph` or a `GraphSequence`: who receives from whom in each step, and with which weight.

    Code that takes a graph calls `at(step)`, so it need not know which of the two it was given.
    """

    if TYPE_CHECKING:  # fields of GraphSequence, properties of Graph

        @property
        def name(self) -> str: ...

        @property
        def agents(self) -> int: ...

        @property
        def period(self) -> int | None: ...

        @property
        def undirected(self) -> bool: ...

        @property
        def mutual(self) -> bool: ...

        @property
        def row_stochastic(self) -> bool: ...

        @property
        def column_stochastic(self) -> bool: ...

        @property
        def messages(self) -> float: ...

        @property
        def mixing_rate(self) -> float: ...

    @abstractmethod
    def at(self, step: int) -> Graph:
        """The graph of that step, counted from 0."""

    @abstractmethod
    def union(self) -> Graph:
        """A graph with every edge that ever occurs."""

    @abstractmethod
    def to_undirected(self, name: str | None = None) -> AnyGraph:
        """The same edges, each in both directions, with Metropolis weights."""

    @property
    def doubly_stochastic(self) -> bool:
        """Whether rows and columns of the weights sum to 1, so that averaging preserves the mean."""
        return self.row_stochastic and self.column_stochastic

    @property
    def rho(self) -> float:
        """The square of the mixing rate, as in the CGA paper's assumption on the mixing matrix."""
        return self.mixing_rate**2

    @property
    def spectral_gap(self) -> float:
        """1 - sqrt(rho)."""
        return 1 - self.mixing_rate
