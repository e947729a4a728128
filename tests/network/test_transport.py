"""One exchange over any transport: several processes have the bits of one, and a missing peer is an edge less."""

from typing import NamedTuple

import numpy as np
import pytest
import torch
from scipy.sparse import csr_array

import crossgrad as cg
from crossgrad import graphs
from crossgrad._network import cross_gradients
from crossgrad._network.context import NetworkContext
from crossgrad._network.in_memory import Mailboxes
from crossgrad._network.network import NO_PEERS, AgentNetwork
from crossgrad._network.traffic import NETWORK_KINDS, Traffic, kinds_of
from crossgrad._network.wire import LostError, PeerError
from crossgrad._processes.threads import in_threads
from crossgrad._training.validate import check_graph
from crossgrad.algorithms import ALGORITHMS
from crossgrad.algorithms.gossip_rounds import Gossip
from crossgrad.codecs import Quantised, RandomK, ScaledSign, TopK
from crossgrad.guards import Attack, SelfCentredClipping, TrimmedMean
from crossgrad.models.buffers import Buffers


class OwnGradients:
    """The gradients of a block of agents, numbered within it."""

    def __init__(self, grad, first):
        self.grad, self.first, self.sizes = grad, first, grad.sizes

    def __call__(self, x, active=None):
        rows = [self.grad.at(row, self.first + j) for j, row in enumerate(x.numpy())]
        g = torch.from_numpy(np.stack(rows))
        return g if active is None else g * active[:, None]

    def on_demand(self, x, active=None):
        g = self(x, active)
        return lambda rows: g[rows]

    def cross(self, models, agents):
        return self.grad.cross(models, [self.first + agent for agent in agents])


