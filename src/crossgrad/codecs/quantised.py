"""A few bits per number: uniform levels between a message's smallest and largest number, rounded at random.

M: messages, D: parameters.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import torch
from torch import Tensor

from crossgrad.codecs.arrays import array_dtype, as_array
from crossgrad.codecs.levels import from_levels_, messages_in_a_piece, piece_slices, scale_of, survey, to_levels_
from crossgrad.codecs.packing import pack_bits, packed_bytes, unpack


@dataclass(frozen=True)
class Quantised:
    """Every number is sent as one of 2^bits levels, evenly spaced from the message's smallest number to its largest.

    Rule:
        q = floor((p - low) / step + u) with step = (high - low) / (2^bits - 1) and u uniform in [0, 1)

    so that the expectation of low + step q is p, up to 2^-16 of a step, because u has 16 bits. u is read from a table
    of random numbers, for every 2^15 numbers from a place that depends on the seed and a hash of the message. The same
    message is therefore always rounded in the same way. A message takes bits * ceil(D / 8) bytes and two numbers.

    Reference:
        Alistarh, Grubic, Li, Tomioka, Vojnovic: QSGD: Communication-Efficient SGD via Gradient Quantization and
        Encoding. NeurIPS 2017, arXiv:1610.02132.

    Args:
        bits: bits per number, 1 to 8.
        seed: seed of the random rounding.
        feedback: whether a sender of gradients adds the error of a message to the next one.

        >>> p = torch.tensor([[0.0, 1.0, 2.0, 3.0]])
    >>> packed, ends = Quantised(bits=2).encode(p, [4])
    >>> packed.nbytes, ends.tolist()
    (2, [[0.0, 3.0]])
    >>> Quantised(bits=2).decode((packed, ends), [4]).tolist()
    [[0.0, 1.0, 2.0, 3.0]]
    """

    bits: int = 4  # from 1 to 8
    seed: int = 0
    feedback: bool = False  # whether a sender of gradients keeps what was lost and adds it to its next message

    kind: ClassVar[str] = "code"

    def __post_init__(self) -> None:
        if self.bits not in range(1, 9):
            raise ValueError(f"bits must be a whole number from 1 to 8; found {self.bits}. 4 is a safe start.")

    def relative_error(self, numbers: int) -> float:
        """The approximate value of E|q - p|^2 / |p|^2 for D independent normal numbers.

        D normal numbers span about 2 sqrt(2 ln D) standard deviations, and rounding at random adds step^2 / 6 on
        average.

        Args:
            numbers: D.

        >>> round(Quantised(bits=4).relative_error(2410), 3)
        0.046
        """
        span = 2 * (2 * math.log(max(numbers, 2))) ** 0.5
        return float((span / (2**self.bits - 1)) ** 2 / 6)

    def encode(self, p_MD: Tensor, sizes: Sequence[int]) -> tuple[Tensor, ...]:
        top, rows = 2**self.bits - 1, as_array(p_MD)
        packed = torch.empty(len(rows), packed_bytes(self.bits, rows.shape[1]), dtype=torch.uint8)
        ends = torch.empty(len(rows), 2, dtype=array_dtype(p_MD.dtype))
        space = np.empty((messages_in_a_piece(rows.shape[1]), rows.shape[1]), np.uint8)
        with np.errstate(invalid="ignore", over="ignore"):  # what is not finite shows in the two ends
            for block in piece_slices(*rows.shape):
                levels = space[: block.stop - block.start]
                for row, to, both in zip(rows[block], levels, ends.numpy()[block], strict=True):
                    low, high, digest = survey(row)
                    both[:] = low, high
                    to_levels_(to, row, low, scale_of(low, high, top), np.random.SFC64([self.seed, digest]))
                packed.numpy()[block] = pack_bits(levels, self.bits)
        return packed.to(p_MD.device), ends.to(p_MD)

    def decode(self, wire: tuple[Tensor, ...], sizes: Sequence[int]) -> Tensor:
        packed, ends = map(as_array, wire)
        rows_MD = torch.empty(len(packed), sum(sizes), dtype=array_dtype(wire[1].dtype))
        rows = rows_MD.numpy()
        with np.errstate(invalid="ignore", over="ignore"):
            for block in piece_slices(*rows.shape):
                low, high = ends[block, :1], ends[block, 1:]
                step = (high - low) / ends.dtype.type(2**self.bits - 1)
                from_levels_(rows[block], unpack(packed[block], self.bits, rows.shape[1]), step, low)
        return rows_MD.to(wire[1])
