"""Which of a message's numbers are sent: random ones or the largest.

Random places are put in order by a mask: sorting a tenth of a model's takes three times as long.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from crossgrad.codecs.levels import PIECE_NUMBERS, pieces

SAMPLE_EVERY = 61  # a message is sampled at every 61st number: a prime, so that it fits no pattern of the layers


def places_of(mask: NDArray[np.bool_]) -> NDArray[np.int64]:
    """Where the mask is true: `np.flatnonzero` of it.

    NumPy has two ways. The one for masks that are true in a tenth of the places or fewer guesses at every branch, and
    takes three times as long where they lie at random; then each piece is taken together with an eighth that is true.
    """
    count = np.count_nonzero(mask)
    if count / max(1, len(mask)) > 0.1:
        return np.flatnonzero(mask)
    with_rest = np.ones(PIECE_NUMBERS + PIECE_NUMBERS // 8, bool)
    found, filled = np.empty(count, np.int64), 0
    for piece in pieces(len(mask)):
        begin = PIECE_NUMBERS - (piece.stop - piece.start)
        with_rest[begin:PIECE_NUMBERS] = mask[piece]
        more = np.flatnonzero(with_rest[begin:])[: -(PIECE_NUMBERS // 8)]
        np.add(more, piece.start, out=found[filled : filled + len(more)])
        filled += len(more)
    return found


def mask_of(places: NDArray[np.int64], count: int) -> NDArray[np.bool_]:
    """True in these of `count` places."""
    mask = np.zeros(count, bool)
    mask[places] = True
    return mask


def subset(count: int, k: int, bits: np.random.SFC64) -> NDArray[np.int64]:
    """k of `count` places in their order, all sets of k as likely as random numbers of 32 bits can make them.

    Places are drawn with replacement until enough of them differ; then surplus ones are left out again. If more than
    half are wanted, the places that are left out are drawn instead.
    """
    if 2 * k > count:
        return np.flatnonzero(~mask_of(subset(count, count - k, bits), count))
    drawn, found = np.zeros(count, bool), 0
    while found < k:
        expected = count * np.log((count - found) / (count - k))  # draws until k are taken
        raw = bits.random_raw(int(expected + 4 * np.sqrt(expected)) // 2 + 16).view(np.uint32).astype(np.uint64)
        drawn[((raw * np.uint64(count)) >> np.uint64(32)).view(np.int64)] = True
        found = int(np.count_nonzero(drawn))
    few = np.random.Generator(bits).choice(found, found - k, replace=False, shuffle=False)
    return np.delete(places_of(drawn), few)


def largest(row: NDArray[Any], k: int) -> NDArray[np.int64]:
    """Where a row's k largest absolute values are, in the order of the row; of equal ones the first.

    The bits of floating numbers without their sign are in the order of the numbers; what is not a number comes last. A
    sample says between which bounds the k-th largest should be, so that few numbers remain to be put in order.
    """
    whole = np.dtype(f"i{row.itemsize}")
    greatest = whole.type(np.iinfo(whole).max)
    size = np.ascontiguousarray(row).view(whole) & greatest
    low, high = _bounds(size, k)
    near = places_of(size >= low)
    if len(near) < k:  # the sample was not like the rest
        near = np.arange(len(size))
    size = size[near]
    if np.count_nonzero(size > high) >= k:
        high = greatest
    middle = size[np.flatnonzero(size <= high)]
    least = np.partition(middle, len(near) - k)[len(near) - k]
    chosen = size >= least
    too_many = np.count_nonzero(chosen) - k
    if too_many:
        chosen[np.flatnonzero(size == least)[-too_many:]] = False
    found: NDArray[np.int64] = near[np.flatnonzero(chosen)]
    return found


def _bounds(size: NDArray[Any], k: int) -> Any:
    """Two numbers between which the k-th largest nearly always is."""
    sample = size[::SAMPLE_EVERY]
    expected = len(sample) - k / len(size) * len(sample)
    spread = 4 * np.sqrt(len(sample) - expected) + 1
    first, last = max(0, int(expected - spread)), min(len(sample) - 1, int(expected + spread))
    return np.partition(sample, [first, last])[[first, last]]
