"""Which process holds which agents: contiguous blocks whose sizes differ by one at most."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True)
class Shard:
    """The agents first, ..., last - 1 of a network, held by one process.

    >>> [Shard.of(10, rank, 3) for rank in range(3)]
    [Shard(agents=10, first=0, last=3), Shard(agents=10, first=3, last=6), Shard(agents=10, first=6, last=10)]
    """

    agents: int  # of the whole network
    first: int
    last: int

    @classmethod
    def of(cls, agents: int, rank: int = 0, processes: int = 1) -> "Shard":
        """The block of one process."""
        return cls(agents, rank * agents // processes, (rank + 1) * agents // processes)

    def __len__(self) -> int:
        return self.last - self.first

    @property
    def rows(self) -> slice:
        """Where this block lies in a table of all agents."""
        return slice(self.first, self.last)

    def holds(self, agents: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Which of these agents are in this block."""
        inside: NDArray[np.bool_] = (agents >= self.first) & (agents < self.last)
        return inside


def holder(agent: int, agents: int, processes: int) -> int:
    """The rank that holds this agent.

    >>> [holder(agent, 10, 3) for agent in range(10)]
    [0, 0, 0, 1, 1, 1, 2, 2, 2, 2]
    """
    return ((agent + 1) * processes - 1) // agents
