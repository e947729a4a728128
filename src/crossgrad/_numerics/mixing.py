"""Weighted sums of rows, written over the rows themselves, with a work space that does not grow with them.

n: rows of this process, m: those that reached it from others, D: numbers of a row.
"""

from collections.abc import Iterator

import torch
from scipy.sparse import csr_array
from torch import Tensor

from crossgrad._numerics.blocks import bounded

CACHE_BYTES = 1 << 20  # of rows that are mixed at a time, so that they stay in the cache,
WHOLE_ROWS_BYTES = 16 << 20  # of all rows together, up to which they are mixed at once
MIN_COLUMNS = 256  # but no fewer columns than this, as rows are read piece by piece


def mix_rows_(matrix: csr_array, own_nD: Tensor, remote_mD: Tensor, plus_nD: Tensor | None = None) -> Tensor:
    """own <- matrix @ (own, remote) + plus, for a matrix of n rows and n + m columns.

    Every sum runs in the order in which its row of the matrix is stored, so that its bits do not depend on which rows
    lie where: scipy's product promises that, and rounds each product and each sum. Other devices go row by row.

    >>> x = torch.tensor([[2.0, 4.0], [0.0, 8.0]])
    >>> mix_rows_(csr_array([[0.5, 0.5], [0.25, 0.75]], dtype="float32"), x, x[:0]).tolist()
    [[1.0, 6.0], [0.5, 7.0]]
    """
    if not len(remote_mD) and own_nD.nbytes <= bounded(WHOLE_ROWS_BYTES) and own_nD.is_contiguous():
        return _put(own_nD, weighted_sums(matrix, own_nD), plus_nD)
    for columns in _column_slices(own_nD, len(own_nD) + len(remote_mD)):
        parts = own_nD[:, columns], remote_mD[:, columns]
        mixed = weighted_sums(matrix, torch.cat(parts) if len(remote_mD) else parts[0].contiguous())
        _put(own_nD[:, columns], mixed, None if plus_nD is None else plus_nD[:, columns])
    return own_nD


def weighted_sums(matrix: csr_array, rows_mD: Tensor) -> Tensor:
    """matrix @ rows, summed in the order in which a row of the matrix is stored."""
    exactly = rows_mD.device.type == "cpu" and rows_mD.dtype in EXACTLY
    return _by_scipy(matrix, rows_mD) if exactly else _by_rows(matrix, rows_mD)


def _put(own: Tensor, mixed: Tensor, plus: Tensor | None) -> Tensor:
    return own.copy_(mixed) if plus is None else torch.add(mixed, plus, out=own)


EXACTLY = (torch.float32, torch.float64)  # as numpy has them


def _by_scipy(matrix: csr_array, rows: Tensor) -> Tensor:
    return torch.from_numpy(matrix @ rows.numpy())


def _by_rows(matrix: csr_array, rows: Tensor) -> Tensor:
    """The same sums in the same order, by PyTorch alone."""
    mixed = []
    for first, last in zip(matrix.indptr[:-1].tolist(), matrix.indptr[1:].tolist(), strict=True):
        weights, places = matrix.data[first:last].tolist(), matrix.indices[first:last].tolist()
        total = rows.new_zeros(rows.shape[1])
        for weight, place in zip(weights, places, strict=True):
            total += weight * rows[place]
        mixed.append(total)
    return torch.stack(mixed) if mixed else rows[:0]


def _column_slices(rows_nD: Tensor, count: int) -> Iterator[slice]:
    size = rows_nD.shape[1]
    width = max(bounded(MIN_COLUMNS), bounded(CACHE_BYTES) // (count * rows_nD.element_size()))
    for first in range(0, size, width):
        yield slice(first, min(first + width, size))
