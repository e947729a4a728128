"""The record of what was sent: bytes per directed edge and kind of message."""

import numpy as np
from numpy.typing import NDArray

from crossgrad.graphs import Graph

KINDS = ("model", "buffer", "weight", "tracker", "gradient", "code")  # all that ever travels in a step


class Traffic:
    """Bytes sent so far, per edge and kind. An edge (j, l) is the way from l to j: j hears l."""

    def __init__(self, union: Graph) -> None:
        pattern = union.weights.tocoo()
        off_diagonal = pattern.row != pattern.col
        self.agents = union.agents
        self.receiver: NDArray[np.int64] = pattern.row[off_diagonal].astype(np.int64)
        self.sender: NDArray[np.int64] = pattern.col[off_diagonal].astype(np.int64)
        self._edge_keys = self.receiver * self.agents + self.sender  # ascending: the pattern is sorted by rows
        self.by_edge: dict[str, NDArray[np.int64]] = {}

    def edges(self, receiver: NDArray[np.int64], sender: NDArray[np.int64]) -> NDArray[np.int64]:
        """The numbers of the edges on which `receiver` hears `sender`."""
        return np.searchsorted(self._edge_keys, receiver * self.agents + sender)

    def add(self, kind: str, edges: NDArray[np.int64], bytes_each: int) -> None:
        """Count one message of `bytes_each` on each of these edges."""
        if bytes_each and len(edges):
            self.by_edge.setdefault(kind, np.zeros(len(self.receiver), np.int64))[edges] += bytes_each

    def by_agent_and_kind(self) -> NDArray[np.int64]:
        """Bytes that each agent has sent, one column for each of KINDS."""
        sent = np.zeros((self.agents, len(KINDS)), np.int64)
        for kind, amounts in self.by_edge.items():
            np.add.at(sent[:, KINDS.index(kind)], self.sender, amounts)
        return sent

    def by_kind(self) -> dict[str, int]:
        """Bytes sent in total, for each kind of message."""
        return {kind: int(sent.sum()) for kind, sent in sorted(self.by_edge.items())}

    def by_agent(self) -> NDArray[np.int64]:
        """Bytes that each agent has sent."""
        sent = np.zeros(self.agents, np.int64)
        for amounts in self.by_edge.values():
            np.add.at(sent, self.sender, amounts)
        return sent

    @property
    def total(self) -> int:
        """All bytes sent so far."""
        return sum(self.by_kind().values())
