"""Many gradients of a small model in one pass: the loop over agents becomes a batch dimension (torch.func.vmap).

M: gradients, B: samples of a batch, D: parameters.
"""

import copy
import math
import warnings
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch.func import functional_call, vmap
from torch.nn.functional import cross_entropy

from crossgrad._gradients.compiled import Compiled
from crossgrad._gradients.strategy import Gradients
from crossgrad.models.flat import FlatModel
from crossgrad.tasks import Task

MAX_BATCHED_PARAMETERS = 100_000  # for larger models, a loop over agents is at least as fast
MIN_BATCHED_AGENTS = 3  # of the whole network; with fewer, a loop is faster
MAX_BATCHED_PIXELS = 256  # for convolutions of larger images, a loop is at least as fast

BatchedPass = Callable[[Tensor, Tensor, Tensor], tuple[Tensor, Tensor]]


def batched_pass(
    gradients: Gradients, model: FlatModel, task: Task, inputs: Tensor, labels: Tensor
) -> BatchedPass | None:
    """Make a function from models (M, D), inputs (M, B, ...) and labels (M, B, ...) to gradients and losses.

    None if gradients must be computed in a loop: requested (LOOP), or chosen by AUTO because the model is large, has
    buffers or random layers (each agent's own), or operations that vmap cannot batch, which is tried on the example.
    """
    if gradients is Gradients.LOOP or (gradients is Gradients.AUTO and not is_small(model.module, inputs.shape[1:])):
        return None
    if _cannot_be_called(model.module) or not _agrees(copy.deepcopy(model), task, inputs, labels):
        if gradients is Gradients.AUTO:
            return None
        raise ValueError(
            f"gradients = {gradients.value!r} takes all agents' gradients in one pass, which needs a model without "
            f"buffers or random layers or a submodule under two names, of operations that torch.func.vmap can batch, "
            f"and a gradient that is finite at the start; this one is not. "
            f"Use 'auto' or 'loop'."
        )
    many = _batched_forward(model, task)
    return Compiled(model, task, many, inputs, labels) if gradients is Gradients.COMPILED else many


def is_small(module: nn.Module, shape: Sequence[int]) -> bool:
    """Whether a pass over inputs of this shape is so short that its overhead counts for more than its work."""
    convolves = any(isinstance(layer, nn.Conv1d | nn.Conv2d | nn.Conv3d) for layer in module.modules())
    parameters = sum(p.numel() for p in module.parameters() if p.requires_grad)
    return parameters <= MAX_BATCHED_PARAMETERS and not (
        convolves and (isinstance(shape, dict) or math.prod(shape[1:]) > MAX_BATCHED_PIXELS)
    )


def _cannot_be_called(module: nn.Module) -> bool:
    """Whether functional_call cannot be used.

    That is so with buffers, which are each agent's own, and with a submodule that has two names, in which
    functional_call would leave the parameters of the pass behind.
    """
    names = sum(1 for _ in module.named_modules(remove_duplicate=False))
    return next(module.buffers(), None) is not None or names > sum(1 for _ in module.modules())


def _batched_forward(model: FlatModel, task: Task) -> BatchedPass:
    """Only the forward pass is batched by vmap; autograd then goes back through it once, which is faster than vmap."""
    names = model.names

    def loaded(parameters: Sequence[Tensor]) -> Callable[..., Any]:
        named = dict(zip(names, parameters, strict=True))
        return lambda *inputs, **more: functional_call(model.module, named, inputs, more)

    def forward(parameters: Sequence[Tensor], inputs_B: Tensor) -> Any:
        return task.apply(loaded(parameters), inputs_B)

    def loss(parameters: Sequence[Tensor], inputs_B: Tensor, labels_B: Tensor) -> Tensor:
        return task.batch_loss(loaded(parameters), inputs_B, labels_B)

    outputs, losses = vmap(forward), vmap(loss)

    def many(x_MD: Tensor, inputs: Tensor, labels: Tensor) -> tuple[Tensor, Tensor]:
        leaves = [view.detach().requires_grad_() for view in model.views(x_MD)]
        with torch.enable_grad():
            if task.is_plain_cross_entropy:
                each_M = _cross_entropies(outputs(leaves, inputs), labels)
            else:
                each_M = losses(leaves, inputs, labels)
            grads = torch.autograd.grad(each_M.sum(), leaves, allow_unused=True)
        return model.flatten(_zeros_where_none(grads, leaves)), each_M.detach()

    return many


def _cross_entropies(outputs_MBC: Tensor, labels_MB: Tensor) -> Tensor:
    """The mean of each batch; vmap would go through many small operations instead."""
    each = cross_entropy(outputs_MBC.flatten(0, 1), labels_MB.flatten(), reduction="none")
    return each.view_as(labels_MB).mean(dim=1)


def _agrees(model: FlatModel, task: Task, inputs: Tensor, labels: Tensor) -> bool:
    """Whether the batched pass gives the gradients of a plain backward pass, on the example.

    False for random layers, for operations that vmap cannot batch, and for those that vmap runs one by one with a
    warning: a plain loop is faster for these. False, too, for a module that uses what its last pass left in it, which
    cannot be used outside of vmap. So it is a copy of the model that is tried.
    """
    many = _batched_forward(model, task)
    model.module.train()
    x_D = model.start
    try:
        with warnings.catch_warnings():
            warnings.filterwarnings("error", message="There is a performance drop", category=UserWarning)
            g_MD, _ = many(torch.stack([x_D, x_D]), torch.stack([inputs, inputs]), torch.stack([labels, labels]))
        with torch.enable_grad():
            grads = torch.autograd.grad(
                task.batch_loss(model.module, inputs, labels), model.parameters, allow_unused=True
            )
    except (RuntimeError, ValueError, TypeError, NotImplementedError, UserWarning):
        return False
    expected = model.flatten(_zeros_where_none(grads, model.parameters))
    if not bool(expected.isfinite().all()):  # nothing can be compared; a loop names the agent and the step
        return False
    return all(torch.allclose(g, expected, rtol=1e-3, atol=1e-5 * float(expected.abs().max())) for g in g_MD)


def _zeros_where_none(grads: Sequence[Tensor | None], parameters: Sequence[Tensor]) -> list[Tensor]:
    """The gradients, with zeros for parameters that the loss does not depend on."""
    return [torch.zeros_like(p) if g is None else g for g, p in zip(grads, parameters, strict=True)]
