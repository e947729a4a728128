"""What CGA makes of an agent's own gradient and the cross-gradients.

R: agents of a block, K: neighbour slots (spare ones hold zeros), L = K + 1, D: parameters.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor

from crossgrad._numerics import qp
from crossgrad._numerics.blocks import bounded
from crossgrad._registry.entries import as_class
from crossgrad._registry.registry import Registry
from crossgrad.algorithms.api import Diagnostic

DIAGNOSTICS = (
    Diagnostic("active", "CGA: share of active constraints"),
    Diagnostic("shrinkage", "CGA: length of the direction over the own gradient's"),
    Diagnostic("cosine", "CGA: mean cosine between the own gradient and the neighbours'"),
    Diagnostic("stalled", "CGA: steps of agents without a direction", adds_up=True),
    Diagnostic("fallbacks", "CGA: QPs given up for the own gradient", adds_up=True),
)
COUNTED = torch.tensor([float(diagnostic.adds_up) for diagnostic in DIAGNOSTICS], dtype=torch.float64)

STALLED_BELOW = 1e-6  # |g~| / |g|
GRAM_COLUMNS = 1 << 16  # turned into float64 at a time
CACHE_LINE_NUMBERS = (
    8  # float64 numbers in a cache line: matrices that begin at one have sums of the same bits, wherever they lie
)


class Aggregation(Protocol):
    """Computes directions g~ from own gradients g, cross-gradients G and weights pi, each with a row of DIAGNOSTICS."""

    def __call__(self, g_RD: Tensor, G_RKD: Tensor, pi_RL: Tensor, sizes: Sequence[int]) -> tuple[Tensor, Tensor]: ...


@dataclass(frozen=True)
class Projection:
    """The direction nearest to the own gradient along which no neighbour's loss rises, to first order.

    It solves the paper's QP (equations 4 and 5), argmin |z - g|^2 subject to G z >= 0, by its dual. The defaults are
    those of the paper; each option does what the authors' released code does instead.

    Args:
        per_tensor: a QP for each parameter tensor instead of one for the model.
        weighted: multiply every gradient, own included, by its weight pi_jl before the QP.
        margin: lower bound of the QP's variables: u >= margin.

    >>> g, G = torch.tensor([[1.0, 0.0]]), torch.tensor([[[-1.0, 1.0], [0.5, 1.0]]])
    >>> pi = torch.full((1, 3), 1 / 3)
    >>> Projection()(g, G, pi, [2])[0].tolist()
    [[0.5, 0.5]]
    """

    per_tensor: bool = False  # a QP for each parameter tensor instead of one for the model
    weighted: bool = False  # every gradient, own included, times pi_jl
    margin: float = 0.0  # u >= margin

    def __post_init__(self) -> None:
        if not 0.0 <= self.margin < float("inf"):
            raise ValueError(f"the QP's margin must be a finite number of at least 0; found {self.margin}.")

    def __call__(self, g_RD: Tensor, G_RKD: Tensor, pi_RL: Tensor, sizes: Sequence[int]) -> tuple[Tensor, Tensor]:
        degree_R = (pi_RL[:, 1:] != 0).sum(dim=1)
        degrees = sorted(set(degree_R.tolist()))
        if len(degrees) == 1:
            return self._of_one_degree(g_RD, G_RKD[:, : degrees[0]], pi_RL[:, : degrees[0] + 1], sizes)
        z_RD, diagnostics = torch.empty_like(g_RD), g_RD.new_empty(len(g_RD), len(DIAGNOSTICS), dtype=torch.float64)
        for degree in degrees:  # without spare slots, an agent's bits do not depend on who else is in its block
            rows = (degree_R == degree).nonzero()[:, 0]
            z_RD[rows], diagnostics[rows] = self._of_one_degree(
                g_RD[rows], G_RKD[rows, :degree], pi_RL[rows, : degree + 1], sizes
            )
        return z_RD, diagnostics

    def _of_one_degree(self, g_RD: Tensor, G_RKD: Tensor, pi_RL: Tensor, sizes: Sequence[int]) -> tuple[Tensor, Tensor]:
        """As a call, for agents that all have the same number of neighbours."""
        if self.weighted:
            g_RD, G_RKD = pi_RL[:, :1] * g_RD, pi_RL[:, 1:, None] * G_RKD
        z_RD = torch.empty_like(g_RD)
        binding_R, fallbacks_R, g_squared_R, z_squared_R = (g_RD.new_zeros(len(g_RD)).double() for _ in range(4))
        products_RK, G_squared_RK = (g_RD.new_zeros(G_RKD.shape[:2]).double() for _ in range(2))
        pieces = list(sizes) if self.per_tensor else [g_RD.shape[1]]
        start = 0
        for size in pieces:
            piece = slice(start, start + size)
            gram_RLL = _gram(g_RD[:, piece], G_RKD[:, :, piece])
            u_RK, solved_R = self._dual(gram_RLL)
            squared_R = _combine(z_RD[:, piece], g_RD[:, piece], u_RK, G_RKD[:, :, piece])
            if not bool(solved_R.all()):
                z_RD[:, piece] = torch.where(solved_R[:, None], z_RD[:, piece], g_RD[:, piece])
            g_squared_R += gram_RLL[:, -1, -1]
            products_RK += gram_RLL[:, -1, :-1]
            G_squared_RK += gram_RLL.diagonal(dim1=1, dim2=2)[:, :-1]
            z_squared_R += torch.where(solved_R, squared_R, gram_RLL[:, -1, -1])
            binding_R += (u_RK > self.margin).sum(dim=1) / max(1, u_RK.shape[1]) / len(pieces)
            fallbacks_R += ~solved_R
            start += size
        shrinkage_R = z_squared_R.sqrt() / g_squared_R.sqrt().clamp(min=torch.finfo(torch.float64).tiny)
        stalled_R = (shrinkage_R < STALLED_BELOW).double()
        cosine_R = _cosine(products_RK, g_squared_R, G_squared_RK)
        return z_RD, torch.stack([binding_R, shrinkage_R, cosine_R, stalled_R, fallbacks_R], dim=1)

    def _dual(self, gram_RLL: Tensor) -> tuple[Tensor, Tensor]:
        """The dual's solution u, and for which agents it was found. The QP needs the Gram matrix only."""
        both = gram_RLL.cpu().numpy()
        u, solved = qp.solve(both[:, :-1, :-1].copy(), both[:, :-1, -1].copy(), lower=self.margin)
        return torch.from_numpy(u).to(gram_RLL.device), torch.from_numpy(solved).to(gram_RLL.device)


