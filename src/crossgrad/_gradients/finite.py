"""Gradients that are finite numbers only, so that nothing else is ever sent.

M: gradients requested, D: parameters.
"""

import torch
from torch import Tensor

from crossgrad._gradients.wrapper import GradientWrapper, Request
from crossgrad.algorithms.api import CrossGradient


class FiniteGradient(GradientWrapper):
    """Replaces non-finite gradients by zeros. `bad` has the agents concerned; if there are any, the run ends."""

    def __init__(self, gradient: CrossGradient) -> None:
        super().__init__(gradient)
        self.bad: set[int] = set()  # agents of this process whose gradient was not finite

    def change(self, g_MD: Tensor, request: Request) -> Tensor:
        if len(g_MD) == 0 or bool(g_MD.sum().isfinite()):  # by far the fastest test; no sum with NaN or inf is finite
            return g_MD
        least_M, largest_M = torch.aminmax(g_MD, dim=1)  # both are NaN where any number is
        bad = (~(least_M.isfinite() & largest_M.isfinite())).nonzero()[:, 0].tolist()
        for row in bad:
            g_MD[row] = 0
            self.bad.add(int(request.agents[row]))
        return g_MD
