"""Whole numbers of a few bits, packed without gaps.

M: messages, D: numbers of a message, B = ceil(D / 8): of these, the numbers that lie in one of eight groups.

Number i of group g takes the bits g * bits to (g + 1) * bits of the bytes i of all planes, one plane for each bit.
Groups and planes are whole stretches of memory, so that eight numbers are shifted at once, as one word of 64 bits.
"""

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray


def packed_bytes(bits: int, count: int) -> int:
    """How many bytes so many numbers take."""
    return bits * -(-count // 8) if bits < 8 else count


def pack_bits(q_MD: NDArray[np.uint8], bits: int) -> NDArray[np.uint8]:
    """The lowest bits of every number, each message (row) in `packed_bytes`."""
    if bits == 8:
        return q_MD
    M, D = q_MD.shape
    B = -(-D // 8)
    groups = np.zeros((8, M, -(-B // 8) * 8), np.uint8)
    for group, rows in enumerate(groups):
        part = q_MD[:, group * B : (group + 1) * B]
        rows[:, : part.shape[1]] = part
    words = groups.view(np.uint64)
    planes = np.zeros((bits, *words.shape[1:]), np.uint64)
    for group, plane, shift in _overlaps(bits):
        planes[plane] |= _shifted(words[group], bits, shift)
    return planes.view(np.uint8)[:, :, :B].swapaxes(0, 1).reshape(M, bits * B)


def unpack(packed: NDArray[np.uint8], bits: int, count: int) -> NDArray[np.uint8]:
    """The numbers that were packed, so many for each message."""
    if bits == 8:
        return packed
    M, B = len(packed), -(-count // 8)
    planes = np.zeros((bits, M, -(-B // 8) * 8), np.uint8)
    planes[:, :, :B] = packed.reshape(M, bits, B).swapaxes(0, 1)
    words = planes.view(np.uint64)
    groups = np.zeros((8, *words.shape[1:]), np.uint64)
    for group, plane, shift in _overlaps(bits):
        groups[group] |= _shifted_back(words[plane], bits, shift)
    return groups.view(np.uint8)[:, :, :B].swapaxes(0, 1).reshape(M, 8 * B)[:, :count]


def _overlaps(bits: int) -> Iterator[tuple[int, int, int]]:
    """Groups and planes that share bits, and how far to the left a group's number lies in the plane's byte."""
    for group in range(8):
        for plane in range(bits):
            shift = group * bits - 8 * plane
            if -bits < shift < 8:
                yield group, plane, shift


def _shifted(q: NDArray[np.uint64], bits: int, shift: int) -> Any:
    """q 2^shift in every byte; what leaves the byte is dropped."""
    if shift >= 0:
        return (q & _in_each_byte(2 ** min(bits, 8 - shift) - 1)) << np.uint64(shift)
    return (q & _in_each_byte(2**bits - 2**-shift)) >> np.uint64(-shift)


def _shifted_back(plane: NDArray[np.uint64], bits: int, shift: int) -> Any:
    """The bits of a number that `_shifted` has put into a plane, where they belong."""
    if shift >= 0:
        return (plane >> np.uint64(shift)) & _in_each_byte(2 ** min(bits, 8 - shift) - 1)
    return (plane & _in_each_byte(2 ** (bits + shift) - 1)) << np.uint64(-shift)


def _in_each_byte(byte: int) -> np.uint64:
    """A word that has this in each of its bytes."""
    return np.uint64(byte * 0x0101010101010101)
