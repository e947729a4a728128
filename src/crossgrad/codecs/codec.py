"""How a message is encoded: exactly, or as one bit per number with error feedback.

M: messages, D: parameters, S: pieces with a scale of their own (1, or one per parameter tensor).
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate, pairwise
from typing import ClassVar, NamedTuple, Protocol, runtime_checkable

import numpy as np
import torch
from torch import Tensor

from crossgrad.codecs.arrays import array_dtype, as_array
from crossgrad.codecs.levels import from_levels_, mean_size


@runtime_checkable
class Codec(Protocol):
    """A message format: the receiver gets `decode(encode(p))` in place of `p`.

    Both methods must depend on their arguments only, so that a resumed run, and a run in any number of processes, gives
    the same bits. Random numbers come from `random_bits(row, seed)`, never from the global generators of PyTorch or
    NumPy. An unbiased codec also has `relative_error` (`StatesError`), from which `Gossip` computes a safe step size.
    """

    @property
    def kind(self) -> str:
        """What its messages are called in the records of traffic."""

    @property
    def feedback(self) -> bool:
        """Whether the sender adds the error of a message to its next one."""

    def encode(self, p_MD: Tensor, sizes: Sequence[int]) -> tuple[Tensor, ...]:
        """The tensors that are sent for each row of `p`."""

    def decode(self, wire: tuple[Tensor, ...], sizes: Sequence[int]) -> Tensor:
        """The rows as the receiver has them."""


@runtime_checkable
class StatesError(Protocol):
    """An unbiased codec that states its error, so that a safe step size of gossip can be chosen."""

    def relative_error(self, numbers: int) -> float:
        """E|decode(encode(p)) - p|^2 / |p|^2 for this many independent normal numbers."""


def measured_error(codec: Codec, numbers: int = 4096) -> float:
    """|decode(encode(p)) - p|^2 / |p|^2 for one message of so many independent normal numbers, always the same.

    >>> round(measured_error(ScaledSign()), 2)
    0.37
    """
    p = torch.randn(1, numbers, generator=torch.Generator().manual_seed(0))
    return float((codec.decode(codec.encode(p, [numbers]), [numbers]) - p).square().sum() / p.square().sum())


@dataclass(frozen=True)
class Exact:
    """No compression: all numbers are sent as they are.

    >>> p = torch.tensor([[3.0, -1.0]])
    >>> (sent,) = Exact().encode(p, [2])
    >>> sent.nbytes, Exact().decode((sent,), [2]).tolist()
    (8, [[3.0, -1.0]])
    """

    kind: ClassVar[str] = "gradient"
    feedback: ClassVar[bool] = False

    def encode(self, p_MD: Tensor, sizes: Sequence[int]) -> tuple[Tensor, ...]:
        return (p_MD,)

    def decode(self, wire: tuple[Tensor, ...], sizes: Sequence[int]) -> Tensor:
        return wire[0]


@dataclass(frozen=True)
class ScaledSign:
    """One bit per number and one scale: (|p|_1 / d) sgn(p), with error feedback.

    It is `delta` in the paper's CompCGA. sgn(0) is +1, so that one bit per number is enough.

    Args:
        per_tensor: one scale for each parameter tensor instead of one for the model.
        feedback: whether the sender adds the error of a message to its next one; the released code does not.
        keep_zeros: whether sgn(0) is 0, as in the released code; a second bit per number says which are zero.

    Reference:
        Karimireddy, Rebjock, Stich, Jaggi: Error Feedback Fixes SignSGD and other Gradient Compression Schemes. ICML
        2019, arXiv:1901.09847.

    >>> p = torch.tensor([[3.0, -1.0, 0.0, -4.0]])
    >>> bits, scale = ScaledSign().encode(p, [4])
    >>> bits.nbytes, scale.item()
    (1, 2.0)
    >>> ScaledSign().decode((bits, scale), [4]).tolist()
    [[2.0, -2.0, 2.0, -2.0]]
    """

    per_tensor: bool = False  # one scale for each parameter tensor instead of one for the model
    feedback: bool = True  # the released code leaves it out
    keep_zeros: bool = False  # sgn(0) = 0 as in the released code, with a second bit per number

    kind: ClassVar[str] = "code"

    def encode(self, p_MD: Tensor, sizes: Sequence[int]) -> tuple[Tensor, ...]:
        rows, ends = as_array(p_MD), self._ends(sizes)
        bits = torch.empty(len(rows), -(-rows.shape[1] // 8), dtype=torch.uint8)
        scale_MS = torch.empty(len(rows), len(ends) - 1, dtype=array_dtype(p_MD.dtype))
        for number, row in enumerate(rows):
            bits.numpy()[number] = np.packbits(row >= 0)  # torch has no packing; by hand it is 5 x slower
            scale_MS.numpy()[number] = [mean_size(row[begin:end]) for begin, end in pairwise(ends)]
        wire = (bits.to(p_MD.device), scale_MS.to(p_MD))
        if not self.keep_zeros:
            return wire
        return *wire, torch.from_numpy(np.packbits(rows != 0, axis=1)).to(p_MD.device)

    def decode(self, wire: tuple[Tensor, ...], sizes: Sequence[int]) -> Tensor:
        packed, scale_MS, *nonzero = map(as_array, wire)
        rows_MD = torch.empty(len(packed), sum(sizes), dtype=array_dtype(wire[1].dtype))
        with np.errstate(invalid="ignore", over="ignore"):
            for row, code, scales in zip(rows_MD.numpy(), packed, scale_MS, strict=True):
                bits = np.unpackbits(code, count=len(row))
                for (begin, end), scale in zip(pairwise(self._ends(sizes)), scales, strict=True):
                    from_levels_(row[begin:end], bits[begin:end], 2 * scale, -scale)
        if nonzero:
            rows_MD.mul_(torch.from_numpy(np.unpackbits(nonzero[0], axis=1, count=rows_MD.shape[1])))
        return rows_MD.to(wire[1])

    def _ends(self, sizes: Sequence[int]) -> list[int]:
        """Where the numbers of one scale end, after a first 0."""
        return list(accumulate(sizes if self.per_tensor else [sum(sizes)], initial=0))


class EncodedMessages(NamedTuple):
    """Encoded messages: the tensors that are sent, and what the receiver decodes from them."""

    wire: tuple[Tensor, ...]
    arrives_MD: Tensor

    @property
    def bytes_each(self) -> int:
        """Bytes of one message."""
        return sum(part.nbytes // max(1, part.shape[0]) for part in self.wire)


def send(codec: Codec, g_MD: Tensor, memory_MD: Tensor | None, sizes: Sequence[int]) -> EncodedMessages:
    """Send the rows of `g`.

    `memory` is updated in place: e <- p - delta with p = g + e (the paper prints e_k where e_{k-1} is meant).
    """
    if not codec.feedback or memory_MD is None:
        wire = codec.encode(g_MD, sizes)
        return EncodedMessages(wire, codec.decode(wire, sizes))
    p_MD = g_MD + memory_MD
    wire = codec.encode(p_MD, sizes)
    delta_MD = codec.decode(wire, sizes)
    torch.sub(p_MD, delta_MD, out=memory_MD)
    return EncodedMessages(wire, delta_MD)
