"""Graphs by name, as experiment files use them: frozen options, and `build` for a number of agents.

`seed` of `build` is the experiment's; a graph with a seed of its own uses that instead.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass, field, fields, make_dataclass
from typing import Any, Protocol, get_type_hints

from crossgrad._registry.entries import as_class_or_function
from crossgrad._registry.registry import Registry
from crossgrad.graphs import equi, families, finite_time, named, regular, trees
from crossgrad.graphs.averaging import with_global_averaging
from crossgrad.graphs.base import AnyGraph
from crossgrad.graphs.convert import as_graph
from crossgrad.graphs.files import read_edge_list, read_weights
from crossgrad.graphs.graph import Graph
from crossgrad.graphs.random_graphs import erdos_renyi
from crossgrad.graphs.sequences import one_peer_exponential, random_matchings
from crossgrad.graphs.validate import number_of_agents


class GraphSpec(Protocol):
    """What all entries of `GRAPHS` have: fields for the graph's options, and `build`."""

    def build(self, agents: int, seed: int) -> AnyGraph:
        """The graph of an experiment.

        Args:
            agents: N, the number of agents.
            seed: the experiment's seed, for a graph that is drawn and has no seed of its own.
        """


def spec(family: Callable[..., AnyGraph], *leave_out: str) -> type[GraphSpec]:
    """The class that names `family` in a configuration.

    Its fields are the family's parameters besides `agents` and those left out, with the same types and defaults; a
    parameter `seed` becomes None: the experiment's. Its docstring is the first line of the family's.

    >>> spec(erdos_renyi)(probability=0.5).build(10, seed=1)
    Graph('erdos-renyi', 10 agents, 48 messages)
    """
    hints = get_type_hints(family)
    options = [
        ("seed", int | None, field(default=None)) if name == "seed" else (name, hints[name], field(default=p.default))
        for name, p in inspect.signature(family).parameters.items()
        if name not in ("agents", *leave_out)
    ]

    def build(self: Any, agents: int, seed: int) -> AnyGraph:
        values = {option.name: getattr(self, option.name) for option in fields(self)}
        if values.get("seed", 0) is None:
            values["seed"] = seed
        return family(agents, **values)

    name = family.__name__.title().replace("_", "") + "Spec"
    # Each class is assigned below under its own name, so that instances can be pickled.
    body = {"build": build, "__module__": __name__, "__doc__": (family.__doc__ or "").partition("\n")[0]}
    return make_dataclass(name, options, frozen=True, namespace=body)


FullyConnectedSpec = spec(families.fully_connected)
RingSpec = spec(families.ring)
BipartiteSpec = spec(families.bipartite)
BalancedBipartiteSpec = spec(families.balanced_bipartite)
StarSpec = spec(families.star)
ChainSpec = spec(families.chain)
TorusSpec = spec(families.torus)
ExponentialSpec = spec(families.exponential)
OnePeerExponentialSpec = spec(one_peer_exponential)
RandomMatchingsSpec = spec(random_matchings, "base")
ErdosRenyiSpec = spec(erdos_renyi)
BaseGraphSpec = spec(finite_time.base_graph)
SimpleBaseGraphSpec = spec(finite_time.simple_base_graph)
HyperHypercubeSpec = spec(finite_time.hyper_hypercube)
EquiStaticSpec = spec(equi.equi_static)
EquiDynamicSpec = spec(equi.equi_dynamic)
BinaryTreeSpec = spec(trees.binary_tree)
DoubleBinaryTreeSpec = spec(trees.double_binary_tree)
RandomRegularSpec = spec(regular.random_regular)
RandomRegularEachStepSpec = spec(regular.random_regular_each_step)
SmallWorldSpec = spec(regular.small_world)
HypercubeSpec = spec(named.hypercube)
PetersenSpec = spec(named.petersen)
DyckSpec = spec(named.dyck)
DavisSpec = spec(named.davis)


@dataclass(frozen=True)
class SpanningTreeSpec:
    """A tree of edges of another graph, in which every agent is as near to the root as in that graph."""

    base: GraphSpec = RingSpec()
    root: int = 0

    def build(self, agents: int, seed: int) -> Graph:
        graph = self.base.build(agents, seed)
        if not isinstance(graph, Graph):
            raise ValueError(f"spanning-tree: the base graph must be fixed; {graph.name!r} changes. Name a fixed one.")
        return trees.spanning_tree(graph, self.root)


@dataclass(frozen=True)
class GlobalAveragingSpec:
    """Another graph, and every so many steps the exact average of all agents.

    Reference:
        Chen, Yuan, Zhang, Pan, Xu, Yin: Accelerating Gossip SGD with Periodic Global Averaging. ICML 2021,
        arXiv:2105.09080.
    """

    base: GraphSpec = RingSpec()
    every: int = 8

    def build(self, agents: int, seed: int) -> AnyGraph:
        return with_global_averaging(self.base.build(agents, seed), self.every)


@dataclass(frozen=True)
class EdgeListSpec:
    """A text file with an edge "j l" or "j l weight" per line: j receives from l."""

    path: str
    directed: bool = False

    def build(self, agents: int, seed: int) -> Graph:
        return _of_size(read_edge_list(self.path, directed=self.directed), self.path, agents)


@dataclass(frozen=True)
class WeightMatrixSpec:
    """A file with the N x N matrix of weights: text, .csv or .npy."""

    path: str

    def build(self, agents: int, seed: int) -> Graph:
        return _of_size(read_weights(self.path), self.path, agents)


def _of_size(graph: Graph, path: str, agents: int) -> Graph:
    if graph.agents != number_of_agents(agents):
        raise ValueError(
            f"{path}: expected a graph of {agents} agents; found one of {graph.agents}. "
            f"Set agents to {graph.agents}, or name another file."
        )
    return graph


_BUILT_IN: dict[str, type[GraphSpec]] = {
    "fully-connected": FullyConnectedSpec,
    "ring": RingSpec,
    "bipartite": BipartiteSpec,
    "balanced-bipartite": BalancedBipartiteSpec,
    "star": StarSpec,
    "chain": ChainSpec,
    "torus": TorusSpec,
    "exponential": ExponentialSpec,
    "one-peer-exponential": OnePeerExponentialSpec,
    "random-matchings": RandomMatchingsSpec,
    "erdos-renyi": ErdosRenyiSpec,
    "base-graph": BaseGraphSpec,
    "simple-base-graph": SimpleBaseGraphSpec,
    "hyper-hypercube": HyperHypercubeSpec,
    "equi-static": EquiStaticSpec,
    "equi-dynamic": EquiDynamicSpec,
    "binary-tree": BinaryTreeSpec,
    "double-binary-tree": DoubleBinaryTreeSpec,
    "spanning-tree": SpanningTreeSpec,
    "random-regular": RandomRegularSpec,
    "random-regular-each-step": RandomRegularEachStepSpec,
    "small-world": SmallWorldSpec,
    "hypercube": HypercubeSpec,
    "petersen": PetersenSpec,
    "dyck": DyckSpec,
    "davis": DavisSpec,
    "global-averaging": GlobalAveragingSpec,
    "edge-list": EdgeListSpec,
    "weight-matrix": WeightMatrixSpec,
}

GRAPHS: Registry[type[GraphSpec]] = Registry(
    "graph",
    _BUILT_IN,
    lambda name, thing: as_class_or_function("graph", name, thing, "build", ("agents", "seed"), as_graph),
)
