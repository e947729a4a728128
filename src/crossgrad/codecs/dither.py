"""Random numbers for rounding, as a function of a seed and the message: the same in every process and every resume."""

import zlib
from typing import Any

import numpy as np
from numpy.typing import NDArray
from torch import Tensor


def generators(p_MD: Tensor, seed: int) -> list[np.random.Generator]:
    """One generator for each message, seeded by what is in it."""
    rows = p_MD.cpu().contiguous().numpy()
    return [np.random.Generator(np.random.SFC64([seed, zlib.crc32(row)])) for row in rows]


def dither(p_MD: Tensor, seed: int, dtype: Any) -> NDArray[Any]:
    """Uniform numbers in [0, 1) with 16 bits, one for each number of each message."""
    M, D = p_MD.shape
    noise = np.empty((M, D), dtype)
    for row, rng in zip(noise, generators(p_MD, seed), strict=True):
        raw = rng.bit_generator.random_raw(-(-D // 4)).view(np.uint16)[:D]
        np.multiply(raw, dtype.type(2.0**-16), out=row)
    return noise
