"""Samples as nestings of tensors: a tensor, or tuples and dicts of such nestings."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import torch
from torch import Tensor

Nested: TypeAlias = Any  # Tensor | tuple[Nested, ...] | dict[str, Nested]


def mapped(function: Callable[..., Any], first: Nested, *others: Nested) -> Nested:
    """Apply the function to the tensors, and return the results in the same nesting.

    >>> mapped(lambda a, b: a + b, (torch.ones(1), {"x": torch.ones(1)}), (torch.ones(1), {"x": torch.zeros(1)}))
    (tensor([2.]), {'x': tensor([1.])})
    """
    if isinstance(first, dict):
        return {name: mapped(function, part, *(other[name] for other in others)) for name, part in first.items()}
    if isinstance(first, tuple):
        return tuple(mapped(function, *parts) for parts in zip(first, *others, strict=True))
    return function(first, *others)


def leaves(nested: Nested) -> Iterator[Any]:
    """The tensors, in order."""
    if isinstance(nested, dict):
        nested = tuple(nested.values())
    if isinstance(nested, tuple):
        for part in nested:
            yield from leaves(part)
    else:
        yield nested


def layout(nested: Nested) -> Any:
    """Types and shapes of one sample, in the same nesting; equal for data that one model can take."""
    return mapped(lambda part: (part.dtype, tuple(part.shape[1:])), nested)


def shapes(nested: Nested) -> Any:
    """The shapes, in the same nesting."""
    return mapped(lambda part: tuple(part.shape), nested)


def picked(nested: Nested, chosen: Tensor) -> Nested:
    """The rows at these indices. Images whose channels lie last in memory keep them there."""

    def pick(part: Tensor) -> Tensor:
        where = chosen.to(part.device)
        if part.dim() == 4 and part.stride(1) == 1:  # index_select itself would turn them round
            return part.permute(0, 2, 3, 1).index_select(0, where).permute(0, 3, 1, 2)
        return part.index_select(0, where)

    return mapped(pick, nested)


def stacked(items: Sequence[Nested]) -> Nested:
    """Single samples as one batch."""
    return mapped(lambda *parts: torch.stack(parts), *items)


def cut(nested: Nested, sizes: Sequence[int]) -> list[Nested]:
    """Consecutive pieces with these numbers of rows, without a copy."""
    if isinstance(nested, Tensor):
        return list(torch.split(nested, list(sizes)))
    ends = [sum(sizes[: k + 1]) for k in range(len(sizes))]
    return [mapped(lambda part, a=end - size, b=end: part[a:b], nested) for end, size in zip(ends, sizes, strict=True)]


@dataclass(frozen=True)
class Placement:
    """Where batches go: a device, a type for their floating-point parts, channels last for images or not."""

    device: torch.device | None = None
    dtype: torch.dtype | None = None
    channels_last: bool = False

    def __call__(self, nested: Nested, images: bool = True) -> Nested:
        """Move the values there; with `images`, tensors of four dimensions are images."""

        def place(part: Tensor) -> Tensor:
            part = part.to(self.device, self.dtype if part.is_floating_point() else None)
            if self.channels_last and images and part.dim() == 4:
                part = part.permute(0, 2, 3, 1).contiguous().permute(0, 3, 1, 2)
            return part

        return mapped(place, nested)
