"""Whatever holds samples, turned into a tensor of inputs and a tensor of labels."""

from numbers import Real
from typing import Any

import numpy as np
import torch
from torch import Tensor


def as_pair(source: Any) -> tuple[Tensor, Tensor]:
    """Inputs and labels of (X, y) or of a map-style data set, which is read once, item by item."""
    if (
        isinstance(source, tuple | list)
        and len(source) == 2
        and all(isinstance(s, Tensor | np.ndarray) for s in source)
    ):
        return _tensor(source[0], "X of (X, y)"), _tensor(source[1], "y of (X, y)")
    if isinstance(source, tuple) or not (hasattr(source, "__len__") and hasattr(source, "__getitem__")):
        raise ValueError(
            f"Samples come from (X, y) of tensors or arrays, or from a data set with len() and [index], "
            f"but this is {_kind(source)}; of a DataLoader pass its .dataset."
        )
    return _read(source)


def _read(dataset: Any) -> tuple[Tensor, Tensor]:
    count = len(dataset)
    if count == 0:
        raise ValueError("At least one sample is needed, but this data set is empty; leave it out or fill it.")
    inputs = labels = torch.empty(0)
    for index in range(count):
        item = dataset[index]
        if not isinstance(item, tuple | list) or len(item) != 2:
            raise ValueError(
                f"Each item of a data set should be (input, label), but item {index} is {_kind(item)}; "
                f"wrap the data set so that it returns pairs."
            )
        x, y = _tensor(item[0], f"the input of item {index}"), _tensor(item[1], f"the label of item {index}")
        if index == 0:
            inputs, labels = (first.new_empty((count, *first.shape)) for first in (x, y))
        for part, whole, what in ((x, inputs, "input"), (y, labels, "label")):
            if part.shape != whole.shape[1:] or part.dtype != whole.dtype:
                raise ValueError(
                    f"All items of a data set should be alike, but the {what} of item {index} is "
                    f"{part.dtype} {tuple(part.shape)} and that of item 0 is {whole.dtype} "
                    f"{tuple(whole.shape[1:])}; resize or convert them."
                )
            whole[index] = part
    return inputs, labels


def _tensor(value: Any, what: str) -> Tensor:
    if isinstance(value, Tensor):
        return value.detach()
    if isinstance(value, np.ndarray | np.generic) and value.dtype.kind in "biuf":
        array = np.asarray(value)
        if array.dtype.kind in "bu" and array.dtype.itemsize > 1:
            array = array.astype(np.int64)  # torch knows few operations on wide unsigned numbers
        # A copy in the machine's byte order: torch takes no other, and warns of arrays that are read-only.
        return torch.from_numpy(np.array(array, array.dtype.newbyteorder("="), order="C"))
    if isinstance(value, Real):
        return torch.as_tensor(value)
    raise ValueError(
        f"Samples are numbers, but {what} is {_kind(value)}; convert it to a tensor first "
        f"(an image, for instance, by numpy.asarray(image, 'float32') / 255)."
    )


def _kind(value: Any) -> str:
    if isinstance(value, np.ndarray):
        return f"an array of {value.dtype}"
    if isinstance(value, tuple | list):
        return f"a {type(value).__name__} of {len(value)}"
    return f"a {type(value).__name__}"
