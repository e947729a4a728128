"""Arrays, lists and data sets as tensors, or tuples and dicts of tensors."""

from numbers import Real
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.utils.data import TensorDataset

from crossgrad.data.nested import Nested, leaves

LABEL_COLUMNS = ("label", "labels", "target", "targets", "y")


def in_memory(source: Any) -> tuple[Nested, Nested] | None:
    """Inputs and labels of (X, y) or of a TensorDataset; None if it is a data set of items."""
    if isinstance(source, TensorDataset) and len(source.tensors) > 1:
        *inputs, labels = source.tensors
        source = (inputs[0] if len(inputs) == 1 else tuple(inputs)), labels
    pair = isinstance(source, tuple | list) and len(source) == 2
    if pair and all(isinstance(part, Tensor | np.ndarray) for side in source for part in leaves(side)):
        return as_tensors(source[0], "X of (X, y)"), as_tensors(source[1], "y of (X, y)")
    if isinstance(source, dict):
        if "train" in source:
            raise ValueError(
                "Samples come from (X, y) or from a data set with len() and [index]; found a dict with a part 'train'. "
                "Pass that part, data['train'], and the one for tests by test=."
            )
        raise ValueError(
            "samples must be (X, y) or a data set with len() and [index]; found a dict. For one data set per "
            "agent, pass list(data.values()); for inputs by name, pass (inputs, labels) with inputs as the dict."
        )
    if isinstance(source, tuple) or not (hasattr(source, "__len__") and hasattr(source, "__getitem__")):
        raise ValueError(
            f"samples must be (X, y) of tensors or arrays, or a data set with len() and [index]; "
            f"found {kind(source)}. Of a DataLoader pass its .dataset; for one data set per agent pass a list."
        )
    if len(source) == 0:
        raise ValueError("a data set must have at least one sample; found none. Leave it out or fill it.")
    return None


def is_list_of_agents(data: Any) -> bool:
    """Whether this is a list with one data set per agent, and neither (input, label) items of one nor [X, y].

    >>> is_list_of_agents([(torch.zeros(5, 3), torch.ones(5))])
    True
    >>> is_list_of_agents([(torch.zeros(3), 1), (torch.ones(3), 0)])
    False
    >>> is_list_of_agents([torch.zeros(5, 3), torch.ones(5)])
    False
    """
    return isinstance(data, list) and not (_are_items(data) or _are_arrays(data))


def _are_items(data: list[Any]) -> bool:
    return bool(data) and all(
        isinstance(item, tuple) and len(item) == 2 and _is_single(item[1]) and not hasattr(item[0], "__next__")
        for item in data
    )


def _are_arrays(data: list[Any]) -> bool:
    return len(data) == 2 and all(isinstance(part, Tensor | np.ndarray) for part in data)


def _is_single(label: Any) -> bool:
    return isinstance(label, Real) or (isinstance(label, Tensor | np.ndarray | np.generic) and label.ndim == 0)


def as_item(item: Any, index: int) -> tuple[Nested, Nested]:
    """Input and label of one item: a pair, or a dict with a column for the label, as Hugging Face's data sets have."""
    if isinstance(item, dict):
        label = next((name for name in LABEL_COLUMNS if name in item), None)
        if label is not None and len(item) > 1:
            rest = {name: part for name, part in item.items() if name != label}
            item = next(iter(rest.values())) if len(rest) == 1 else rest, item[label]
    if not isinstance(item, tuple | list) or len(item) != 2:
        raise ValueError(
            f"each item of a data set must be (input, label); found {kind(item)} as item {index}. "
            f"Wrap the data set so that it returns pairs (or a dict with one of {', '.join(LABEL_COLUMNS)})."
        )
    return as_tensors(item[0], f"the input of item {index}"), as_tensors(item[1], f"the label of item {index}")


def as_tensors(value: Any, what: str) -> Nested:
    """The value with every array and number in it as a tensor."""
    if isinstance(value, dict):
        return {name: as_tensors(part, f"{name!r} of {what}") for name, part in value.items()}
    if isinstance(value, tuple):
        return tuple(as_tensors(part, f"part {number} of {what}") for number, part in enumerate(value))
    if isinstance(value, Tensor):
        return value.detach()
    if isinstance(value, list) and value:
        try:
            value = np.asarray(value)
        except ValueError:
            raise ValueError(
                f"lists in samples must have equal lengths; found other ones in {what}. Pad them."
            ) from None
    if isinstance(value, np.ndarray | np.generic) and value.dtype.kind in "biuf":
        array = np.asarray(value)
        if array.dtype.kind in "bu" and array.dtype.itemsize > 1:
            array = array.astype(np.int64)  # torch knows few operations on wide unsigned numbers
        # A copy in the machine's byte order: torch takes no other, and warns of arrays that are read-only.
        return torch.from_numpy(np.array(array, array.dtype.newbyteorder("="), order="C"))
    if isinstance(value, Real):
        return torch.as_tensor(value)
    raise ValueError(
        f"samples must be numbers; found {kind(value)} as {what}. Convert it to a tensor first "
        f"(an image, for instance, by numpy.asarray(image, 'float32') / 255)."
    )


def kind(value: Any) -> str:
    """The value's type, in words."""
    if isinstance(value, np.ndarray):
        return f"an array of {value.dtype}"
    if isinstance(value, tuple | list):
        return f"a {type(value).__name__} of {len(value)}"
    return f"a {type(value).__name__}"
