"""A site as a group of processes that share nothing but messages between neighbours.

What all processes of a cluster do together (gathering numbers, averaging models) a site does by itself: its records,
checkpoints and model are its own.
"""

from collections.abc import Sequence

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from crossgrad._network.context import NetworkContext
from crossgrad._network.network import AgentNetwork, rate_of, symmetric_weights
from crossgrad._network.shard import Shard
from crossgrad._network.transport import Transport
from crossgrad._numerics.seeding import generator
from crossgrad._processes.group import Group
from crossgrad.algorithms.api import Meeting
from crossgrad.federation.exchanges import Live
from crossgrad.federation.transport import SiteTransport
from crossgrad.federation.weights import graph_of_step
from crossgrad.graphs import Graph, random_pairs


class SiteNetwork(AgentNetwork):
    """The network of one step at a site. Random pairs are drawn for the whole federation, the same at all sites."""

    def __init__(
        self, graph: Graph, context: NetworkContext, step: int, transport: Transport, federation_graph: Graph
    ) -> None:
        super().__init__(graph, context, step, transport)
        self.federation_graph = federation_graph

    def mixing_rate(self, lazy: float = 0.0) -> float:
        """That of the whole graph: a site does not know who else misses a neighbour, and all must take the same."""
        return rate_of(self.federation_graph, lazy)

    def eigenvalues(self) -> tuple[float, ...]:
        return self.federation_graph.eigenvalues

    def weights(self) -> NDArray[np.float64]:
        return symmetric_weights(self.federation_graph)

    def meet(self, single: bool) -> Meeting:
        graph = self.federation_graph
        pairs = random_pairs(graph, generator(self.context.seed, "meet", self.step), single)
        network = AgentNetwork(pairs, self.context, self.step, self.transport)
        awake: NDArray[np.bool_] = np.ones(graph.agents, bool)
        if single and graph.agents > 1:
            awake = network.table.present_NK.any(axis=1)  # type: ignore[assignment]
        return Meeting(torch.from_numpy(awake[self.context.shard.rows]), network)


class SiteGroup(Group):
    """The group of one site: it has one agent, and knows no numbers of other sites.

    Args:
        agent: the site's number.
        sizes: how many samples every site holds, as far as it is known here.
    """

    processes = 1

    def __init__(self, agent: int, sizes: Sequence[int]) -> None:
        self.rank, self.sizes = agent, list(sizes)
        self.transport: SiteTransport = SiteTransport(agent, len(sizes))
        self.live: Live | None = None  # of the present step

    @property
    def is_rank_0(self) -> bool:
        return True

    def shard(self, agents: int) -> Shard:
        return Shard(agents, self.rank, self.rank + 1)

    def network(self, graph: Graph, context: NetworkContext, step: int) -> AgentNetwork:
        if self.live is None:  # before the first step
            return AgentNetwork(graph, context, step, self.transport)
        now = graph_of_step(graph, self.rank, self.live.degree, self.live.partners)
        return SiteNetwork(now, context, step, self.transport, graph)

    def survey(self, table_nC: Tensor) -> Tensor:
        table_NC = table_nC.repeat(len(self.sizes), 1)
        table_NC[:, 0] = torch.tensor(self.sizes)
        return table_NC

    def gather(self, table_nC: Tensor, rows: Sequence[int] | None = None) -> Tensor:
        return table_nC

    def total(self, rows_nD: Tensor) -> Tensor:
        return rows_nD[0].clone()

    def mean(self, rows_nD: Tensor, agents: int) -> Tensor:
        return rows_nD[0].clone()

    def broadcast(self, tensor: Tensor) -> None:
        """No-op: a site keeps its own numbers."""

    def keep_text(self, text: str) -> None:
        """No-op: no launcher restarts a site."""

    def kept_text(self) -> str:
        return ""
