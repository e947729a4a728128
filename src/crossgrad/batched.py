"""Many gradients of a small model in one pass: the loop over agents becomes a batch dimension (torch.func.vmap).

M: gradients, B: samples of a batch, D: parameters.
"""

from collections.abc import Callable, Sequence

import torch
from torch import Tensor, nn
from torch.func import functional_call, grad_and_value, vmap

LARGEST = 100_000  # parameters; above, a pass takes so long that a plain loop is as fast, or faster

BatchedPass = Callable[[Tensor, Tensor, Tensor], tuple[Tensor, Tensor]]


def batched_pass(
    module: nn.Module, loss: Callable[[Tensor, Tensor], Tensor], inputs: Tensor, labels: Tensor
) -> BatchedPass | None:
    """A function from models (M, D), inputs (M, B, ...) and labels (M, B, ...) to gradients and losses.

    None where a plain loop must do: a large model, buffers or random layers (they are each agent's own), or
    operations that cannot be batched. It is tried on the example before it is believed.
    """
    names = [name for name, p in module.named_parameters() if p.requires_grad]
    parameters = [p for p in module.parameters() if p.requires_grad]
    if sum(p.numel() for p in parameters) > LARGEST or next(module.buffers(), None) is not None:
        return None
    shapes, sizes = [p.shape for p in parameters], [p.numel() for p in parameters]

    def one(x_D: Tensor, inputs_B: Tensor, labels_B: Tensor) -> Tensor:
        parts = torch.split(x_D, sizes)
        views = {name: part.view(shape) for name, part, shape in zip(names, parts, shapes, strict=True)}
        output: Tensor = functional_call(module, views, (inputs_B,))
        return loss(output, labels_B)

    many: BatchedPass = vmap(grad_and_value(one))
    return many if _agrees(many, module, parameters, loss, inputs, labels) else None


def _agrees(
    many: BatchedPass,
    module: nn.Module,
    parameters: Sequence[nn.Parameter],
    loss: Callable[[Tensor, Tensor], Tensor],
    inputs: Tensor,
    labels: Tensor,
) -> bool:
    """Whether it gives what a plain backward pass gives. Random layers do not; what cannot be batched says so."""
    module.train()
    x_D = torch.cat([p.detach().reshape(-1) for p in parameters])
    try:
        g_MD, _ = many(torch.stack([x_D, x_D]), torch.stack([inputs, inputs]), torch.stack([labels, labels]))
        with torch.enable_grad():
            plain = torch.autograd.grad(loss(module(inputs), labels), list(parameters), allow_unused=True)
    except (RuntimeError, ValueError, TypeError, NotImplementedError):
        return False
    flat = [torch.zeros_like(p) if g is None else g for g, p in zip(plain, parameters, strict=True)]
    expected = torch.cat([g.reshape(-1) for g in flat])
    return all(torch.allclose(g, expected, rtol=1e-3, atol=1e-5 * float(expected.abs().max())) for g in g_MD)
