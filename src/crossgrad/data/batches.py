"""Every agent's endless stream of mini-batches."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

PURPOSE = 0x6261_7463  # keeps these draws apart from others of the same seed


class Batches:
    """Mini-batches of the agents' own samples, a pure function of seed, agent and step.

    An agent's stream is one permutation of its n samples after another; batch i is positions i B to
    (i+1) B of it, with B = min(batch_size, n). So every batch is full, and every sample occurs exactly once per local
    epoch; the batch between two epochs takes from both.

    >>> batches = Batches([5, 2], batch_size=3, seed=0)
    >>> batches.batch_sizes
    (3, 2)
    >>> sorted(batches.indices(1, 7).tolist())
    [0, 1]
    """

    def __init__(self, sizes: Sequence[int], batch_size: int, seed: int) -> None:
        if len(sizes) == 0 or min(sizes) < 1 or batch_size < 1 or seed < 0:
            raise ValueError(
                f"Batches need at least one sample per agent, a batch size from 1 and a seed from 0, but the "
                f"sizes are {list(sizes)}, the batch size is {batch_size} and the seed {seed}."
            )
        self.sizes, self.seed = tuple(int(n) for n in sizes), seed
        self.batch_sizes = tuple(min(batch_size, n) for n in self.sizes)
        # agent -> epoch -> permutation: those the last batch was taken from
        self._epochs: dict[int, dict[int, NDArray[np.int64]]] = {}

    def indices(self, agent: int, i: int) -> NDArray[np.int64]:
        """Batch i of this agent: indices into its own samples."""
        if not 0 <= agent < len(self.sizes) or i < 0:
            raise IndexError(f"There are batches from 0 of agents 0 to {len(self.sizes) - 1}, not {i} of {agent}.")
        n, B = self.sizes[agent], self.batch_sizes[agent]
        first, last = i * B // n, ((i + 1) * B - 1) // n
        held = self._epochs.get(agent, {})
        epochs = {e: held[e] if e in held else self._permutation(agent, e) for e in range(first, last + 1)}
        self._epochs[agent] = epochs
        if first == last:
            return epochs[first][i * B - first * n : (i + 1) * B - first * n].copy()
        return np.concatenate([order[max(i * B - e * n, 0) : (i + 1) * B - e * n] for e, order in epochs.items()])

    def _permutation(self, agent: int, epoch: int) -> NDArray[np.int64]:
        return np.random.default_rng([self.seed, agent, epoch, PURPOSE]).permutation(self.sizes[agent])
