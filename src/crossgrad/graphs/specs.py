"""The graphs as a configuration names them: frozen options, and `build` for a number of agents.

`seed` of `build` is the experiment's; a graph with a seed of its own uses that instead.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol, TypeAlias

from crossgrad.graphs import families
from crossgrad.graphs.files import read_edge_list, read_weights
from crossgrad.graphs.graph import Graph
from crossgrad.graphs.random_graphs import erdos_renyi
from crossgrad.graphs.sequences import GraphSequence, one_peer_exponential, random_matchings
from crossgrad.graphs.validate import number_of_agents

AnyGraph: TypeAlias = Graph | GraphSequence


class GraphSpec(Protocol):
    """What all entries of `GRAPHS` have."""

    def build(self, agents: int, seed: int) -> AnyGraph:
        """The graph of an experiment with so many agents and that seed."""


@dataclass(frozen=True)
class FullyConnected:
    """Everybody hears everybody, with weight 1/N."""

    def build(self, agents: int, seed: int) -> Graph:
        return families.fully_connected(agents)


@dataclass(frozen=True)
class Ring:
    """Everybody hears the one before and the one after, with weight 1/3."""

    def build(self, agents: int, seed: int) -> Graph:
        return families.ring(agents)


@dataclass(frozen=True)
class Bipartite:
    """The paper's bipartite graph: two hubs, joined to all the others."""

    def build(self, agents: int, seed: int) -> Graph:
        return families.bipartite(agents)


@dataclass(frozen=True)
class BalancedBipartite:
    """Two halves, everybody hears the whole other half."""

    def build(self, agents: int, seed: int) -> Graph:
        return families.balanced_bipartite(agents)


@dataclass(frozen=True)
class Star:
    """Agent 0 hears all the others, and they only it."""

    def build(self, agents: int, seed: int) -> Graph:
        return families.star(agents)


@dataclass(frozen=True)
class Chain:
    """A ring that is open between the last agent and the first."""

    def build(self, agents: int, seed: int) -> Graph:
        return families.chain(agents)


@dataclass(frozen=True)
class Torus:
    """A grid, as square as possible, that wraps around."""

    def build(self, agents: int, seed: int) -> Graph:
        return families.torus(agents)


@dataclass(frozen=True)
class Exponential:
    """Directed: everybody hears those 1, 2, 4, 8, ... places before it."""

    def build(self, agents: int, seed: int) -> Graph:
        return families.exponential(agents)


@dataclass(frozen=True)
class OnePeerExponential:
    """Directed and changing: everybody hears the one 1, then 2, then 4, ... places before it."""

    def build(self, agents: int, seed: int) -> GraphSequence:
        return one_peer_exponential(agents)


@dataclass(frozen=True)
class RandomMatchings:
    """Changing: in every step random pairs average."""

    seed: int | None = None

    def build(self, agents: int, seed: int) -> GraphSequence:
        return random_matchings(agents, seed if self.seed is None else self.seed)


@dataclass(frozen=True)
class ErdosRenyi:
    """Every pair is joined with the same probability, 2 ln(N) / N unless given."""

    probability: float | None = None
    seed: int | None = None

    def build(self, agents: int, seed: int) -> Graph:
        return erdos_renyi(agents, self.probability, seed if self.seed is None else self.seed)


@dataclass(frozen=True)
class EdgeList:
    """A text file with an edge "j l" or "j l weight" per line: j hears l."""

    path: str
    directed: bool = False

    def build(self, agents: int, seed: int) -> Graph:
        return _of_size(read_edge_list(self.path, directed=self.directed), self.path, agents)


@dataclass(frozen=True)
class WeightMatrix:
    """A file with the N x N matrix of weights: text, .csv or .npy."""

    path: str

    def build(self, agents: int, seed: int) -> Graph:
        return _of_size(read_weights(self.path), self.path, agents)


def _of_size(graph: Graph, path: str, agents: int) -> Graph:
    if graph.agents != number_of_agents(agents):
        raise ValueError(
            f"{path}: expected a graph of {agents} agents, found one of {graph.agents}; "
            f"set agents to {graph.agents}, or name another file."
        )
    return graph


GRAPHS: dict[str, type[GraphSpec]] = {
    "fully-connected": FullyConnected,
    "ring": Ring,
    "bipartite": Bipartite,
    "balanced-bipartite": BalancedBipartite,
    "star": Star,
    "chain": Chain,
    "torus": Torus,
    "exponential": Exponential,
    "one-peer-exponential": OnePeerExponential,
    "random-matchings": RandomMatchings,
    "erdos-renyi": ErdosRenyi,
    "edge-list": EdgeList,
    "weight-matrix": WeightMatrix,
}
