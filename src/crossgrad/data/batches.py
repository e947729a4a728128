"""Every agent's endless stream of mini-batches."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from crossgrad._numerics.seeding import stream


class Batches:
    """Mini-batches of the agents' own samples, a pure function of seed, agent and step.

    An agent goes through one permutation of its n samples after another. Batch i are the samples at positions i B to
    (i+1) B - 1 of this stream, with B = min(batch_size, n). So every batch is full, every sample occurs exactly once
    per local epoch, and a batch at the end of an epoch may contain samples of the next one.

    Args:
        sizes: how many samples each agent has.
        batch_size: samples of a batch; an agent with fewer uses all it has.
        seed: seed of the permutations.

    >>> batches = Batches([5, 2], batch_size=3, seed=0)
    >>> batches.batch_sizes
    (3, 2)
    >>> sorted(batches.indices(1, 7).tolist())
    [0, 1]
    """

    def __init__(self, sizes: Sequence[int], batch_size: int, seed: int) -> None:
        if len(sizes) == 0 or min(sizes) < 1 or batch_size < 1 or seed < 0:
            raise ValueError(
                f"Batches need at least one sample per agent, a batch size from 1 and a seed from 0; the "
                f"sizes are {list(sizes)}, the batch size is {batch_size} and the seed {seed}."
            )
        self.sizes, self.seed = tuple(int(n) for n in sizes), seed
        self.batch_sizes = tuple(min(batch_size, n) for n in self.sizes)
        self._size_N, self._batch_N = np.array(self.sizes), np.array(self.batch_sizes)
        self._first_N = np.cumsum(self._size_N) - self._size_N  # where an agent's samples begin among all
        self._order = np.zeros(self._size_N.sum(), np.int64)  # of each agent's samples, in the epoch held
        self._epoch_N = np.full(len(self.sizes), -1)

    def indices(self, agent: int, i: int) -> NDArray[np.int64]:
        """Batch i of this agent: indices into its own samples."""
        if not 0 <= agent < len(self.sizes) or i < 0:
            raise IndexError(
                f"batches are numbered from 0, agents 0 to {len(self.sizes) - 1}; found batch {i} of agent {agent}."
            )
        return self.together(np.array([agent]), np.array([i]))

    def together(self, agents: NDArray[np.int64], numbers: NDArray[np.int64]) -> NDArray[np.int64]:
        """The batches with these numbers of these agents, one after the other."""
        B, n = self._batch_N[agents], self._size_N[agents]
        rows = np.repeat(np.arange(len(agents)), B)
        within = np.arange(len(rows)) - np.repeat(np.cumsum(B) - B, B)
        epochs, places = np.divmod((numbers * B)[rows] + within, n[rows])
        first, last = numbers * B // n, ((numbers + 1) * B - 1) // n
        places += self._first_N[agents][rows]
        self._hold(agents, first)
        chosen: NDArray[np.int64] = self._order[places]
        if (both := last > first).any():  # a batch between two epochs takes from both
            self._hold(agents[both], last[both])
            late = epochs > first[rows]
            chosen[late] = self._order[places[late]]
        return chosen

    def _hold(self, agents: NDArray[np.int64], epochs: NDArray[np.int64]) -> None:
        """Make the permutations of these agents' samples for these epochs the current ones."""
        new = self._epoch_N[agents] != epochs
        for agent, epoch in zip(agents[new].tolist(), epochs[new].tolist(), strict=True):
            first = self._first_N[agent]
            self._order[first : first + self.sizes[agent]] = self._permutation(agent, epoch)
        self._epoch_N[agents] = epochs

    def _permutation(self, agent: int, epoch: int) -> NDArray[np.int64]:
        return stream(self.seed, "batc", agent, epoch).permutation(self.sizes[agent])
