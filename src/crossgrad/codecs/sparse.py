"""Only some of a message's numbers: the largest, or random ones.

M: messages, D: parameters, k: numbers that are sent.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import torch
from torch import Tensor

from crossgrad.codecs.dither import generators


@dataclass(frozen=True)
class TopK:
    """The numbers with the largest absolute values; the others arrive as 0.

    k = ceil(share D) values, and where they belong: k numbers of 4 bytes or a bit for each of D, whichever is less.

    Reference:
        Stich, Cordonnier, Jaggi: Sparsified SGD with Memory. NeurIPS 2018, arXiv:1809.07599.

    Args:
        share: of the numbers that are sent, above 0 and at most 1.
        feedback: whether a sender of gradients keeps what was lost and adds it to its next message.

    >>> p = torch.tensor([[3.0, -1.0, 0.0, -4.0]])
    >>> TopK(share=0.5).decode(TopK(share=0.5).encode(p, [4]), [4]).tolist()
    [[3.0, 0.0, 0.0, -4.0]]
    """

    share: float = 0.1
    feedback: bool = True  # whether a sender of gradients keeps what was lost and adds it to its next message

    kind: ClassVar[str] = "code"

    def __post_init__(self) -> None:
        check_share(self.share)

    def encode(self, p_MD: Tensor, sizes: Sequence[int]) -> tuple[Tensor, ...]:
        M, D = p_MD.shape
        k = kept(self.share, D)
        places = p_MD.abs().topk(k, dim=1, sorted=False).indices.sort(dim=1).values
        values = p_MD.gather(1, places)
        if 32 * k <= D:
            return values, places.to(torch.int32)
        mask = torch.zeros(M, D, dtype=torch.bool).scatter_(1, places.cpu(), True)
        return values, torch.from_numpy(np.packbits(mask.numpy(), axis=1)).to(p_MD.device)

    def decode(self, wire: tuple[Tensor, ...], sizes: Sequence[int]) -> Tensor:
        values, where = wire
        D = sum(sizes)
        p_MD = values.new_zeros(len(values), D)
        if where.dtype == torch.int32:
            return p_MD.scatter_(1, where.long(), values)
        mask = torch.from_numpy(np.unpackbits(where.cpu().numpy(), axis=1, count=D).view(bool)).to(values.device)
        return p_MD.masked_scatter_(mask, values)


@dataclass(frozen=True)
class RandomK:
    """Random numbers of the message; the others arrive as 0. The places are drawn by a seed that is sent along.

    k = ceil(share D) values and 4 bytes.

    Reference:
        Stich, Cordonnier, Jaggi: Sparsified SGD with Memory. NeurIPS 2018, arXiv:1809.07599.

    Args:
        share: of the numbers that are sent, above 0 and at most 1.
        seed: of the random draws.
        feedback: whether a sender of gradients keeps what was lost and adds it to its next message.

    >>> p = torch.tensor([[3.0, -1.0, 0.5, -4.0]])
    >>> int((RandomK(share=0.5).decode(RandomK(share=0.5).encode(p, [4]), [4]) != 0).sum())
    2
    """

    share: float = 0.1
    seed: int = 0
    feedback: bool = True  # whether a sender of gradients keeps what was lost and adds it to its next message

    kind: ClassVar[str] = "code"

    def __post_init__(self) -> None:
        check_share(self.share)

    def encode(self, p_MD: Tensor, sizes: Sequence[int]) -> tuple[Tensor, ...]:
        drawn = [int(rng.integers(2**31)) for rng in generators(p_MD, self.seed)]
        seeds = torch.tensor(drawn, dtype=torch.int32, device=p_MD.device)[:, None]
        return p_MD.gather(1, self._places(seeds, p_MD.shape[1])), seeds

    def decode(self, wire: tuple[Tensor, ...], sizes: Sequence[int]) -> Tensor:
        values, seeds = wire
        p_MD = values.new_zeros(len(values), sum(sizes))
        return p_MD.scatter_(1, self._places(seeds, sum(sizes)), values)

    def _places(self, seeds_M1: Tensor, D: int) -> Tensor:
        rngs = [np.random.Generator(np.random.SFC64(seed)) for seed in seeds_M1[:, 0].tolist()]
        places = [np.sort(rng.choice(D, kept(self.share, D), replace=False, shuffle=False)) for rng in rngs]
        table = np.array(places, dtype=np.int64).reshape(len(rngs), kept(self.share, D))
        return torch.from_numpy(table).to(seeds_M1.device)


def kept(share: float, D: int) -> int:
    """How many of D numbers are sent, one at least."""
    return max(1, int(np.ceil(share * D)))


def check_share(share: float) -> None:
    """Raise unless 0 < share <= 1."""
    if not 0.0 < share <= 1.0:
        raise ValueError(f"share must be above 0 and at most 1; found {share}. 0.1 sends a tenth of the numbers.")
