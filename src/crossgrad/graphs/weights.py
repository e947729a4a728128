"""From edges to weights.

An adjacency is a square `csr_array` whose entry (j, l) is non-zero where j receives from l; its diagonal
and the sizes of its entries are ignored, as every agent keeps some of its own model.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike
from scipy.sparse import coo_array, csr_array, diags_array

from crossgrad.graphs.validate import Sparse, Vector


def adjacency(agents: int, receiver: ArrayLike, sender: ArrayLike, both_ways: bool = False) -> Sparse:
    """An N x N matrix with ones where agent `receiver[i]` receives from agent `sender[i]`; repeated edges count once.

    Args:
        agents: N, the number of agents.
        receiver: the receiver of each edge.
        sender: the sender of each edge.
        both_ways: whether every edge also goes the other way.

    >>> adjacency(3, [0, 1], [1, 2], both_ways=True).toarray()
    array([[0., 1., 0.],
           [1., 0., 1.],
           [0., 1., 0.]])
    """
    ends = np.stack([np.asarray(receiver, dtype=np.int64), np.asarray(sender, dtype=np.int64)])
    if both_ways:
        ends = np.hstack([ends, ends[::-1]])
    return _ones(csr_array((np.ones(ends.shape[1]), (ends[0], ends[1])), shape=(agents, agents)))


def metropolis(adjacency: Sparse) -> Sparse:
    """Metropolis-Hastings weights, 1 / (1 + max(deg_j, deg_l)): symmetric, so doubly stochastic.

    Args:
        adjacency: non-zero where agent j receives from l.

    >>> metropolis(adjacency(3, [0, 1], [1, 2], both_ways=True)).toarray().round(3)
    array([[0.667, 0.333, 0.   ],
           [0.333, 0.333, 0.333],
           [0.   , 0.333, 0.667]])
    """
    A = _ones(adjacency)
    one_way = coo_array(A - A.T)
    if one_way.data.any():
        i = int(np.flatnonzero(one_way.data)[0])
        j, other = int(one_way.row[i]), int(one_way.col[i])
        if one_way.data[i] < 0:
            j, other = other, j
        raise ValueError(
            f"Metropolis weights need an undirected graph; {j} receives from {other} but {other} not from {j}. "
            "Use uniform weights, or join the agents both ways."
        )
    degree = np.diff(A.indptr)
    rows = np.repeat(np.arange(degree.size), degree)
    share = 1 / (1 + degree)
    edge = 1 / (1 + np.maximum(degree[rows], degree[A.indices]))
    # The rest of the row, summed without cancellation: a regular graph's own weight is 1 / (1 + deg) exactly.
    own = share + np.bincount(rows, share[rows] - edge, minlength=degree.size)
    return with_diagonal(csr_array((edge, A.indices, A.indptr), shape=A.shape), own)


def uniform(adjacency: Sparse) -> Sparse:
    """Every sender splits its weight equally over itself and its receivers: columns sum to 1.

    Push-sum (SGP) needs column sums of 1. The rows sum to 1 as well if all agents have the same number of senders and
    receivers, as on a ring or an exponential graph. On other graphs, including undirected ones, they need not, and then
    only SGP can use these weights.

    Args:
        adjacency: non-zero where agent j receives from l.

    >>> uniform(adjacency(3, [1, 2, 0, 2], [0, 1, 2, 0])).toarray().round(3)
    array([[0.333, 0.   , 0.5  ],
           [0.333, 0.5  , 0.   ],
           [0.333, 0.5  , 0.5  ]])
    """
    A = _ones(adjacency)
    share = 1 / (1 + A.sum(axis=0))
    return with_diagonal(csr_array((share[A.indices], A.indices, A.indptr), shape=A.shape), share)


def with_diagonal(edges: Sparse, own: Vector) -> Sparse:
    """The weights of the edges, and the agents' own on the diagonal."""
    W = csr_array(edges + diags_array(own))
    W.sort_indices()
    return W


def _ones(adjacency: Sparse) -> Sparse:
    A = coo_array(adjacency)
    A.sum_duplicates()
    edge = (A.data != 0) & (A.row != A.col)
    ones = csr_array((np.ones(int(edge.sum())), (A.row[edge], A.col[edge])), shape=A.shape)
    ones.sort_indices()
    return ones
