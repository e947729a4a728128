"""What stays the same from step to step of a run's network."""

from dataclasses import dataclass, field
from typing import ClassVar

import torch
from torch import Tensor

from crossgrad._network.shard import Shard
from crossgrad._network.traffic import Traffic
from crossgrad._storage.stateful import Stateful
from crossgrad.graphs import Graph
from crossgrad.models.buffers import Buffers


class Workspace:
    """Bytes for messages, the same in every step: new pages would cost more than the copy."""

    def __init__(self) -> None:
        self._held: dict[str, Tensor] = {}

    def rows(self, name: str, rows: int, width_bytes: int, device: torch.device) -> Tensor:
        """A table of bytes for one purpose."""
        held = self._held.get(name)
        if held is None or held.shape != (rows, width_bytes) or held.device != device:
            held = self._held[name] = torch.zeros(rows, width_bytes, dtype=torch.uint8, device=device)
        return held


@dataclass(eq=False)
class NetworkContext(Stateful):
    """What the networks of all steps share: the agents' places, their buffers, the count of bytes, the seed."""

    constants: ClassVar[tuple[str, ...]] = ("shard", "union", "buffers", "seed", "workspace")  # buffers: see Training

    shard: Shard
    union: Graph
    traffic: Traffic
    buffers: Buffers
    seed: int
    workspace: Workspace = field(default_factory=Workspace)
