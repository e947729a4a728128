"""The record of what was sent: bytes per directed edge and kind of message."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from crossgrad._network.shard import Shard
from crossgrad._storage.stateful import StateDict, Stateful, difference
from crossgrad.graphs import Graph

KINDS = ("model", "buffer", "weight", "tracker", "gradient", "code")  # all that ever travels in a step


class Traffic(Stateful):
    """Bytes sent so far, per edge and kind. An edge (j, l) is the way from l to j: j receives from l.

    Only the agents of `shard` (all, by default) send here; other processes count what theirs send.
    """

    def __init__(self, union: Graph, shard: Shard | None = None) -> None:
        self.agents, self.shard = union.agents, shard or Shard.of(union.agents)
        self.receiver, self.sender, _ = union.edges
        self._edge_keys = self.receiver * self.agents + self.sender  # ascending, as the edges are sorted
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

    def state_dict(self) -> StateDict:
        """Return the bytes that each agent of this process sent to its first, second, ... receiver, by kind."""
        row, place, shape = self._receivers()
        sent = {}
        for kind in KINDS:
            amounts = self.by_edge.get(kind, np.zeros(len(self.receiver), np.int64))
            mine = self.shard.holds(self.sender)
            sent[kind] = torch.zeros(shape, dtype=torch.int64)
            sent[kind][row[mine], place[mine]] = torch.from_numpy(amounts[mine])
        return {"sent": sent}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Go on counting from a saved state."""
        if wrong := difference(self.state_dict(), state):
            raise ValueError(f"the saved count of bytes is of another graph: {wrong}.")
        row, place, _ = self._receivers()
        mine = self.shard.holds(self.sender)
        self.by_edge = {}
        for kind, sent in state["sent"].items():
            if bool(sent.any()):
                self.by_edge[kind] = np.zeros(len(self.receiver), np.int64)
                self.by_edge[kind][mine] = sent.numpy()[row[mine], place[mine]]

    def _receivers(self) -> tuple[NDArray[np.int64], NDArray[np.int64], tuple[int, int]]:
        """For every edge: its sender's row, and which of the sender's receivers it leads to; the table's shape."""
        order = np.lexsort((self.receiver, self.sender))
        degree = np.bincount(self.sender, minlength=self.agents)
        place = np.empty(len(order), np.int64)
        place[order] = np.arange(len(order)) - np.repeat(np.cumsum(degree) - degree, degree)
        return self.sender - self.shard.first, place, (len(self.shard), int(degree.max(initial=0)))

    @property
    def total(self) -> int:
        """All bytes sent so far."""
        return sum(self.by_kind().values())
