"""Who receives from whom, and with which weight: families of graphs, sequences of them, files.

>>> from crossgrad.graphs import bipartite, ring
>>> ring(40).mixing_rate > bipartite(40).mixing_rate
True
"""

from crossgrad.graphs.averaging import with_global_averaging
from crossgrad.graphs.base import AnyGraph
from crossgrad.graphs.convert import from_matrix, from_networkx
from crossgrad.graphs.equi import equi_dynamic, equi_static
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
from crossgrad.graphs.finite_time import base_graph, hyper_hypercube, simple_base_graph
from crossgrad.graphs.graph import Edges, Graph
from crossgrad.graphs.named import davis, dyck, hypercube, petersen
from crossgrad.graphs.pairs import random_pairs
from crossgrad.graphs.random_graphs import erdos_renyi
from crossgrad.graphs.regular import random_regular, random_regular_each_step, small_world
from crossgrad.graphs.sequences import GraphSequence, one_peer_exponential, random_matchings
from crossgrad.graphs.specs import GRAPHS, GraphSpec
from crossgrad.graphs.trees import binary_tree, double_binary_tree, is_tree, spanning_tree, tree_rounds, trees_of
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
    "base_graph",
    "binary_tree",
    "bipartite",
    "chain",
    "davis",
    "double_binary_tree",
    "dyck",
    "equi_dynamic",
    "equi_static",
    "erdos_renyi",
    "exponential",
    "from_matrix",
    "from_networkx",
    "fully_connected",
    "hyper_hypercube",
    "hypercube",
    "is_tree",
    "metropolis",
    "one_peer_exponential",
    "petersen",
    "random_matchings",
    "random_pairs",
    "random_regular",
    "random_regular_each_step",
    "read_edge_list",
    "read_weights",
    "ring",
    "simple_base_graph",
    "small_world",
    "spanning_tree",
    "star",
    "torus",
    "tree_rounds",
    "trees_of",
    "uniform",
    "with_global_averaging",
]