@dataclass(frozen=True)
class Mean:
    """The mean of own gradient and cross-gradients with the graph's weights: no projection.

    An ablation: it shows how much of CGA's effect comes from the cross-gradients alone, without the QP.

    >>> g, G = torch.tensor([[1.0, 0.0]]), torch.tensor([[[-1.0, 1.0], [0.5, 1.0]]])
    >>> Mean()(g, G, torch.tensor([[0.5, 0.25, 0.25]]), [2])[0].tolist()
    [[0.375, 0.5]]
    """

    def __call__(self, g_RD: Tensor, G_RKD: Tensor, pi_RL: Tensor, sizes: Sequence[int]) -> tuple[Tensor, Tensor]:
        products, squares = [], []
        z_RD = pi_RL[:, :1] * g_RD
        for pi_R, G_RD in zip(pi_RL[:, 1:].unbind(dim=1), G_RKD.unbind(dim=1), strict=True):
            z_RD += pi_R[:, None] * G_RD  # in the order of the slots: the same bits, however many are spare
            products.append((g_RD * G_RD).sum(dim=1, dtype=torch.float64))
            squares.append(_norms(G_RD).square())
        zeros_R = torch.zeros(len(g_RD), dtype=torch.float64, device=g_RD.device)
        shrinkage_R = _norms(z_RD) / _norms(g_RD).clamp(min=torch.finfo(torch.float64).tiny)
        cosine_R = _cosine(
            _stacked_columns(products, zeros_R), _norms(g_RD).square(), _stacked_columns(squares, zeros_R)
        )
        return z_RD, torch.stack([zeros_R, shrinkage_R, cosine_R, zeros_R, zeros_R], dim=1)


def _cosine(products_RK: Tensor, g_squared_R: Tensor, G_squared_RK: Tensor) -> Tensor:
    """The mean cosine between own gradient and cross-gradients; 0 where there is none to compare."""
    lengths_RK = (g_squared_R[:, None] * G_squared_RK).sqrt()
    there_RK = (lengths_RK > 0) & lengths_RK.isfinite()
    cosine_RK = torch.where(there_RK, products_RK / torch.where(there_RK, lengths_RK, 1.0), 0.0)
    return cosine_RK.sum(dim=1) / there_RK.sum(dim=1).clamp(min=1)


def _stacked_columns(parts_R: Sequence[Tensor], like_R: Tensor) -> Tensor:
    return torch.stack(list(parts_R), dim=1) if parts_R else like_R[:, None][:, :0]


def _gram(g_RD: Tensor, G_RKD: Tensor) -> Tensor:
    """All inner products of the cross-gradients and, last, the own gradient, in float64."""
    agents, slots, size = G_RKD.shape
    gram_RLL = torch.zeros(agents, slots + 1, slots + 1, dtype=torch.float64, device=g_RD.device)
    chunk = bounded(GRAM_COLUMNS)
    width = min(chunk, -(-size // CACHE_LINE_NUMBERS) * CACHE_LINE_NUMBERS)
    rows = torch.zeros(agents, slots + 1, width, dtype=torch.float64, device=g_RD.device)
    for g, G in zip(torch.split(g_RD, chunk, dim=1), torch.split(G_RKD, chunk, dim=2), strict=True):
        used = g.shape[1]
        rows[:, :-1, :used], rows[:, -1, :used], rows[:, :, used:] = G, g, 0.0
        gram_RLL.baddbmm_(rows, rows.mT)
    return gram_RLL


def _combine(z_RD: Tensor, g_RD: Tensor, u_RK: Tensor, G_RKD: Tensor) -> Tensor:
    """Make z = g + G'u, and return |z|^2. In float64: where rows are nearly opposed, u is large and most cancels."""
    squared_R = torch.zeros(len(z_RD), dtype=torch.float64, device=z_RD.device)
    binding = u_RK.any(dim=0).nonzero()[:, 0].tolist()
    parts = (torch.split(whole, bounded(GRAM_COLUMNS), dim=-1) for whole in (z_RD, g_RD, G_RKD))
    for z, g, G in zip(*parts, strict=True):
        exact = g.double() + 0.0  # a copy in which no zero is negative, whichever slots are left out
        for k in binding:
            exact += G[:, k] * u_RK[:, k, None]
        z.copy_(exact)
        squared_R += exact.square_().sum(dim=1)
    return squared_R


def _norms(rows_RD: Tensor) -> Tensor:
    norms: Tensor = torch.linalg.vector_norm(rows_RD, dim=1, dtype=torch.float64)
    return norms


RELEASED = Projection(per_tensor=True, weighted=True, margin=0.5)
AGGREGATIONS: Registry[type] = Registry(
    "aggregation",
    {"projection": Projection, "mean": Mean},
    lambda name, thing: as_class("aggregation", name, thing, ("__call__",)),
)
