"""Who receives from whom, and with which weight: families of graphs, sequences of them, files.

>>> from crossgrad.graphs import bipartite, ring
>>> ring(40).mixing_rate > bipartite(40).mixing_rate
True
"""

from crossgrad.graphs.base import AnyGraph
from crossgrad.graphs.convert import from_matrix, from_networkx
from crossgrad.graphs.families import (
    balanced_bipartite,
    bipartite,
    chain,
    exponential,
    fully_connected,
    ring,
    star,
    torus,
)
from crossgrad.graphs.files import read_edge_list, read_weights
from crossgrad.graphs.graph import Edges, Graph
from crossgrad.graphs.pairs import random_pairs
from crossgrad.graphs.random_graphs import erdos_renyi
from crossgrad.graphs.sequences import GraphSequence, one_peer_exponential, random_matchings
from crossgrad.graphs.specs import GRAPHS, GraphSpec
from crossgrad.graphs.weights import adjacency, metropolis, uniform

__all__ = [
    "GRAPHS",
    "AnyGraph",
    "Edges",
    "Graph",
    "GraphSequence",
    "GraphSpec",
    "adjacency",
    "balanced_bipartite",
    "bipartite",
    "chain",
    "erdos_renyi",
    "exponential",
    "from_matrix",
    "from_networkx",
    "fully_connected",
    "metropolis",
    "one_peer_exponential",
    "random_matchings",
    "random_pairs",
    "read_edge_list",
    "read_weights",
    "ring",
    "star",
    "torus",
    "uniform",
]
