"""Tensors as NumPy's arrays. bfloat16, which NumPy has not, as float32, which holds its numbers exactly."""

from typing import Any

import torch
from numpy.typing import NDArray
from torch import Tensor


def array_dtype(dtype: torch.dtype) -> torch.dtype:
    """The kind of number in which NumPy has these."""
    return torch.float32 if dtype == torch.bfloat16 else dtype


def as_array(tensor: Tensor) -> NDArray[Any]:
    """The tensor's numbers, in its own memory where it can be."""
    array: NDArray[Any] = tensor.cpu().to(array_dtype(tensor.dtype)).numpy()
    return array
