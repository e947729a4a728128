"""Gradients that are never anything but finite numbers, so that nothing else is ever sent.

N: agents of this process, M: gradients asked for, D: parameters.
"""

from collections.abc import Callable, Sequence

import torch
from torch import Tensor

from crossgrad.algorithms.api import CrossGradient


class Finite:
    """A gradient that is zero where the true one is not finite; who that happened to is noted, and ends the run."""

    def __init__(self, gradient: CrossGradient) -> None:
        self.gradient = gradient
        self.bad: set[int] = set()  # agents of this process whose gradient was not finite

    @property
    def sizes(self) -> tuple[int, ...]:
        return self.gradient.sizes

    def __call__(self, x_ND: Tensor, active_N: Tensor | None = None) -> Tensor:
        return self._without_bad(self.gradient(x_ND, active_N), range(len(x_ND)))

    def cross(self, models: Sequence[Tensor], hosts: Sequence[int]) -> Tensor:
        return self._without_bad(self.gradient.cross(models, hosts), hosts)

    def on_demand(self, x_ND: Tensor, active_N: Tensor | None = None) -> Callable[[slice], Tensor]:
        own, agents = self.gradient.on_demand(x_ND, active_N), range(len(x_ND))
        return lambda rows: self._without_bad(own(rows), agents[rows])

    def _without_bad(self, g_MD: Tensor, hosts: Sequence[int]) -> Tensor:
        if len(g_MD) == 0 or bool(g_MD.sum().isfinite()):  # by far the fastest look; no sum with NaN or inf is finite
            return g_MD
        least_M, largest_M = torch.aminmax(g_MD, dim=1)  # both are NaN where any number is
        bad = (~(least_M.isfinite() & largest_M.isfinite())).nonzero()[:, 0].tolist()
        for row in bad:
            g_MD[row] = 0
            self.bad.add(int(hosts[row]))
        return g_MD
