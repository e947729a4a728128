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


def subset(count: int, k: int, bits: np.random.SFC64) -> NDArray[np.int64]:
    """k of `count` places in their order, all sets of k as likely as random numbers of 32 bits can make them.

    Places are drawn with replacement until enough of them differ; then some that are too many are left out again. Where
    more than half are wanted, those that are not are drawn.
    """
    if 2 * k > count:
        rest = np.ones(count, bool)
        rest[subset(count, count - k, bits)] = False
        return np.flatnonzero(rest)
    places = np.empty(0, np.int32)
    while len(places) < k:
        expected = count * np.log((count - len(places)) / (count - k))  # draws until k are taken
        raw = bits.random_raw(int(expected + 4 * np.sqrt(expected)) // 2 + 16).view(np.uint32).astype(np.uint64)
        more = ((raw * np.uint64(count)) >> np.uint64(32)).astype(np.int32)
        places = np.sort(np.concatenate([places, more]) if len(places) else more)
        places = places[np.append(True, places[1:] != places[:-1])]
    few = np.random.Generator(bits).choice(len(places), len(places) - k, replace=False, shuffle=False)
    return np.delete(places, few).astype(np.int64)
