"""Graphs that change from step to step."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property, partial
from typing import NamedTuple

import numpy as np
from scipy.sparse import csr_array

from crossgrad._numerics.seeding import stream
from crossgrad.graphs import spectrum
from crossgrad.graphs.base import AnyGraph
from crossgrad.graphs.families import exponential, fully_connected
from crossgrad.graphs.graph import Graph
from crossgrad.graphs.pairs import average_pairs, edges_of, random_matching
from crossgrad.graphs.validate import Indices, number_of_agents, whole_number
from crossgrad.graphs.weights import adjacency, uniform

SAMPLED_STEPS = 200  # of a sequence that never repeats


class _Seen(NamedTuple):
    """Properties that hold for all steps of a sequence, and the mean number of messages."""

    undirected: bool
    mutual: bool
    row_stochastic: bool
    column_stochastic: bool
    messages: float


@dataclass(frozen=True, eq=False, repr=False)
class GraphSequence(AnyGraph):
    """A graph for every step.

    Properties of all steps, such as `doubly_stochastic`, are checked over one period or, if the sequence never repeats,
    over the first 200 steps.

    Args:
        name: shown in tables and messages.
        agents: N, the same in every step.
        period: steps after which the sequence repeats; None: never.
        draw: makes the graph of a step; a pure function of the step.
        everyone: makes the union graph, with every edge that ever occurs; neighbours are numbered by it.

    Raises:
        ValueError: a step has another number of agents, or an edge that the union graph lacks.

    >>> from crossgrad.graphs import chain, ring
    >>> turns = GraphSequence("turns", 4, 2, lambda step: (ring(4), chain(4))[step], lambda: ring(4))
    >>> turns.at(0).messages, turns.at(1).messages, turns.union().messages
    (8, 6, 8)
    """

    name: str
    agents: int
    period: int | None
    draw: Callable[[int], Graph]
    everyone: Callable[[], Graph]

    def __post_init__(self) -> None:
        number_of_agents(self.agents)
        if self.period is not None:
            whole_number(self.period, "period", least=1)

    def __repr__(self) -> str:
        return f"GraphSequence({self.name!r}, {self.agents} agents, period {self.period})"

    def at(self, step: int) -> Graph:
        """The graph of that step, counted from 0."""
        step = whole_number(step, "step")
        if self.period is not None:
            return self._one_period[step % self.period]
        graph = self._drawn(step)
        if "_union" in self.__dict__:  # once neighbours are numbered by the union, no step may have others
            self._check_edges(graph, self._union, step)
        return graph

    def union(self) -> Graph:
        """A graph with all the edges that ever occur, to number neighbours by."""
        return self._union

    @cached_property
    def _union(self) -> Graph:
        union = self.everyone()
        if union.agents != self.agents:
            raise ValueError(f"{self.name}: the union graph must have {self.agents} agents; it has {union.agents}.")
        for step, graph in enumerate(self._one_period):
            self._check_edges(graph, union, step)
        return union

    def _check_edges(self, graph: Graph, union: Graph, step: int) -> None:
        receiver, sender, _ = graph.edges
        known = union.edges.receiver * self.agents + union.edges.sender
        missing = np.flatnonzero(~np.isin(receiver * self.agents + sender, known))
        if missing.size:
            raise ValueError(
                f"{self.name}: the union graph must have every edge that occurs; in step {step} agent "
                f"{receiver[missing[0]]} receives from {sender[missing[0]]}, which it lacks. Add that edge to it."
            )

    @cached_property
    def _one_period(self) -> tuple[Graph, ...]:
        return tuple(self._drawn(step) for step in range(self.period or 0))

    def _drawn(self, step: int) -> Graph:
        graph = self.draw(step)
        if graph.agents != self.agents:
            raise ValueError(
                f"{self.name}: the graph of every step must have {self.agents} agents; step {step} has {graph.agents}."
            )
        return graph

    def _sample(self) -> Iterator[Graph]:
        return (self.at(step) for step in range(self.period or SAMPLED_STEPS))

    @cached_property
    def _seen(self) -> _Seen:
        """Properties of all steps of a period, or of sampled steps if there is none. Each graph is drawn once."""
        undirected = mutual = rows = columns = True
        messages = []
        for graph in self._sample():
            undirected = undirected and graph.undirected
            mutual = mutual and (undirected or graph.mutual)
            rows = rows and graph.row_stochastic
            columns = columns and ((undirected and rows) or graph.column_stochastic)
            messages.append(graph.messages)
        return _Seen(undirected, mutual, rows, columns, float(np.mean(messages)))

    @property
    def undirected(self) -> bool:
        """Whether the weights of every step are symmetric."""
        return self._seen.undirected

    @property
    def mutual(self) -> bool:
        """Whether the edge pattern of every step is symmetric; weights may differ."""
        return self._seen.mutual

    @property
    def row_stochastic(self) -> bool:
        """Whether the rows of every step's weights sum to 1."""
        return self._seen.row_stochastic

    @property
    def column_stochastic(self) -> bool:
        """Whether the columns of every step's weights sum to 1."""
        return self._seen.column_stochastic

    @property
    def messages(self) -> float:
        """Directed edges per step, on average."""
        return self._seen.messages

    @cached_property
    def mixing_rate(self) -> float:
        """The factor, per step, by which averaging shrinks disagreement.

        Periodic: the spectral norm of (the product over one period - 11'/N), to the power 1/period; if that
        product is not doubly stochastic, the second largest modulus of its eigenvalues in place of the norm.
        Otherwise: sqrt of the largest eigenvalue of (the mean of W'W over the first 200 steps - 11'/N), an
        estimate, and for many agents one on the high side.
        """
        if self.period is not None:
            shrunk = spectrum.mixing_rate([graph.weights for graph in self._sample()])
            return float(shrunk ** (1 / self.period))
        if not self.doubly_stochastic:
            raise ValueError(
                f"{self.name}: a mixing rate needs doubly stochastic weights; these are not. Use Metropolis weights."
            )
        squares = csr_array((self.agents, self.agents), dtype=np.float64)
        for graph in self._sample():
            squares = csr_array(squares + graph.weights.T @ graph.weights / SAMPLED_STEPS)
        return float(np.sqrt(spectrum.mixing_rate([squares])))

    def to_undirected(self, name: str | None = None) -> GraphSequence:
        """In every step the same edges, each in both directions, with Metropolis weights."""
        draw, everyone = partial(_undirected_at, self), self.union().to_undirected
        return GraphSequence(self.name if name is None else name, self.agents, self.period, draw, everyone)


