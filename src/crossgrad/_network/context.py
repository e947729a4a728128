"""What stays the same from step to step of a run's network."""

from dataclasses import dataclass, field
from typing import ClassVar

import torch
from torch import Tensor

from crossgrad._network.clock import Clock
from crossgrad._network.shard import Shard
from crossgrad._network.traffic import Traffic
from crossgrad._storage.stateful import Stateful
from crossgrad.graphs import Graph
from crossgrad.guards import Attack, RobustRule
from crossgrad.models.buffers import Buffers


class Workspace:
    """Memory for messages that is allocated once: allocating it in every step would cost more than the copy."""

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
    """What the networks of all steps share.

    Args:
        shard: the agents of this process.
        union: a graph with every edge that ever occurs.
        traffic: the count of bytes sent.
        buffers: the agents' buffers, which are averaged with their models.
        seed: of random pairs and other draws.
        robust: the rule that replaces the weighted average of models; None for the average.
        attack: simulated agents that send something else than their models.
        workspace: memory for messages, reused in every step.
        clock: the simulated time, where links or machines are given.
    """

    constants: ClassVar[tuple[str, ...]] = (
        *("shard", "union", "seed", "robust", "attack", "workspace"),
        *("buffers", "clock"),  # see Training
    )

    shard: Shard
    union: Graph
    traffic: Traffic
    buffers: Buffers
    seed: int
    robust: RobustRule | None = None  # in place of the weighted average of models
    attack: Attack = Attack()
    workspace: Workspace = field(default_factory=Workspace)
    clock: Clock | None = None
