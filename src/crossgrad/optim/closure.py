"""The user's closure as the gradient oracle of one agent."""

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

from crossgrad.models.buffers import Buffers
from crossgrad.models.flat import FlatModel

Closure = Callable[[], Any]


class ClosureGradient:
    """The gradient of a closure at any parameters; random layers draw the same numbers in all passes of a step."""

    def __init__(self, flat: FlatModel, buffers: Buffers, closure: Closure) -> None:
        self.flat, self.buffers, self.closure = flat, buffers, closure
        self.loss: Any = None
        self.sizes = flat.sizes
        self.noise = _random_state(flat.start.device)

    def __call__(self, x_ND: Tensor, active_N: Tensor | None = None) -> Tensor:
        g_ND = torch.zeros_like(x_ND)
        if active_N is None or bool(active_N[0]):
            self.noise = _random_state(x_ND.device)
            self.buffers.load(*self.buffers.row(0))
            self.loss = self._backward(x_ND[0], g_ND[0])
            self.buffers.store(*self.buffers.row(0))
        return g_ND

    def cross(self, models: Sequence[Tensor], agents: Sequence[int]) -> Tensor:
        g_MD = torch.zeros(len(models), sum(self.sizes), dtype=self.flat.start.dtype, device=self.flat.start.device)
        afterwards = _random_state(g_MD.device)
        for x, g in zip(models, g_MD, strict=True):
            _set_random_state(self.noise)
            self.buffers.load(*self.buffers.copy_of(0))
            self._backward(x, g)
        _set_random_state(afterwards)
        self.buffers.load(*self.buffers.row(0))
        return g_MD

    def on_demand(self, x_ND: Tensor, active_N: Tensor | None = None) -> Callable[[slice], Tensor]:
        g_ND = self(x_ND, active_N)
        return lambda rows: g_ND[rows]

    def _backward(self, x_D: Tensor, g_D: Tensor) -> Any:
        self.flat.load(x_D)
        loss = self.closure()
        start = 0
        for p, size in zip(self.flat.parameters, self.sizes, strict=True):
            if p.grad is not None:
                g_D[start : start + size] = p.grad.reshape(-1)
            p.grad = None
            start += size
        if not bool(g_D.isfinite().all()):
            raise FloatingPointError(
                f"the gradient of this agent's loss must be finite; it is not (the loss is {loss}), so nothing of it "
                "is sent. Look at its data, or use a smaller step size."
            )
        return loss


def _random_state(device: torch.device) -> tuple[Tensor, ...]:
    if device.type == "cuda":
        return torch.get_rng_state(), torch.cuda.get_rng_state(device)
    return (torch.get_rng_state(),)


def _set_random_state(state: tuple[Tensor, ...]) -> None:
    torch.set_rng_state(state[0])
    if len(state) > 1:
        torch.cuda.set_rng_state(state[1])
