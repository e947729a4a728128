"""Graphs from matrices, from lists of edges and from networkx."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.sparse import csr_array, issparse

from crossgrad.graphs.base import AnyGraph
from crossgrad.graphs.graph import Graph
from crossgrad.graphs.validate import SUM_TOLERANCE, Indices, Sparse, Vector, weights_fit
from crossgrad.graphs.weights import adjacency, metropolis, uniform, with_diagonal

if TYPE_CHECKING:
    import networkx as nx


def from_matrix(matrix: ArrayLike | csr_array[Any, Any], name: str = "graph") -> Graph:
    """The graph with these weights, N x N, dense or sparse; `matrix[j, l]` is l's weight in j's average.

    Args:
        matrix: N x N weights; `matrix[j, l]` is l's weight in j's average.
        name: shown in tables and messages.

    >>> from_matrix([[0.5, 0.5], [0.5, 0.5]])
    Graph('graph', 2 agents, 2 messages)
    """
    if issparse(matrix):
        return Graph(csr_array(matrix), name)
    try:
        W = np.asarray(matrix)
    except ValueError as ragged:
        raise ValueError(f"{name}: expected a square matrix; found rows of unequal length.") from ragged
    if W.ndim != 2 or W.shape[0] != W.shape[1] or not W.size:
        raise ValueError(f"{name}: weights must be a square matrix with a row per agent; found the shape {W.shape}.")
    if W.dtype.kind not in "biuf":
        raise ValueError(f"{name}: weights must be real numbers; found {W.dtype}.")
    weights_fit(W.size, name)
    return Graph(_sparse(W), name)


def _sparse(W: NDArray[Any]) -> Sparse:
    """Make a matrix sparse without copying it to float64 first, as most of a large one is zeros."""
    receiver, sender = np.nonzero(W)
    return csr_array((W[receiver, sender].astype(np.float64), (receiver, sender)), shape=W.shape)


def as_graph(value: Any) -> AnyGraph:
    """The graph itself, or the graph of a networkx graph.

    Raises:
        ValueError: it is something else, such as a graph's name.
    """
    if isinstance(value, AnyGraph):
        return value
    if hasattr(value, "is_multigraph"):
        return from_networkx(value)
    if isinstance(value, str):
        found = f"the name {value!r}"
    elif hasattr(value, "__name__"):
        found = f"the function {value.__name__}"
    else:
        found = "None" if value is None else f"a {type(value).__name__}"
    raise ValueError(
        f"graph must be a Graph such as crossgrad.ring(10), which says how many agents there are; found "
        f"{found}. Make one by crossgrad.ring(N) and the like, or crossgrad.from_matrix."
    )


def from_edges(
    agents: int, receiver: Indices, sender: Indices, weights: Vector | None, directed: bool, name: str
) -> Graph:
    """The graph in which `receiver[i]` receives from `sender[i]`, and unless `directed` the other way round as well.

    Without weights, an undirected graph gets Metropolis weights and a directed one uniform weights. With weights, an
    agent's own is 1 minus the others of its row, unless an edge to itself gives it. No edge may come twice.
    """
    if weights is None:
        edges = adjacency(agents, receiver, sender, both_ways=not directed)
        return Graph(uniform(edges) if directed else metropolis(edges), name)
    own = np.full(agents, np.nan)
    self_edge = receiver == sender
    own[receiver[self_edge]] = weights[self_edge]
    ends, w = np.stack([receiver, sender])[:, ~self_edge], weights[~self_edge]
    if not directed:
        ends, w = np.hstack([ends, ends[::-1]]), np.tile(w, 2)
    rest = 1 - np.bincount(ends[0], w, minlength=agents)
    open_ = np.isnan(own)
    over = np.flatnonzero(open_ & ~(rest >= -SUM_TOLERANCE))
    if over.size:
        raise ValueError(
            f"{name}: the weights that agent {over[0]} gives to its neighbours must sum to at most 1; "
            f"found {1 - rest[over[0]]:g}. Lower them, or give every agent's own weight as well."
        )
    own[open_] = rest[open_].clip(min=0)
    return Graph(with_diagonal(csr_array((w, (ends[0], ends[1])), shape=(agents, agents)), own), name)


def from_networkx(g: nx.Graph[Any], weight: str | None = None) -> Graph:
    """The graph with the edges of `g` and, if `weight` names an edge attribute, with these weights.

    Nodes 0 to N-1 keep their numbers; others are numbered in the order of `g.nodes`. In a directed graph
    the edge (u, v) is a message from u to v: v receives from u, and its weight is u's in v's average. Weights are
    otherwise as in `read_edge_list`.

    Args:
        g: an undirected or directed graph.
        weight: the edge attribute that holds the weights; None: Metropolis or uniform weights.

    >>> import networkx as nx
    >>> from_networkx(nx.petersen_graph()).degrees
    array([3, 3, 3, 3, 3, 3, 3, 3, 3, 3])
    """
    name = str(g.name or "networkx")
    if g.is_multigraph():
        raise ValueError(f"{name}: a pair must have one edge at most; found a multigraph. Use nx.Graph(g).")
    if not len(g):
        raise ValueError(f"{name}: a graph must have one node at least; found none.")
    agents = len(g)
    numbered = set(g.nodes) == set(range(agents))
    number = {node: node if numbered else i for i, node in enumerate(g.nodes)}
    ends = np.array([(number[v], number[u]) for u, v in g.edges], dtype=np.int64).reshape(-1, 2)
    values = None
    if weight is not None:
        values = np.array([_weight(name, u, v, data, weight) for u, v, data in g.edges(data=True)])
    return from_edges(agents, ends[:, 0], ends[:, 1], values, g.is_directed(), name)


def _weight(name: str, u: object, v: object, data: dict[str, Any], attribute: str) -> float:
    value = data.get(attribute)
    try:
        number = np.nan if value is None else float(value)
    except (TypeError, ValueError):
        number = np.nan
    if not 0 <= number < np.inf:
        raise ValueError(
            f"{name}: every edge must have a number that is not negative as {attribute!r}; "
            f"found {value!r} from {u!r} to {v!r}."
        )
    return number