def one_peer_exponential(agents: int) -> GraphSequence:
    """In step k, agent j receives from agent j - 2^(k mod ceil(log2 N)) only; both weights are 1/2.

    N = 2^p agents reach their average exactly in p steps.

    Args:
        agents: N, the number of agents.

    Reference:
        Ying, Yuan, Chen, Hu, Pan, Yin: Exponential Graph is Provably Efficient for Decentralized Deep Training. NeurIPS
        2021, arXiv:2110.13363.

    >>> [one_peer_exponential(8).at(step).neighbours(0).item() for step in range(4)]
    [7, 6, 4, 7]
    """
    N = number_of_agents(agents)
    period = max(1, (N - 1).bit_length())
    return GraphSequence(
        "one-peer-exponential", N, period, draw=partial(_one_peer, N), everyone=partial(exponential, N)
    )


def random_matchings(agents: int, seed: int = 0, base: Graph | None = None) -> GraphSequence:
    """In every step the pairs of a random maximal matching average, with weights 1/2.

    Args:
        agents: N, the number of agents.
        seed: seed of the random draws.
        base: the graph whose edges may occur; None: all pairs.

    Reference:
        Boyd, Ghosh, Prabhakar, Shah: Randomized gossip algorithms. IEEE Transactions on Information Theory 52, 2006,
        doi:10.1109/TIT.2006.874516.

    >>> random_matchings(10).at(0).degrees
    array([1, 1, 1, 1, 1, 1, 1, 1, 1, 1])
    """
    N, seed = number_of_agents(agents), whole_number(seed, "seed")
    if base is not None and base.agents != N:
        raise ValueError(f"random-matchings: base must have {N} agents; found {base.agents}.")
    draw = partial(_matching, N, seed, None if base is None else edges_of(base))
    everyone = partial(fully_connected, N) if base is None else base.to_undirected
    return GraphSequence("random-matchings", N, None, draw, everyone)


def _undirected_at(sequence: GraphSequence, step: int) -> Graph:
    return sequence.at(step).to_undirected()


def _one_peer(agents: int, step: int) -> Graph:
    j = np.arange(agents)
    halves = uniform(adjacency(agents, j, (j - 2**step) % agents))
    return Graph(halves, "one-peer-exponential", part_of_sequence=True)


def _matching(agents: int, seed: int, edges: Indices | None, step: int) -> Graph:
    return average_pairs(agents, random_matching(agents, edges, stream(seed, "pm", step)), "random-matchings")
