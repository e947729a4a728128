"""What several update rules share: simple states, momentum, and checks of hyper-parameters."""

from typing import NamedTuple

from torch import Tensor

from crossgrad._numerics.blocks import blocks

MIN_NORM = 1e-8  # added to a norm that something is divided by, which may be zero


class XState(NamedTuple):
    """Models only."""

    x: Tensor


class MomentumState(NamedTuple):
    """Models and velocities."""

    x: Tensor
    v: Tensor


def move_(v: Tensor, g: Tensor, lr: float, momentum: float, nesterov: bool) -> Tensor:
    """Make v the new velocity, and return the step it makes; g is used up.

    Heavy ball as in the paper: v carries -lr inside (torch.optim.SGD keeps it outside), and is the step.
    Nesterov as in the authors' released code: v <- beta v + g, and the step is -lr (g + beta v).
    """
    v.mul_(momentum)
    if not nesterov:
        return v.sub_(g.mul_(lr))
    v.add_(g)
    for rows in blocks(len(g), g[0].nbytes):
        g[rows].add_(momentum * v[rows])
    return g.mul_(-lr)


def check_momentum(momentum: float) -> None:
    """Raise unless 0 <= momentum < 1."""
    if not 0.0 <= momentum < 1.0:
        raise ValueError(f"momentum must be at least 0 and below 1; found {momentum}. 0.9 is a safe start.")


def check_local_steps(local_steps: int) -> None:
    """Raise unless there is at least one local step."""
    if local_steps < 1 or local_steps != int(local_steps):
        raise ValueError(f"local_steps must be a whole number of at least 1; found {local_steps}.")


def check_lazy(lazy: float) -> None:
    """Raise unless 0 <= lazy < 1."""
    if not 0.0 <= lazy < 1.0:
        raise ValueError(f"lazy must be at least 0 and below 1; found {lazy}. 0.5 is always safe.")


def column(values_N: Tensor, like: Tensor) -> Tensor:
    """One number per agent as a column of the type of `like`, to multiply its rows."""
    return values_N.to(device=like.device, dtype=like.dtype).reshape(-1, *[1] * (like.dim() - 1))
