"""The record of what was sent: bytes per directed edge and kind of message."""

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from crossgrad._network.shard import Shard
from crossgrad._storage.stateful import StateDict, Stateful, difference
from crossgrad.graphs import Graph

NETWORK_KINDS = ("model", "buffer", "weight")  # sent by the network itself: models, buffers, push-sum weights


def kinds_of(algorithm: Any) -> tuple[str, ...]:
    """All kinds of message of a run, sorted: those of the network and those that the algorithm declares as `kinds`.

    Raises:
        ValueError: `kinds` is one string, whose letters would each be a kind.
    """
    own = getattr(algorithm, "kinds", ())
    if isinstance(own, str):
        raise ValueError(f"the kinds of an algorithm's messages are a tuple of names; found {own!r}. Write ({own!r},).")
    return tuple(sorted({*NETWORK_KINDS, *own}))


class Traffic(Stateful):
    """Bytes sent so far, per edge and kind. An edge (j, l) is the way from l to j: j receives from l.

    Args:
        union: a graph with every edge that ever occurs.
        shard: the agents whose messages are counted (by default all); other processes count those of their own.
        kinds: the kinds of message that may be sent, in the same order in all processes: see `kinds_of`.
    """

    def __init__(self, union: Graph, shard: Shard | None = None, kinds: Iterable[str] = NETWORK_KINDS) -> None:
        self.agents, self.shard, self.kinds = union.agents, shard or Shard.of(union.agents), tuple(kinds)
        self.receiver, self.sender, _ = union.edges
        self._edge_keys = self.receiver * self.agents + self.sender  # ascending, as the edges are sorted
        self.by_edge: dict[str, NDArray[np.int64]] = {}

    def number(self, kind: str) -> int:
        """The place of a kind among those of the run.

        Raises:
            ValueError: it was not declared.
        """
        if kind not in self.kinds:
            raise ValueError(
                f"every kind of message must be declared by who sends it, so that all processes count the same; found "
                f"{kind!r} beside {', '.join(self.kinds)}. Add it to the `kinds` of the algorithm."
            )
        return self.kinds.index(kind)

    def edges(self, receiver: NDArray[np.int64], sender: NDArray[np.int64]) -> NDArray[np.int64]:
        """The numbers of the edges from `sender` to `receiver`."""
        return np.searchsorted(self._edge_keys, receiver * self.agents + sender)

    def add(self, kind: str, edges: NDArray[np.int64], bytes_each: int) -> None:
        """Count one message of `bytes_each` on each of these edges."""
        self.number(kind)
        if bytes_each and len(edges):
            self.by_edge.setdefault(kind, np.zeros(len(self.receiver), np.int64))[edges] += bytes_each

    def by_agent_and_kind(self) -> NDArray[np.int64]:
        """Bytes that each agent has sent, one column for each of `kinds`."""
        sent = np.zeros((self.agents, len(self.kinds)), np.int64)
        for kind, amounts in self.by_edge.items():
            np.add.at(sent[:, self.number(kind)], self.sender, amounts)
        return sent

    def by_kind(self) -> dict[str, int]:
        """Bytes sent in total, for each kind of message."""
        return {kind: int(sent.sum()) for kind, sent in sorted(self.by_edge.items())}

    def state_dict(self) -> StateDict:
        """Return the bytes that each agent of this process sent to its first, second, ... receiver, by kind."""
        row, place, shape = self._receivers()
        sent = {}
        for kind in self.kinds:
            amounts = self.by_edge.get(kind, np.zeros(len(self.receiver), np.int64))
            mine = self.shard.holds(self.sender)
            sent[kind] = torch.zeros(shape, dtype=torch.int64)
            sent[kind][row[mine], place[mine]] = torch.from_numpy(amounts[mine])
        return {"sent": sent}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Go on counting from a saved state."""
        if wrong := difference(self.state_dict(), state):
            raise ValueError(f"the saved count of bytes must be of the same graph; {wrong}. Load it with that graph.")
        row, place, _ = self._receivers()
        mine = self.shard.holds(self.sender)
        self.by_edge = {}
        for kind, sent in state["sent"].items():
            if bool(sent.any()):
                self.by_edge[kind] = np.zeros(len(self.receiver), np.int64)
                self.by_edge[kind][mine] = sent.numpy()[row[mine], place[mine]]

    def _receivers(self) -> tuple[NDArray[np.int64], NDArray[np.int64], tuple[int, int]]:
        """For every edge its sender's row and the number of its receiver among the sender's; and the table's shape."""
        order = np.lexsort((self.receiver, self.sender))
        degree = np.bincount(self.sender, minlength=self.agents)
        place = np.empty(len(order), np.int64)
        place[order] = np.arange(len(order)) - np.repeat(np.cumsum(degree) - degree, degree)
        return self.sender - self.shard.first, place, (len(self.shard), int(degree.max(initial=0)))

    @property
    def total(self) -> int:
        """All bytes sent so far."""
        return sum(self.by_kind().values())
