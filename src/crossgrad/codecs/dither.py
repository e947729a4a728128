"""Random numbers for rounding, as a function of a seed and the message: the same in every process and every resume."""

from typing import Any

import numpy as np
from numpy.typing import NDArray


def random_bits(row: NDArray[Any], seed: int) -> np.random.SFC64:
    """A source of random bits that is seeded by `seed` and by the content of the message.

    Args:
        row: the message: one row of numbers.
        seed: the codec's own.

    >>> source = random_bits(np.ones(3), seed=0)
    >>> source.random_raw() == random_bits(np.ones(3), seed=0).random_raw() != random_bits(np.ones(3), 1).random_raw()
    True
    """
    return np.random.SFC64([seed, digest(row)])


def digest(row: NDArray[Any]) -> int:
    """The exclusive or of a message's words of 8 bytes: it is fast, and changes if any one bit of the message does."""
    as_bytes = np.ascontiguousarray(row).view(np.uint8)
    whole = len(as_bytes) // 8 * 8
    tail = int.from_bytes(as_bytes[whole:].tobytes(), "little")
    return int(np.bitwise_xor.reduce(as_bytes[:whole].view(np.uint64), initial=np.uint64(0))) ^ tail
