"""The agents' network in one step: their exchanges, over any transport.

N: agents of the whole network, n: those of this process, K: neighbour slots, D: parameters. An agent is a row; so are
its neighbours, whether this process holds them or another. Sums over neighbours run in the order of the slots, so that
any spread of the agents over processes gives the same bits.
"""

from collections import Counter
from collections.abc import Iterable, Sequence
from functools import lru_cache

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.sparse import csr_array, eye_array
from torch import Tensor

from crossgrad._network.context import NetworkContext
from crossgrad._network.cross_gradients import ModelsAtNeighbours
from crossgrad._network.messages import RowMessages
from crossgrad._network.relay import relay_
from crossgrad._network.robust import combine_rows_
from crossgrad._network.routes import arriving_of, ends_of, matrix_of, routes_of, without
from crossgrad._network.shard import holder
from crossgrad._network.slots import table_of
from crossgrad._network.transport import NoPeers, Transport
from crossgrad._numerics.mixing import mix_rows_, weighted_sums
from crossgrad._numerics.seeding import generator
from crossgrad.algorithms.api import Meeting, TreeRound
from crossgrad.codecs.codec import Codec
from crossgrad.codecs.levels import piece_slices
from crossgrad.graphs import Graph, random_pairs, tree_rounds, trees_of

NO_PEERS = NoPeers()


@lru_cache(maxsize=64)
def rate_of(graph: Graph, lazy: float) -> float:
    """The mixing rate of (1 - lazy) Pi + lazy I."""
    lazier = (1 - lazy) * graph.weights + lazy * eye_array(graph.agents, format="csr")
    return Graph(csr_array(lazier), graph.name, part_of_sequence=True).mixing_rate if lazy else graph.mixing_rate


@lru_cache(maxsize=16)
def symmetric_weights(graph: Graph) -> NDArray[np.float64]:
    """All weights of a graph; refused unless they are symmetric, as eigenvalues are."""
    return graph.dense() if graph.eigenvalues else np.empty((0, 0))


@lru_cache(maxsize=16)
def _no_edges(agents: int) -> Graph:
    return Graph(csr_array(eye_array(agents, format="csr")), "local step", part_of_sequence=True)


