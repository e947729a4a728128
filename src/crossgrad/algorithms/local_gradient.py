"""Local steps as one gradient: an algorithm gets the sum of the gradients along them in place of a single one.

N: agents of this shard, D: parameters.
"""

from collections.abc import Callable, Sequence

from torch import Tensor

from crossgrad.algorithms.api import CrossGradient


class LocalGradient:
    """g(y_0) + ... + g(y_{H-1}) along plain local steps y_{h+1} = y_h - lr g(y_h) from y_0 = x.

    An algorithm that steps along it moves as far as its H local steps would, and still averages with the same weights
    in every step. On quadratics with Hessian A it is (I - (I - lr A)^H) / lr times the distance to the agent's own
    optimum: a longer step for flat directions than for steep ones, which is where the bias of local steps comes from.

    Reference:
        Reddi, Charles, Zaheer, Garrett, Rush, Konecny, Kumar, McMahan: Adaptive Federated Optimization. ICLR 2021,
        arXiv:2003.00295.

    Args:
        grad: the gradient at a point.
        lr: step size of the local steps.
        local_steps: H.
    """

    def __init__(self, grad: CrossGradient, lr: float, local_steps: int) -> None:
        self.grad, self.lr, self.local_steps = grad, lr, local_steps

    @property
    def sizes(self) -> tuple[int, ...]:
        """Lengths of the parameter tensors."""
        return self.grad.sizes

    def __call__(self, x_ND: Tensor, active_N: Tensor | None = None) -> Tensor:
        """The sum; every local step draws a batch."""
        total = self.grad(x_ND, active_N)
        for _ in range(self.local_steps - 1):
            total.add_(self.grad(x_ND - self.lr * total, active_N))
        return total

    def cross(self, models: Sequence[Tensor], agents: Sequence[int]) -> Tensor:
        """As without local steps, since cross-gradients are taken at single models."""
        return self.grad.cross(models, agents)

    def on_demand(self, x_ND: Tensor, active_N: Tensor | None = None) -> Callable[[slice], Tensor]:
        """The same sums, by rows."""
        total = self(x_ND, active_N)
        return lambda rows: total[rows]
