"""Work in blocks, so that what is held at a time stays bounded."""

from collections.abc import Iterator

SPACE = 4 << 20  # bytes of a small work space


def blocks(count: int, bytes_each: int, budget: int = SPACE) -> Iterator[slice]:
    """As many at a time as the budget allows, but one at least.

    >>> list(blocks(5, 10, budget=25))
    [slice(0, 2, None), slice(2, 4, None), slice(4, 5, None)]
    """
    size = max(1, budget // max(1, bytes_each))
    for first in range(0, count, size):
        yield slice(first, min(first + size, count))
