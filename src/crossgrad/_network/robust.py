"""Averages by a robust rule, and averages with hostile agents that send something else than their models.

n: agents of this process, K: neighbour slots, D: parameters.
"""

import torch
from scipy.sparse import csr_array
from torch import Tensor

from crossgrad.guards import RobustRule


def combine_rows_(
    rule: RobustRule | None, matrix: csr_array, own_nD: Tensor, arrived: Tensor, lazy: float, plus_nD: Tensor | None
) -> Tensor:
    """own <- (1 - lazy) rule(own, neighbours) + lazy own + plus, agent by agent.

    Args:
        rule: the robust rule; None for the weighted average.
        matrix: a row for each own agent: its own weight first, then those of its neighbours. Neighbours whose message
            did not arrive have the weight 0.
        own_nD: the agents' own rows.
        arrived: the rows of own and remote agents as their neighbours received them.
        lazy: share of the own row.
        plus_nD: added to the result.
    """
    combined_nD = torch.empty_like(own_nD)
    for j, own_D in enumerate(own_nD):
        entries = slice(matrix.indptr[j] + 1, matrix.indptr[j + 1])
        there = matrix.data[entries] != 0
        pi_K = torch.from_numpy(matrix.data[entries][there]).to(own_D)
        received_KD = arrived[matrix.indices[entries][there]]
        combined_D = (rule or _weighted_average)(own_D, received_KD, pi_K)
        combined_nD[j] = torch.lerp(combined_D, own_D, lazy) if lazy else combined_D
    return own_nD.copy_(combined_nD) if plus_nD is None else torch.add(combined_nD, plus_nD, out=own_nD)


def _weighted_average(own_D: Tensor, received_KD: Tensor, pi_K: Tensor) -> Tensor:
    return (1 - pi_K.sum()) * own_D + pi_K @ received_KD


def shorten_(G_nKD: Tensor, g_nD: Tensor) -> None:
    """Scale cross-gradients that are longer than the agent's own gradient down to its length."""
    for G_KD, g_D in zip(G_nKD, g_nD, strict=True):
        norms_K = torch.linalg.vector_norm(G_KD, dim=1).clamp(min=torch.finfo(g_D.dtype).tiny)
        G_KD.mul_((torch.linalg.vector_norm(g_D) / norms_K).clamp(max=1.0)[:, None])
