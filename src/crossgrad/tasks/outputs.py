"""How a model is called on inputs, and which of its outputs count."""

from collections.abc import Mapping
from typing import Any

from torch import Tensor


def call(model: Any, inputs: Any) -> Any:
    """What a model returns: a tuple of inputs becomes its arguments, a dict its keyword arguments."""
    if isinstance(inputs, dict):
        return model(**inputs)
    return model(*inputs) if isinstance(inputs, tuple) else model(inputs)


def main_output(outputs: Any) -> Any:
    """The tensor that a loss is taken of: `logits` of a dict or an object, the first of a tuple, or the only one.

    >>> import torch
    >>> main_output({"logits": torch.ones(2), "hidden": torch.zeros(3)})
    tensor([1., 1.])
    >>> main_output((torch.ones(2), torch.zeros(3)))
    tensor([1., 1.])
    """
    if isinstance(outputs, Tensor):
        return outputs
    if isinstance(outputs, Mapping) and "logits" in outputs:
        return outputs["logits"]
    if isinstance(getattr(outputs, "logits", None), Tensor):
        return outputs.logits
    if isinstance(outputs, tuple | list) and outputs and isinstance(outputs[0], Tensor):
        return outputs[0]
    if isinstance(outputs, Mapping) and len(outputs) == 1:
        return next(iter(outputs.values()))
    return outputs


def check_tensor(outputs: Any) -> Tensor:
    """The outputs, if they are one tensor; else ValueError."""
    if not isinstance(outputs, Tensor):
        found = f"a dict of {', '.join(map(str, outputs))}" if isinstance(outputs, Mapping) else type(outputs).__name__
        raise ValueError(
            f"the model must return a tensor, a tuple that begins with one, or a dict or object with `logits`; found "
            f"{found}. Wrap the model, or pass a task of your own (OwnTask)."
        )
    return outputs
