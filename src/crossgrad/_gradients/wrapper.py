"""A gradient oracle around another one: it changes requests or results, unknown to the algorithm.

N: agents of this process, M: gradients requested, D: parameters.
"""

from collections.abc import Callable, Sequence
from typing import NamedTuple

from torch import Tensor

from crossgrad.algorithms.api import CrossGradient


class Request(NamedTuple):
    """A request for M gradients."""

    models: Sequence[Tensor]  # M models of D parameters
    agents: Sequence[int]  # whose losses are differentiated
    own: bool  # each at the agent's own model; otherwise cross-gradients
    active_N: Tensor | None = None  # the agents that draw a batch; None: all


class GradientWrapper:
    """A gradient oracle that delegates every request to another one.

    Subclasses override `select`, which chooses the agents before batches are drawn, or `change`, which is applied to
    every gradient before the algorithm gets it.
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

    def cross(self, models: Sequence[Tensor], agents: Sequence[int]) -> Tensor:
        return self.change(self.gradient.cross(models, agents), Request(models, agents, own=False))
