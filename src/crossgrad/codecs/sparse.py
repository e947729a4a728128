"""Only some of a message's numbers: the largest, or random ones.

M: messages, D: parameters, k: numbers that are sent.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from crossgrad.codecs.arrays import array_dtype, as_array
from crossgrad.codecs.dither import random_bits
from crossgrad.codecs.subsets import largest, mask_of, places_of, subset


@dataclass(frozen=True)
class TopK:
    """The numbers with the largest absolute values; the others arrive as 0.

    A message has k = ceil(share D) values and their places: k numbers of 4 bytes or D bits, whichever takes less.

    Reference:
        Stich, Cordonnier, Jaggi: Sparsified SGD with Memory. NeurIPS 2018, arXiv:1809.07599.

    Args:
        share: the share of the numbers that is sent, above 0 and at most 1.
        feedback: whether a sender of gradients adds the error of a message to the next one.

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
        (M, D), rows = p_MD.shape, as_array(p_MD)
        k = numbers_kept(self.share, D)
        values = torch.empty(M, k, dtype=array_dtype(p_MD.dtype))
        few = 32 * k <= D
        where = torch.empty(M, k if few else -(-D // 8), dtype=torch.int32 if few else torch.uint8)
        for number, row in enumerate(rows):
            places = largest(row, k)
            values.numpy()[number] = row[places]
            where.numpy()[number] = places if few else np.packbits(mask_of(places, D))
        return values.to(p_MD), where.to(p_MD.device)

    def decode(self, wire: tuple[Tensor, ...], sizes: Sequence[int]) -> Tensor:
        values, where = map(as_array, wire)
        rows_MD = torch.empty(len(values), sum(sizes), dtype=array_dtype(wire[0].dtype))
        for row, own, places in zip(rows_MD.numpy(), values, where, strict=True):
            if places.dtype == np.uint8:
                places = places_of(np.unpackbits(places, count=len(row)).view(bool))
            row.fill(0)
            row[places] = own
        return rows_MD.to(wire[0])


@dataclass(frozen=True)
class RandomK:
    """Some numbers of the message, chosen at random; the others arrive as 0.

    A message has k = ceil(share D) values, and the 4 bytes of the seed by which they were chosen.

    Reference:
        Stich, Cordonnier, Jaggi: Sparsified SGD with Memory. NeurIPS 2018, arXiv:1809.07599.

    Args:
        share: the share of the numbers that is sent, above 0 and at most 1.
        seed: seed of the random choice.
        feedback: whether a sender of gradients adds the error of a message to the next one.

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
        rows = as_array(p_MD)
        seeds = torch.empty(len(rows), 1, dtype=torch.int32)
        values = torch.empty(len(rows), numbers_kept(self.share, rows.shape[1]), dtype=array_dtype(p_MD.dtype))
        for number, row in enumerate(rows):
            seeds[number] = random_bits(row, self.seed).random_raw() >> 33
            values.numpy()[number] = row[self._places(int(seeds[number]), len(row))]
        return values.to(p_MD), seeds.to(p_MD.device)

    def decode(self, wire: tuple[Tensor, ...], sizes: Sequence[int]) -> Tensor:
        values, seeds = map(as_array, wire)
        rows_MD = torch.empty(len(values), sum(sizes), dtype=array_dtype(wire[0].dtype))
        for row, own, seed in zip(rows_MD.numpy(), values, seeds, strict=True):
            row.fill(0)
            row[self._places(int(seed[0]), len(row))] = own
        return rows_MD.to(wire[0])

    def _places(self, seed: int, D: int) -> NDArray[np.int64]:
        return subset(D, numbers_kept(self.share, D), np.random.SFC64(seed))


def numbers_kept(share: float, D: int) -> int:
    """How many of D numbers are sent, one at least."""
    return max(1, int(np.ceil(share * D)))


def check_share(share: float) -> None:
    """Raise unless 0 < share <= 1."""
    if not 0.0 < share <= 1.0:
        raise ValueError(f"share must be above 0 and at most 1; found {share}. 0.1 sends a tenth of the numbers.")
