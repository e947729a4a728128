"""Work in blocks, so that the memory held at a time stays bounded."""

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

SMALL_BYTES = 4 << 20  # of a small work space

_scale = ContextVar("scale", default=1.0)  # by which all bounds are multiplied, in each thread its own


@contextmanager
def scaled_bounds(scale: float) -> Iterator[None]:
    """Multiply all bounds by `scale` within the `with` block.

    With models of d instead of D parameters and a scale of d / D, a step works in as many blocks as it would on the
    true models: so its work space can be measured on small ones.
    """
    before = _scale.set(scale)
    try:
        yield
    finally:
        _scale.reset(before)


def bounded(amount: int) -> int:
    """The amount that may be worked on at a time: `amount`, unless bounds are scaled."""
    return max(1, round(amount * _scale.get()))


def blocks(count: int, bytes_each: int, budget: int = SMALL_BYTES) -> Iterator[slice]:
    """Slices of `count` items, each as long as a budget of bytes allows, but of one item at least.

    >>> list(blocks(5, 10, budget=25))
    [slice(0, 2, None), slice(2, 4, None), slice(4, 5, None)]
    """
    size = max(1, bounded(budget) // max(1, bytes_each))
    for first in range(0, count, size):
        yield slice(first, min(first + size, count))
