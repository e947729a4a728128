"""A few bits per number: uniform levels between a message's smallest and largest number, rounded at random.

M: messages, D: parameters, B: bytes of one plane of bits.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from crossgrad.codecs.dither import dither


@dataclass(frozen=True)
class Quantised:
    """Every number as one of 2^bits levels, evenly spread from the message's smallest number to its largest.

    Rule:
        q = floor((p - low) / step + u) with step = (high - low) / (2^bits - 1) and u uniform in [0, 1)

    so that q is p on average. u is drawn by the seed and the message itself: the same message, the same rounding.
    A message takes bits * ceil(D / 8) bytes and two numbers.

    Reference:
        Alistarh, Grubic, Li, Tomioka, Vojnovic: QSGD: Communication-Efficient SGD via Gradient Quantization and
        Encoding. NeurIPS 2017, arXiv:1610.02132.

    Args:
        bits: from 1 to 8.
        seed: of the random draws.
        feedback: whether a sender of gradients keeps what was lost and adds it to its next message.

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
        if not 1 <= self.bits <= 8:
            raise ValueError(f"bits must be from 1 to 8; found {self.bits}. 4 is a safe start.")

    def encode(self, p_MD: Tensor, sizes: Sequence[int]) -> tuple[Tensor, ...]:
        low, high = p_MD.aminmax(dim=1, keepdim=True)
        step = (high - low).div_(2**self.bits - 1)
        step[step == 0] = 1.0
        levels = (p_MD - low).div_(step).cpu().numpy()
        levels += dither(p_MD, self.seed, levels.dtype)
        with np.errstate(invalid="ignore"):  # what is not finite shows in the two ends
            q = np.minimum(levels.astype(np.uint8), 2**self.bits - 1)
        return torch.from_numpy(pack(q, self.bits)).to(p_MD.device), torch.cat([low, high], dim=1)

    def decode(self, wire: tuple[Tensor, ...], sizes: Sequence[int]) -> Tensor:
        packed, ends = wire
        q = torch.from_numpy(unpack(packed.cpu().numpy(), self.bits, sum(sizes))).to(ends)
        low, high = ends[:, :1], ends[:, 1:]
        return q.mul_((high - low) / (2**self.bits - 1)).add_(low)


def pack(q_MD: NDArray[np.uint8], bits: int) -> NDArray[np.uint8]:
    """So many bits of every number, eight numbers of one plane of bits to a byte."""
    if bits == 8:
        return q_MD
    return np.concatenate([np.packbits(q_MD & (1 << plane), axis=1) for plane in range(bits)], axis=1)


def unpack(packed: NDArray[np.uint8], bits: int, count: int) -> NDArray[np.uint8]:
    """The numbers that were packed."""
    if bits == 8:
        return packed
    planes = np.split(packed, bits, axis=1)
    q = np.unpackbits(planes[0], axis=1, count=count)
    for plane in range(1, bits):
        q |= np.unpackbits(planes[plane], axis=1, count=count) << plane
    return q
