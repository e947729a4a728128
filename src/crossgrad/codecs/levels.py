"""Numbers to levels and back, in pieces that stay in the processor's cache.

Every pass over a whole model would fetch it from memory again, which takes longer than its arithmetic.
"""

from collections.abc import Iterator
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from crossgrad.codecs.dither import digest

PIECE_NUMBERS = 2**15  # a multiple of 8; a few such pieces fit a cache of 1 MB
NOISE_STEPS = 2**16  # of the random numbers that are added before rounding down


def messages_in_a_piece(count: int) -> int:
    """How many messages of so many numbers are packed at once: what fits a piece, at least one."""
    return max(1, PIECE_NUMBERS // max(1, count))


def piece_slices(messages: int, count: int) -> Iterator[slice]:
    """All of so many messages of so many numbers, those of a piece at a time."""
    each = messages_in_a_piece(count)
    return (slice(begin, min(begin + each, messages)) for begin in range(0, messages, each))


def pieces(count: int) -> Iterator[slice]:
    """All of so many numbers, piece by piece."""
    return (slice(begin, min(begin + PIECE_NUMBERS, count)) for begin in range(0, count, PIECE_NUMBERS))


def mean_size(row: NDArray[Any]) -> float:
    """The mean of a row's absolute values."""
    return float(sum(np.abs(row[piece]).sum(dtype=np.float64) for piece in pieces(len(row)))) / len(row)


def survey(row: NDArray[Any]) -> tuple[Any, Any, int]:
    """A row's smallest and largest number, and its digest, in one pass."""
    found = [(row[piece].min(), row[piece].max(), digest(row[piece])) for piece in pieces(len(row))]
    lows, highs, digests = zip(*found, strict=True)
    return np.min(lows), np.max(highs), int(np.bitwise_xor.reduce(np.array(digests, np.uint64)))


@cache
def noise(dtype: np.dtype[Any]) -> NDArray[Any]:
    """0, 1/NOISE_STEPS, ... in a random order, and the first PIECE_NUMBERS of them once more.

    A stretch that begins at a random place has numbers that are each uniform in [0, 1), for a fraction of the time that
    it takes to draw them.
    """
    shuffled = np.random.Generator(np.random.SFC64(0)).permutation(NOISE_STEPS)
    return (np.append(shuffled, shuffled[:PIECE_NUMBERS]) / NOISE_STEPS).astype(dtype)


def scale_of(low: Any, high: Any, top: int) -> Any:
    """A factor s in the message's floating-point type, the largest or nearly so, with (high - low) s <= top exactly."""
    width = high - low
    if not 0 < width < np.inf:
        return width.dtype.type(0)
    scale = width.dtype.type(top) / width
    while np.longdouble(scale) * np.longdouble(width) > top:
        scale = np.nextafter(scale, width.dtype.type(0))
    return scale


def to_levels_(levels: NDArray[np.uint8], row: NDArray[Any], low: Any, scale: Any, bits: np.random.SFC64) -> None:
    """levels <- floor((row - low) scale + u), in place, with a stretch of `noise` as u for every piece.

    With a factor of `scale_of`, no level is above `top`: (row - low) scale <= top <= 255 and
    u <= 1 - 1/NOISE_STEPS, whose sum has an exact float32 below top + 1.
    """
    u, value = noise(row.dtype), np.empty(min(PIECE_NUMBERS, len(row)), row.dtype)
    begins = bits.random_raw(-(-len(row) // PIECE_NUMBERS)) >> np.uint64(48)
    for piece, begin in zip(pieces(len(row)), begins.tolist(), strict=True):
        v = value[: piece.stop - piece.start]
        np.subtract(row[piece], low, out=v)
        np.multiply(v, scale, out=v)
        np.add(v, u[begin : begin + len(v)], out=v)
        np.copyto(levels[piece], v, casting="unsafe")  # drops the fraction


def from_levels_(rows: NDArray[Any], levels: NDArray[np.uint8], step: Any, low: Any) -> None:
    """rows <- low + step levels, in place: one message, or several with columns of low and step."""
    for piece in pieces(rows.shape[-1]):
        part = rows[..., piece]
        np.copyto(part, levels[..., piece])
        np.multiply(part, step, out=part)
        np.add(part, low, out=part)
