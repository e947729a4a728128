"""Copies of the user's module for a run, and modules made from a run's models."""

import copy

import torch
from torch import Tensor, nn

from crossgrad.models.buffers import Buffers
from crossgrad.models.flat import FlatModel


def copied(model: nn.Module) -> nn.Module:
    """A copy of a module whose parameters are leaves of autograd; copies of scripted modules would have others."""
    try:
        module: nn.Module = copy.deepcopy(model)
    except Exception as error:  # whatever a part of the user's own raises
        raise ValueError(
            f"the model must be one that copy.deepcopy can copy; found this fault: {str(error)[:300].rstrip('.')}. "
            "Make its parts copyable; instead of torch.nn.utils.weight_norm there is parametrizations.weight_norm."
        ) from error
    for p in module.parameters():
        if not p.is_leaf:
            p.detach_().requires_grad_()
    return module


def exported(model: FlatModel, buffers: Buffers, x_D: Tensor, values: tuple[Tensor, Tensor]) -> nn.Module:
    """A copy of the user's module with these parameters and buffers; its tensors are contiguous."""
    model.load(x_D)
    buffers.load(*(part.clone() for part in values))
    module = copy.deepcopy(model.module).eval()
    model.unload()
    for p in module.parameters():
        if p.requires_grad:  # in the flat vector it may lie otherwise
            p.data = p.data.clone(memory_format=torch.contiguous_format)
    return module
