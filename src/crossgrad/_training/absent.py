"""Steps in which some agents are absent; the algorithm computes them as if all were there.

N: agents of this process, D: parameters.
"""

from typing import Any, TypeVar

from torch import Tensor

from crossgrad._gradients.wrapper import GradientWrapper
from crossgrad.algorithms.api import Algorithm, CrossGradient, Network
from crossgrad.models.buffers import Buffers

AnyState = TypeVar("AnyState", bound=Any)


class MaskedGradient(GradientWrapper):
    """Gradients in a step with absent agents: these draw no batch, and their gradient is zero."""

    def __init__(self, gradient: CrossGradient, present_N: Tensor) -> None:
        super().__init__(gradient)
        self.present_N = present_N

    def select(self, x_ND: Tensor, active_N: Tensor | None) -> Tensor:
        return self.present_N if active_N is None else active_N & self.present_N


def masked_step(
    algorithm: Algorithm[AnyState],
    s: AnyState,
    lr: float,
    grad: CrossGradient,
    net: Network,
    buffers: Buffers,
    present_N: Tensor,
) -> AnyState:
    """One step; the rows of absent agents stay as they are, in every tensor of the state and in the buffers.

    The network must have no link to absent agents. Their rows are copied beforehand, as a step may work in place.
    """
    if bool(present_N.all()):
        return algorithm.step(s, lr, grad, net)
    absent = (~present_N).nonzero()[:, 0].to(s.x.device)
    kept = [part[absent].clone() for part in s]
    floats, integers = buffers.floats_NF[absent].clone(), buffers.integers_NI[absent].clone()
    s = algorithm.step(s, lr, MaskedGradient(grad, present_N), net)
    for part, rows in zip(s, kept, strict=True):
        part[absent] = rows
    buffers.floats_NF[absent], buffers.integers_NI[absent] = floats, integers
    return s
