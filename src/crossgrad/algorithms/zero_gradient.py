"""Gradients of zeros, for dry steps that only measure what a step sends, computes and holds."""

from collections.abc import Callable, Sequence

import torch
from torch import Tensor


class ZeroGradient:
    """A gradient of zeros, which costs nothing.

    Args:
        sizes: numbers in each parameter tensor.
        dtype: of the parameters.
        at_once: whether the gradients of all agents are made together, as those of a batched pass are.
    """

    def __init__(self, sizes: tuple[int, ...], dtype: torch.dtype = torch.float32, at_once: bool = False) -> None:
        self.sizes, self.dtype, self.at_once = sizes, dtype, at_once

    def __call__(self, x_ND: Tensor, active_N: Tensor | None = None) -> Tensor:
        return torch.zeros_like(x_ND)

    def cross(self, models: Sequence[Tensor], agents: Sequence[int]) -> Tensor:
        return torch.zeros(len(models), sum(self.sizes), dtype=self.dtype)

    def on_demand(self, x_ND: Tensor, active_N: Tensor | None = None) -> Callable[[slice], Tensor]:
        g_ND = torch.zeros_like(x_ND if self.at_once else x_ND[:0])
        return lambda rows: g_ND[rows] if self.at_once else torch.zeros_like(x_ND[rows])