def run(w, algorithm, group, steps=4, floats=2, guard=()):
    """The states, buffers and bytes of one process's agents."""
    shard = group.shard(w.graph.agents)
    values = torch.randn(w.graph.agents, floats, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    buffers = Buffers(values[shard.rows].clone(), torch.zeros(len(shard), 0).long(), ())
    traffic = Traffic(w.graph.union(), shard, kinds_of(algorithm))
    context = NetworkContext(shard, w.graph.union(), traffic, buffers, 0, *guard)
    grad = OwnGradients(w.grad, shard.first)
    state = algorithm.init(w.x0[shard.rows].clone(), group.network(w.graph.at(0), context, 0))
    for step in range(steps):
        state = algorithm.step(state, 0.05, grad, group.network(w.graph.at(step), context, step))
    return [*state, buffers.floats_NF], traffic.by_kind()


GRAPHS = [graphs.ring(7), graphs.bipartite(6), graphs.exponential(6), graphs.random_matchings(6, seed=1)]


@pytest.mark.parametrize("processes", [3, *(pytest.param(more, marks=pytest.mark.slow) for more in (2, 6))])
@pytest.mark.parametrize("graph", GRAPHS, ids=lambda graph: f"{graph.name}-{graph.agents}")
@pytest.mark.parametrize("name", ALGORITHMS)
def test_threads_that_hold_some_agents_each_have_the_bits_of_one_that_holds_all(world, name, graph, processes):
    algorithm, w = ALGORITHMS[name](), world(graph)
    try:
        check_graph(algorithm, graph, graph.agents)
    except ValueError:
        pytest.skip("needs another graph")
    ((expected, sent),) = in_threads(1, lambda group: run(w, algorithm, group))
    found = in_threads(processes, lambda group: run(w, algorithm, group))
    for number, part in enumerate(expected):
        assert torch.equal(torch.cat([state[number] for state, _ in found]), part)
    assert {kind: sum(by_kind.get(kind, 0) for _, by_kind in found) for kind in sent} == sent


@pytest.mark.parametrize("codec", [None, Quantised(3), TopK(0.4), RandomK(0.4), ScaledSign(per_tensor=True)], ids=str)
@pytest.mark.parametrize("algorithm", [cg.EDM(0.9), cg.GradientTracking()], ids=lambda a: type(a).__name__)
def test_compressed_rounds_have_the_same_bits_and_bytes_in_any_number_of_processes(world, algorithm, codec):
    w, compressed = world(graphs.bipartite(6)), Gossip(codec, rounds=2, chebyshev=True, gamma=0.5).around(algorithm)
    ((expected, sent),) = in_threads(1, lambda group: run(w, compressed, group))
    found = in_threads(4, lambda group: run(w, compressed, group))
    for number, part in enumerate(expected):
        assert torch.equal(torch.cat([state[number] for state, _ in found]), part)
    assert {kind: sum(by_kind.get(kind, 0) for _, by_kind in found) for kind in sent} == sent


@pytest.mark.parametrize("rule", [None, SelfCentredClipping(0.5), TrimmedMean(1)], ids=str)
@pytest.mark.parametrize("algorithm", [cg.EDM(0.9), cg.CGA(0.5)], ids=lambda a: type(a).__name__)
def test_robust_rules_and_attacks_have_the_same_bits_in_any_number_of_processes(world, algorithm, rule):
    w, guard = world(graphs.bipartite(6)), (rule, Attack((1, 4), "noise", 2.0))
    ((expected, _),) = in_threads(1, lambda group: run(w, algorithm, group, guard=guard))
    found = in_threads(4, lambda group: run(w, algorithm, group, guard=guard))
    for number, part in enumerate(expected):
        assert torch.equal(torch.cat([state[number] for state, _ in found]), part)


class Relaying(NamedTuple):
    """Relays its models, and keeps what arrived."""

    x: torch.Tensor
    received: torch.Tensor
    counts: torch.Tensor


class Relay:
    """An algorithm that does nothing but relay."""

    def init(self, x, net):
        return Relaying(x, x.new_zeros(len(x), net.slots, x.shape[1]), x.new_zeros(len(x), net.trees * net.slots))

    def step(self, s, lr, grad, net):
        total, count = net.relay_(s.x, s.received, s.counts)
        return s._replace(x=(s.x * (net.agents - count) + total) / net.agents)


@pytest.mark.parametrize(
    "tree", [graphs.chain(6), graphs.star(7), graphs.double_binary_tree(7)], ids=lambda graph: graph.name
)
def test_relayed_sums_have_the_same_bits_and_bytes_in_any_number_of_processes(world, tree):
    w = world(tree)
    ((expected, sent),) = in_threads(1, lambda group: run(w, Relay(), group))
    found = in_threads(3, lambda group: run(w, Relay(), group))
    for number, part in enumerate(expected):
        assert torch.equal(torch.cat([state[number] for state, _ in found]), part)
    assert {kind: sum(by_kind.get(kind, 0) for _, by_kind in found) for kind in sent} == sent


@pytest.mark.parametrize("algorithm", [Gossip(Quantised(4)).around(cg.DPSGD()), Relay()], ids=["differences", "relay"])
def test_what_needs_every_message_says_so_where_one_is_missing(world, algorithm):
    w, mailboxes = world(graphs.ring(2)), Mailboxes(2)
    mailboxes.missing.add(1)
    with pytest.raises(PeerError, match=r"need every message; in step 0 .*agent"):
        in_threads(2, lambda group: run(w, algorithm, group, floats=0), mailboxes)


def test_cross_gradients_in_small_blocks_over_processes_change_nothing(world, monkeypatch):
    w = world(graphs.bipartite(7))
    expected = run(w, cg.comp_cga(), in_threads(1, lambda group: group)[0])[0][0]
    monkeypatch.setattr(cross_gradients, "BLOCK_BYTES", 1)
    found = in_threads(3, lambda group: run(w, cg.comp_cga(), group)[0][0])
    assert torch.equal(torch.cat(found), expected)


@pytest.mark.parametrize("algorithm", [cg.DPSGD(), cg.mean_cga(0.9), cg.CGA(0.9)], ids=lambda a: str(a)[:8])
def test_a_missing_peer_is_an_edge_whose_weight_goes_to_the_receiver(world, algorithm):
    """Agent 3's process is missing: the others do as if they had no edge to it, and go on."""
    w = world(graphs.ring(6))
    mailboxes = Mailboxes(6)
    mailboxes.missing.add(3)
    found = torch.cat(in_threads(6, lambda group: run(w, algorithm, group, floats=0)[0][0], mailboxes))
    W = w.graph.dense().copy()
    for j in (2, 4):
        W[j, j] += W[j, 3]
        W[j, 3] = W[3, j] = 0.0
    W[3, 3] = 1.0
    without = world(graphs.Graph(csr_array(W), "cut", part_of_sequence=True))
    expected = run(without, algorithm, in_threads(1, lambda group: group)[0], floats=0)[0][0]
    torch.testing.assert_close(found, expected, rtol=1e-12, atol=1e-13)
    torch.testing.assert_close(found.mean(dim=0), expected.mean(dim=0), rtol=1e-12, atol=1e-13)


def test_a_message_that_never_comes_is_a_lost_peer():
    mailboxes = Mailboxes(2, patience=0.05)

    def lonely(group):
        if group.rank == 0:
            with pytest.raises(LostError):
                mailboxes.take((1, 0, 0))

    in_threads(2, lonely, mailboxes)


def test_a_kind_of_message_that_nobody_declared_is_refused_with_the_remedy(world):
    w = world(graphs.ring(3))
    net = AgentNetwork(w.graph, NetworkContext(w.context.shard, w.graph, Traffic(w.graph), w.context.buffers, 0), 0)
    with pytest.raises(ValueError, match=r"found 'momentum' beside model, buffer, weight. Add it to the `kinds`"):
        net.mix_(w.x0.clone(), kind="momentum")


def test_kinds_of_message_are_those_of_the_network_and_of_the_algorithm():
    assert kinds_of(cg.DPSGD()) == tuple(sorted(NETWORK_KINDS))
    assert kinds_of(cg.GradientTracking()) == ("buffer", "model", "tracker", "weight")
    assert kinds_of(cg.comp_cga()) == ("buffer", "code", "model", "weight")


def test_one_process_has_no_peers_to_send_to():
    with pytest.raises(ValueError, match="found rank 1, and a single process has no peers to send to"):
        NO_PEERS.send(torch.zeros(8, dtype=torch.uint8), 1, 0)
