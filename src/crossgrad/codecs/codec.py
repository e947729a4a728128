"""How a gradient travels: exactly, or as one bit per number with error feedback.

M: messages, D: parameters, S: pieces with a scale of their own (1, or one per parameter tensor).
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, NamedTuple, Protocol

import numpy as np
import torch
from torch import Tensor


class Codec(Protocol):
    """A message format: `decode(encode(p))` is what the receiver believes `p` to be."""

    @property
    def kind(self) -> str:
        """What its messages are called in the records of traffic."""

    @property
    def feedback(self) -> bool:
        """Whether the sender keeps what was lost and adds it to its next message."""

    def encode(self, p_MD: Tensor, sizes: Sequence[int]) -> tuple[Tensor, ...]:
        """The tensors that are sent for each row of `p`."""

    def decode(self, wire: tuple[Tensor, ...], sizes: Sequence[int]) -> Tensor:
        """The rows as the receiver has them."""


@dataclass(frozen=True)
class Exact:
    """Gradients travel as they are."""

    kind: ClassVar[str] = "gradient"
    feedback: ClassVar[bool] = False

    def encode(self, p_MD: Tensor, sizes: Sequence[int]) -> tuple[Tensor, ...]:
        return (p_MD,)

    def decode(self, wire: tuple[Tensor, ...], sizes: Sequence[int]) -> Tensor:
        return wire[0]


@dataclass(frozen=True)
class ScaledSign:
    """One bit per number and one scale: (|p|_1 / d) sgn(p), with error feedback.

    Karimireddy et al., 2019; `delta` in the paper's CompCGA. sgn(0) is +1, so that a number is truly one bit.

    Args:
        per_tensor: one scale for each parameter tensor instead of one for the model.
        feedback: the released code leaves it out.

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

    kind: ClassVar[str] = "code"

    def encode(self, p_MD: Tensor, sizes: Sequence[int]) -> tuple[Tensor, ...]:
        pieces = torch.split(p_MD, list(sizes), dim=1) if self.per_tensor else (p_MD,)
        scale_MS = torch.stack([piece.abs().mean(dim=1) for piece in pieces], dim=1)
        bits = np.packbits((p_MD >= 0).cpu().numpy(), axis=1)  # torch has no packing; by hand it is 5 x slower
        return torch.from_numpy(bits).to(p_MD.device), scale_MS

    def decode(self, wire: tuple[Tensor, ...], sizes: Sequence[int]) -> Tensor:
        packed, scale_MS = wire
        bits = np.unpackbits(packed.cpu().numpy(), axis=1, count=sum(sizes))
        signs_MD = torch.from_numpy(bits).to(scale_MS).mul_(2).sub_(1)
        if self.per_tensor:
            lengths = torch.tensor(list(sizes), device=scale_MS.device)
            scale_MS = scale_MS.repeat_interleave(lengths, dim=1)
        return signs_MD.mul_(scale_MS)


class Sent(NamedTuple):
    """Messages on their way: what is on the wire, and what the receiver makes of it."""

    wire: tuple[Tensor, ...]
    arrives_MD: Tensor

    @property
    def bytes_each(self) -> int:
        """Bytes of one message."""
        return sum(part.nbytes // max(1, part.shape[0]) for part in self.wire)


def send(codec: Codec, g_MD: Tensor, memory_MD: Tensor | None, sizes: Sequence[int]) -> Sent:
    """Send the rows of `g`.

    `memory` is updated in place: e <- p - delta with p = g + e (the paper prints e_k where e_{k-1} is meant).
    """
    if not codec.feedback or memory_MD is None:
        wire = codec.encode(g_MD, sizes)
        return Sent(wire, codec.decode(wire, sizes))
    p_MD = g_MD + memory_MD
    wire = codec.encode(p_MD, sizes)
    delta_MD = codec.decode(wire, sizes)
    torch.sub(p_MD, delta_MD, out=memory_MD)
    return Sent(wire, delta_MD)
