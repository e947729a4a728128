"""Weight decay and clipping, for every algorithm.

N: agents of this process, M: gradients requested, D: parameters.
"""

import torch
from torch import Tensor

from crossgrad._gradients.wrapper import GradientWrapper, Request
from crossgrad.algorithms.api import CrossGradient


class WeightDecay(GradientWrapper):
    """Adds the gradient of (decay / 2) |x|^2 to every gradient, own and cross: g + decay x at the same model x.

    This is the weight decay of `torch.optim.SGD`, not the decoupled one of AdamW.
    """

    def __init__(self, gradient: CrossGradient, decay: float | Tensor) -> None:
        super().__init__(gradient)
        self.decay = decay  # one number, or one for each parameter

    def change(self, g_MD: Tensor, request: Request) -> Tensor:
        active = request.active_N
        for g_D, x_D, agent in zip(g_MD, request.models, request.agents, strict=True):
            if active is None or bool(active[agent]):  # the others' gradients stay zero
                g_D.addcmul_(x_D, self.decay) if isinstance(self.decay, Tensor) else g_D.add_(x_D, alpha=self.decay)
        return g_MD


class NonzeroGradients(GradientWrapper):
    """Notes whether gradients were requested, and whether any of them was other than zero."""

    def __init__(self, gradient: CrossGradient) -> None:
        super().__init__(gradient)
        self.requested, self.nonzero = False, False

    def change(self, g_MD: Tensor, request: Request) -> Tensor:
        self.requested = self.requested or request.active_N is None or bool(request.active_N.any())
        self.nonzero = self.nonzero or bool(g_MD.any())
        return g_MD


class ClippedNorm(GradientWrapper):
    """Scales every gradient, own and cross, down to a norm of at most `largest`: g min(1, largest / |g|).

    The norm is taken over all parameters of one model, as in `torch.nn.utils.clip_grad_norm_`.
    """

    def __init__(self, gradient: CrossGradient, largest: float) -> None:
        super().__init__(gradient)
        self.largest = largest

    def change(self, g_MD: Tensor, request: Request) -> Tensor:
        for g_D in g_MD:
            norm = torch.linalg.vector_norm(g_D)
            g_D.mul_((self.largest / norm.clamp(min=torch.finfo(g_D.dtype).tiny)).clamp(max=1.0))
        return g_MD
