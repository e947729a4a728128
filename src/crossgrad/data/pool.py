"""The samples of several agents in one piece of memory, so that all batches of a step are picked at once."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray

from crossgrad.data.types import Samples


@dataclass(frozen=True, eq=False)
class Pool:
    """One agent's samples after the other's."""

    all: Samples
    agents: tuple[Samples, ...]  # each agent's own, in the memory of `all`
    starts_N: NDArray[np.int64]  # where they begin

    @classmethod
    def of(
        cls,
        agents: Sequence[Samples],
        device: torch.device | None = None,
        dtype: torch.dtype | None = None,
        channels_last: bool = False,
    ) -> "Pool":
        """A copy of the agents' samples, in this type, with the channels of images last in memory where asked for."""
        inputs, labels = agents[0].inputs, agents[0].labels
        total, dtype = sum(len(own) for own in agents), dtype or inputs.dtype
        shape = (*inputs.shape[2:], inputs.shape[1]) if channels_last else inputs.shape[1:]
        inputs = torch.empty(total, *shape, dtype=dtype, device=device)
        inputs = inputs.permute(0, 3, 1, 2) if channels_last else inputs
        kind = dtype if labels.is_floating_point() else labels.dtype
        labels = torch.empty(total, *labels.shape[1:], dtype=kind, device=device)
        ends = np.cumsum([len(own) for own in agents])
        pieces = [slice(int(end) - len(own), int(end)) for own, end in zip(agents, ends, strict=True)]
        for own, piece in zip(agents, pieces, strict=True):
            inputs[piece], labels[piece] = own.inputs, own.labels
        parts = tuple(Samples(inputs[piece], labels[piece]) for piece in pieces)
        return cls(Samples(inputs, labels), parts, np.array([piece.start for piece in pieces]))
