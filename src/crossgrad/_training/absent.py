"""A step in which some agents are away: no algorithm needs to know.

N: agents of this process, D: parameters.
"""

from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from torch import Tensor

from crossgrad.algorithms.api import Algorithm, CrossGradient, Network
from crossgrad.models.buffers import Buffers

S = TypeVar("S", bound=Any)


class MaskedGradient:
    """The gradient of those who are there; the others draw no batch, and theirs is zero."""

    def __init__(self, grad: CrossGradient, present_N: Tensor) -> None:
        self.grad, self.present_N = grad, present_N

    @property
    def sizes(self) -> tuple[int, ...]:
        return self.grad.sizes

    def __call__(self, x_ND: Tensor, active_N: Tensor | None = None) -> Tensor:
        return self.grad(x_ND, self.present_N if active_N is None else active_N & self.present_N)

    def on_demand(self, x_ND: Tensor, active_N: Tensor | None = None) -> Callable[[slice], Tensor]:
        return self.grad.on_demand(x_ND, self.present_N if active_N is None else active_N & self.present_N)

    def cross(self, models: Sequence[Tensor], hosts: Sequence[int]) -> Tensor:
        return self.grad.cross(models, hosts)


def masked_step(
    algorithm: Algorithm[S],
    s: S,
    lr: float,
    grad: CrossGradient,
    net: Network,
    buffers: Buffers,
    present_N: Tensor,
) -> S:
    """One step; the rows of those away stay as they are, in every tensor of the state and in the buffers.

    The network must have no link to those away. Their rows are copied beforehand, as a step may work in place.
    """
    if bool(present_N.all()):
        return algorithm.step(s, lr, grad, net)
    away = (~present_N).nonzero()[:, 0].to(s.x.device)
    kept = [part[away].clone() for part in s]
    floats, integers = buffers.floats_NF[away].clone(), buffers.integers_NI[away].clone()
    s = algorithm.step(s, lr, MaskedGradient(grad, present_N), net)
    for part, rows in zip(s, kept, strict=True):
        part[away] = rows
    buffers.floats_NF[away], buffers.integers_NI[away] = floats, integers
    return s