class AgentNetwork:
    """One step of the network of a process's agents.

    Args:
        graph: the graph of this step.
        context: what stays the same from step to step.
        step: the number of the step.
        transport: carries messages to other processes; by default there are none.
    """

    def __init__(self, graph: Graph, context: NetworkContext, step: int, transport: Transport = NO_PEERS) -> None:
        self.graph, self.context, self.step, self.transport = graph, context, step, transport
        self.table = table_of(graph)
        self.routes = routes_of(graph, context.shard, transport.processes)
        self.edges = context.traffic.edges(self.table.receiver_E, self.table.sender_E)  # in the union graph
        self._rounds: Counter[str] = Counter()

    @property
    def agents(self) -> int:
        return self.graph.agents

    @property
    def slots(self) -> int:
        return int(table_of(self.context.union).neighbour_NK.shape[1])

    @property
    def trees(self) -> int:
        return len(trees_of(self.context.union))

    @property
    def first(self) -> int:
        """The number of this process's first agent."""
        return self.context.shard.first

    def mix_(self, x: Tensor, plus: Tensor | None = None, *, kind: str = "model", lazy: float = 0.0) -> Tensor:
        self.count(kind, [x])
        if kind == "model":
            self.carry_buffers(lazy=lazy)
        return self.average_(x, RowMessages(self, kind, [self.leaving(x)]), lazy, plus)

    def push_(self, u: Tensor, w: Tensor) -> tuple[Tensor, Tensor]:
        self._refuse_robust("pushes weighted sums")
        self.count("model", [u])
        self.count("weight", [w])
        before = w.clone()
        self.average_(w, RowMessages(self, "weight", [w]))
        self.carry_buffers(weight=before, weight_next=w)
        return self.average_(u, RowMessages(self, "model", [self.leaving(u)])), w

    def share(self, x: Tensor) -> ModelsAtNeighbours:
        self.count("model", [x])
        return ModelsAtNeighbours(self, x)

    def broadcast_(
        self, p: Tensor, codec: Codec, sizes: Sequence[int], *, kind: str = "model", lazy: float = 0.0
    ) -> tuple[Tensor, Tensor]:
        self._refuse_robust("keeps copies of its neighbours' models that compressed differences add up to")
        parts = codec.encode(self.leaving(p), sizes)
        self.count(kind, parts)
        if kind == "model":
            self.carry_buffers(lazy=lazy)
        messages = RowMessages(self, kind, parts)
        messages.need_all("copies of what the neighbours sent need every message")
        for block in piece_slices(*p.shape):  # in pieces, as fresh memory for all of them in every step would be slow
            p[block] = codec.decode(tuple(part[block] for part in parts), sizes)
        remote = messages.decoded(codec, sizes)
        matrix = matrix_of(self.graph, self.context.shard, self.transport.processes, 0.0, p.dtype)
        return p, mix_rows_(matrix, p.clone(), remote, None)

    def pass_on(
        self, p_SD: Tensor, codec: Codec, sizes: Sequence[int], *, kind: str = "model"
    ) -> tuple[Tensor, Tensor]:
        senders = ends_of(self.graph, self.context.shard)[0].tolist()
        leaving = self.leaving(p_SD, senders) if senders else p_SD.new_zeros(1, sum(sizes))  # for the message's shape
        parts = codec.encode(leaving, sizes)
        self.count(kind, parts)
        if kind == "model":
            self.carry_buffers()
        messages = RowMessages(self, kind, parts, senders)
        messages.need_all("means along a tree need every message")
        q_SD = codec.decode(tuple(part[: len(senders)] for part in parts), sizes)
        arrived = torch.cat([q_SD, messages.decoded(codec, sizes)])
        matrix = arriving_of(self.graph, self.context.shard, self.transport.processes, p_SD.dtype)
        return q_SD, weighted_sums(matrix, arrived)

    def relay_(self, x: Tensor, received: Tensor, counts: Tensor) -> tuple[Tensor, Tensor]:
        self._refuse_robust("relays sums along a tree")
        self.carry_buffers()
        trees = trees_of(self.graph) or (self.graph,)  # a local step (`alone`) has no edges, so no trees
        nets = [AgentNetwork(tree, self.context, self.step, self.transport) for tree in trees]
        return relay_(nets, x, received, counts)

    def mixing_rate(self, lazy: float = 0.0) -> float:
        return rate_of(self.graph, lazy)

    def eigenvalues(self) -> tuple[float, ...]:
        return self.graph.eigenvalues

    def weights(self) -> NDArray[np.float64]:
        return symmetric_weights(self.graph)

    def tree_rounds(self) -> list[TreeRound]:
        self._refuse_robust("averages along a tree")
        return [self._tree_round(graph) for graph in tree_rounds(self.graph)]

    def _tree_round(self, graph: Graph) -> TreeRound:
        network = AgentNetwork(graph, self.context, self.step, self.transport)
        network._rounds = self._rounds  # messages of a step are numbered through all rounds
        senders, receivers = ends_of(graph, self.context.shard)
        keeps_R1 = network.table.pi_NL[receivers + self.first, :1]
        return TreeRound(network, *map(torch.from_numpy, (senders, receivers, keeps_R1)))

    def meet(self, single: bool) -> Meeting:
        pairs = random_pairs(self.graph, generator(self.context.seed, "meet", self.step), single)
        network = AgentNetwork(pairs, self.context, self.step, self.transport)
        active: NDArray[np.bool_] = np.ones(self.graph.agents, bool)
        if single and self.graph.agents > 1:
            active = network.table.present_NK.any(axis=1)  # type: ignore[assignment]
        return Meeting(torch.from_numpy(active[self.context.shard.rows]), network)

    def alone(self) -> "AgentNetwork":
        return AgentNetwork(_no_edges(self.agents), self.context, self.step, self.transport)

    def draw(self, purpose: str) -> Tensor:
        drawn_N = generator(self.context.seed, purpose, self.step).random(self.graph.agents)
        return torch.from_numpy(drawn_N[self.context.shard.rows])

    def average_(self, own: Tensor, messages: RowMessages, lazy: float = 0.0, plus: Tensor | None = None) -> Tensor:
        """own <- ((1 - lazy) Pi + lazy I) (own, remote) + plus, once the remote rows have arrived."""
        missing = messages.wait()
        robust = self.context.robust if messages.kind not in ("buffer", "weight") else None
        by_agent = robust is not None or bool(self.context.attack.agents)
        place = (self.graph, self.context.shard, self.transport.processes, 0.0 if by_agent else lazy, own.dtype)
        matrix = without(matrix_of(*place), missing) if len(missing) else matrix_of(*place)
        if by_agent:
            arrived = torch.cat([messages.sent[0], messages.remote[0]])
            return combine_rows_(robust, matrix, own, arrived, lazy, plus)
        return mix_rows_(matrix, own, messages.remote[0], plus)

    def leaving(self, rows: Tensor, places: Iterable[int] | None = None) -> Tensor:
        """The rows of own agents, all or those at these places, as they leave: hostile agents send something else."""
        attack, shard = self.context.attack, self.context.shard
        if not attack.agents:
            return rows
        places = range(len(shard)) if places is None else places
        return attack(rows, [shard.first + place for place in places], self.context.seed, self.step)

    def _refuse_robust(self, what: str) -> None:
        if self.context.robust is not None:
            raise ValueError(
                f"a robust rule needs an algorithm that averages models with its neighbours; this one {what}. Use "
                "DPSGD, QG-DSGDm, EDM, CGA or the like, or no robust rule."
            )

    def carry_buffers(self, lazy: float = 0.0, weight: Tensor | None = None, weight_next: Tensor | None = None) -> None:
        """Average the buffers with the weights of the models they belong to."""
        whole, shared = self.context.buffers.floats_NF, self.context.buffers.shared
        floats = whole if shared is None or shared == whole.shape[1] else whole[:, :shared].clone()
        if floats.shape[1] == 0:
            return
        self.count("buffer", [floats])
        if weight is None or weight_next is None:
            self.average_(floats, RowMessages(self, "buffer", [floats]), lazy)
        else:
            floats.mul_(weight)
            self.average_(floats, RowMessages(self, "buffer", [floats])).div_(weight_next)
        if floats is not whole:  # personal buffers stay with their agents
            whole[:, :shared] = floats

    def count(self, kind: str, parts: Sequence[Tensor]) -> None:
        """Count a message with one row of each of these parts on every edge on which an own agent is the sender."""
        bytes_each = sum(part.nbytes // len(part) for part in parts)
        self.context.traffic.add(kind, self.edges[self.routes.sending], bytes_each)

    def next_round(self, kind: str) -> int:
        """How many messages of this kind every agent has sent in this step before."""
        self._rounds[kind] += 1
        return self._rounds[kind] - 1

    def rank_of(self, agent: int) -> int:
        """The rank that holds an agent."""
        return holder(agent, self.graph.agents, self.transport.processes)
