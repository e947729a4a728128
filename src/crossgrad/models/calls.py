"""How a module is called on a batch's inputs."""

from typing import Any

from torch import nn


def call(module: nn.Module, inputs: Any) -> Any:
    """The module's outputs: a tuple of inputs becomes its arguments, a dict its keyword arguments.

    Args:
        module: any module.
        inputs: a tensor, or a tuple or dict of inputs.
    """
    if isinstance(inputs, dict):
        return module(**inputs)
    if isinstance(inputs, tuple):
        return module(*inputs)
    return module(inputs)
