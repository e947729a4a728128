"""The processes of a run: which agents are here, and the few things all processes do together.

n: agents of this process, N: of all. Training steps need none of this: there, only neighbours talk.
"""

from typing import Protocol

import torch
from torch import Tensor

from crossgrad.graphs import Graph
from crossgrad.network import LocalNetwork, Setting
from crossgrad.shard import Shard


class Group(Protocol):
    """Some processes that run one experiment together."""

    @property
    def leader(self) -> bool:
        """Whether this process writes files and talks to people; it holds agent 0."""

    def shard(self, agents: int) -> Shard:
        """The agents that this process holds."""

    def network(self, graph: Graph, setting: Setting, step: int) -> LocalNetwork:
        """What this process's agents can say in one step."""

    def gather(self, table_nC: Tensor) -> Tensor:
        """A few numbers of every agent, in the order of the agents, for everybody."""

    def total(self, rows_nD: Tensor) -> Tensor:
        """The sum of all agents' rows, in the order of the agents, so that the bits do not depend on the processes."""


class Alone:
    """One process that holds all agents."""

    leader = True

    def shard(self, agents: int) -> Shard:
        return Shard.of(agents)

    def network(self, graph: Graph, setting: Setting, step: int) -> LocalNetwork:
        return LocalNetwork(graph, setting, step)

    def gather(self, table_nC: Tensor) -> Tensor:
        return table_nC

    def total(self, rows_nD: Tensor) -> Tensor:
        return add_rows(torch.zeros_like(rows_nD[0]), rows_nD)


def add_rows(total_D: Tensor, rows_nD: Tensor) -> Tensor:
    """`total` plus the rows, one after the other."""
    for row in rows_nD:
        total_D = total_D + row
    return total_D
