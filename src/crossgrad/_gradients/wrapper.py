"""One gradient around another: what is asked for or what comes back is changed, and no algorithm knows.

N: agents of this process, M: gradients asked for, D: parameters.
"""

from collections.abc import Callable, Sequence
from typing import NamedTuple

from torch import Tensor

from crossgrad.algorithms.api import CrossGradient


class Request(NamedTuple):
    """Gradients that were asked for, one for each row."""

    models: Sequence[Tensor]  # M models of D parameters
    hosts: Sequence[int]  # the agents whose losses they are taken of
    own: bool  # each agent's at its own model; otherwise at somebody else's
    active_N: Tensor | None = None  # the agents that draw a batch; None: all


class GradientWrapper:
    """A gradient that hands every request to another one.

    Subclasses override `select`, which sees who is asked before a batch is drawn, or `change`, which sees every
    gradient before the algorithm does.
    """

    def __init__(self, gradient: CrossGradient) -> None:
        self.gradient = gradient

    @property
    def sizes(self) -> tuple[int, ...]:
        return self.gradient.sizes

    def select(self, x_ND: Tensor, active_N: Tensor | None) -> Tensor | None:
        """Return the agents that are to draw a batch; None for all."""
        return active_N

    def change(self, g_MD: Tensor, request: Request) -> Tensor:
        """Return the gradients that the algorithm is to see; `g_MD` may be written over."""
        return g_MD

    def __call__(self, x_ND: Tensor, active_N: Tensor | None = None) -> Tensor:
        active_N = self.select(x_ND, active_N)
        request = Request(x_ND, range(len(x_ND)), own=True, active_N=active_N)  # type: ignore[arg-type]
        return self.change(self.gradient(x_ND, active_N), request)

    def on_demand(self, x_ND: Tensor, active_N: Tensor | None = None) -> Callable[[slice], Tensor]:
        active_N = self.select(x_ND, active_N)
        own, agents = self.gradient.on_demand(x_ND, active_N), range(len(x_ND))

        def gradients(rows: slice) -> Tensor:
            request = Request(x_ND[rows], agents[rows], own=True, active_N=active_N)  # type: ignore[arg-type]
            return self.change(own(rows), request)

        return gradients

    def cross(self, models: Sequence[Tensor], hosts: Sequence[int]) -> Tensor:
        return self.change(self.gradient.cross(models, hosts), Request(models, hosts, own=False))
