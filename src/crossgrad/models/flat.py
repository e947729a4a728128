"""A module's parameters as one flat vector.

D: parameters. The order within the vector is internal: with `channels_last`, a kernel (out, in, height, width) lies
there as (out, height, width, in), so that its view has PyTorch's channels_last strides without a copy. Parameters that
stay with their agent lie last.
"""

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from crossgrad.models.personal import personal_names


class FlatModel:
    """A module that works on flat vectors: its parameters are views of the vector that was loaded last."""

    def __init__(self, module: nn.Module, channels_last: bool = False, personal: Sequence[str] = ()) -> None:
        self.module, self.channels_last = module, channels_last
        named = [(name, p) for name, p in self.module.named_parameters() if p.requires_grad]
        if not named:
            raise ValueError(
                "the model must have a parameter that requires a gradient; found none, so there is nothing to train. "
                "Set requires_grad_(True) on those to be trained."
            )
        own = personal_names(module, personal) if personal else set()
        named.sort(key=lambda each: each[0] in own)
        self.names, self.parameters = [name for name, _ in named], [p for _, p in named]
        self.sizes = tuple(p.numel() for p in self.parameters)
        self.shared = sum(p.numel() for name, p in named if name not in own)  # numbers that travel, the first of all
        self.shapes = tuple(p.shape for p in self.parameters)
        self.start = self.flatten([p.detach() for p in self.parameters])
        self.unload()  # the parameters are views of `start` from now on, so that nothing is held twice

    def flatten(self, tensors: Sequence[Tensor]) -> Tensor:
        """Tensors of the parameters' shapes as one vector, behind any dimensions that all have in front."""
        front = tensors[0].shape[: tensors[0].dim() - len(self.shapes[0])]
        x_D = tensors[0].new_empty(*front, sum(self.sizes))
        for view, tensor in zip(self.views(x_D), tensors, strict=True):
            view.copy_(tensor)
        return x_D

    def views(self, x_D: Tensor) -> list[Tensor]:
        """The parameters that lie in a vector, or in vectors that lie along dimensions in front. Nothing is copied."""
        return [
            _view(part, shape, self.channels_last)
            for part, shape in zip(torch.split(x_D, list(self.sizes), dim=-1), self.shapes, strict=True)
        ]

    def load(self, x_D: Tensor, grad_D: Tensor | None = None) -> None:
        """Take the parameters from `x`, and let a backward pass add to `grad`. Nothing is copied."""
        grads = [None] * len(self.sizes) if grad_D is None else self.views(grad_D)
        for p, value, grad in zip(self.parameters, self.views(x_D), grads, strict=True):
            p.data, p.grad = value, grad

    def unload(self) -> None:
        """Drop the references to the vectors that were loaded."""
        self.load(self.start)


def _view(part: Tensor, shape: torch.Size, channels_last: bool) -> Tensor:
    front = part.shape[:-1]
    if channels_last and len(shape) == 4:
        out, channels, height, width = shape
        return part.view(*front, out, height, width, channels).movedim(-1, -3)
    return part.view((*front, *shape))  # as one argument: it may be empty, of a parameter that is a single number
