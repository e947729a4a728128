"""Mixing, what travels along, and every byte that is counted."""

import gc
import weakref

import numpy as np
import pytest
import torch
from torch import nn

import crossgrad as cg
from crossgrad import graphs
from crossgrad._network import cross_gradients
from crossgrad._network.context import NetworkContext
from crossgrad._network.network import AgentNetwork
from crossgrad._network.shard import Shard
from crossgrad._network.slots import Slots, table_of
from crossgrad._network.traffic import NETWORK_KINDS, Traffic
from crossgrad.graphs import tree_rounds
from crossgrad.models.buffers import Buffers

GRAPHS = [
    graphs.ring(1), graphs.ring(2), graphs.ring(7), graphs.bipartite(6), graphs.star(5), graphs.exponential(6),
    graphs.erdos_renyi(9, seed=4), graphs.fully_connected(6),
]  # fmt: skip


def name(graph):
    return f"{graph.name}-{graph.agents}"


def networks(graph, width=0, seed=0):
    generator = torch.Generator().manual_seed(seed)
    floats = torch.randn(graph.agents, width, generator=generator, dtype=torch.float64)
    buffers = Buffers(floats, torch.zeros(graph.agents, 0, dtype=torch.int64), ())
    traffic = Traffic(graph.union(), kinds=(*NETWORK_KINDS, "tracker"))
    context = NetworkContext(Shard.of(graph.agents), graph.union(), traffic, buffers, seed)
    return AgentNetwork(graph.at(0), context, 0), buffers, traffic


def random(agents, size=5):
    return torch.randn(agents, size, generator=torch.Generator().manual_seed(3), dtype=torch.float64)


@pytest.mark.parametrize("graph", GRAPHS, ids=name)
def test_mixing_equals_the_matrix_product(graph):
    net, _, _ = networks(graph)
    x = random(graph.agents)
    np.testing.assert_allclose(net.mix_(x.clone()), graph.dense() @ x.numpy(), rtol=1e-13, atol=1e-14)
    lazy = 0.3 * np.eye(graph.agents) + 0.7 * graph.dense()
    np.testing.assert_allclose(net.mix_(x.clone(), lazy=0.3), lazy @ x.numpy(), rtol=1e-13, atol=1e-14)


@pytest.mark.parametrize("graph", GRAPHS, ids=name)
def test_slots_hold_every_neighbour_once(graph):
    table = Slots.of(graph)
    for j in range(graph.agents):
        assert table.neighbour_NK[j][table.present_NK[j]].tolist() == graph.neighbours(j).tolist()
    np.testing.assert_allclose(table.pi_NL.sum(axis=1), graph.dense().sum(axis=1), rtol=1e-14)


@pytest.mark.parametrize("graph", GRAPHS, ids=name)
def test_a_model_is_counted_once_per_directed_edge(graph):
    net, _, traffic = networks(graph, width=3)
    x = random(graph.agents)
    net.mix_(x)
    net.mix_(x, kind="tracker")
    net.push_(x, torch.ones(graph.agents, 1, dtype=torch.float64))
    m = graph.messages
    expected = {"buffer": 2 * m * 24, "model": 2 * m * 40, "tracker": m * 40, "weight": m * 8}
    assert traffic.by_kind() == ({} if m == 0 else expected)
    assert traffic.total == sum(traffic.by_kind().values()) == traffic.by_agent_and_kind().sum()


def test_traffic_is_kept_per_edge_and_speaker():
    graph = graphs.star(4)
    net, _, traffic = networks(graph)
    net.mix_(random(4))
    assert traffic.by_agent_and_kind().sum(axis=1).tolist() == [3 * 40, 40, 40, 40]
    assert set(traffic.by_edge["model"].tolist()) == {40}


@pytest.mark.parametrize("graph", GRAPHS, ids=name)
def test_buffers_are_averaged_with_the_weights_of_their_models(graph):
    net, buffers, _ = networks(graph, width=4)
    before = buffers.floats_NF.numpy().copy()
    net.mix_(random(graph.agents), kind="tracker")
    np.testing.assert_array_equal(buffers.floats_NF, before)
    net.mix_(random(graph.agents), lazy=0.5)
    W = 0.5 * np.eye(graph.agents) + 0.5 * graph.dense()
    np.testing.assert_allclose(buffers.floats_NF, W @ before, rtol=1e-12, atol=1e-13)


def test_pushed_buffers_are_averages_even_on_a_directed_graph(tmp_path):
    (tmp_path / "edges.txt").write_text("0 1\n1 2\n2 0\n0 2\n")
    graph = graphs.read_edge_list(tmp_path / "edges.txt", directed=True)
    net, buffers, _ = networks(graph, width=2)
    before = buffers.floats_NF.numpy().copy()
    w = torch.tensor([[1.0], [0.5], [1.5]], dtype=torch.float64)
    _, w_next = net.push_(random(3), w.clone())
    A = graph.dense() * w.numpy().T / w_next.numpy()
    np.testing.assert_allclose(A.sum(axis=1), 1, rtol=1e-12)
    np.testing.assert_allclose(buffers.floats_NF, A @ before, rtol=1e-12)


def test_only_the_pair_that_meets_talks():
    graph = graphs.ring(6)
    net, buffers, traffic = networks(graph, width=2)
    before = buffers.floats_NF.clone()
    awake, pairs = net.meet(single=True)
    assert int(awake.sum()) == 2
    pairs.mix_(random(6))
    assert traffic.by_kind() == {"buffer": 2 * 16, "model": 2 * 40}
    assert (buffers.floats_NF != before).any(dim=1).tolist() == awake.tolist()


def test_meetings_are_a_pure_function_of_seed_and_step():
    graph = graphs.ring(10)
    met = []
    for step in (0, 1, 2, 0):
        net, _, _ = networks(graph)
        awake, _ = AgentNetwork(graph, net.context, step).meet(single=True)
        met.append(tuple(awake.nonzero()[:, 0].tolist()))
    assert met[0] == met[3]
    assert len(set(met)) > 1


@pytest.mark.parametrize("budget", [1, 500, 1 << 30])
@pytest.mark.parametrize("codec", [cg.Exact(), cg.ScaledSign()])
def test_cross_gradients_come_in_blocks_that_change_nothing(world, monkeypatch, budget, codec):
    monkeypatch.setattr(cross_gradients, "BLOCK_BYTES", budget)
    w = world(graphs.bipartite(7))
    x = w.run(cg.CGA(0.9, codec=codec), 4)[-1].x
    monkeypatch.setattr(cross_gradients, "BLOCK_BYTES", 64 << 20)
    assert torch.equal(x, world(graphs.bipartite(7)).run(cg.CGA(0.9, codec=codec), 4)[-1].x)


def test_blocks_hold_no_more_than_their_budget_and_one_agent_at_least(world, monkeypatch):
    w = world(graphs.fully_connected(8))
    for budget, rows in ((1, 1), (7 * 6 * 8 * 3, 3), (1 << 30, 8)):
        monkeypatch.setattr(cross_gradients, "BLOCK_BYTES", budget)
        shared = w.net().share(w.x0)
        sizes = [block.G_RKD.shape for block in shared.cross_gradients(w.grad, cg.Exact(), w.x0.new_zeros(8, 0, 6))]
        assert max(size[0] for size in sizes) == rows
        assert sum(size[0] for size in sizes) == 8


@pytest.mark.parametrize(("make", "bytes_back"), [(cg.CGA, 6 * 8), (cg.comp_cga, 1 + 8)])
def test_cga_sends_two_messages_per_edge_and_compcga_one_bit_per_number(world, make, bytes_back):
    w = world(graphs.ring(5))
    w.run(make(0.9), 3)
    kinds = w.traffic.by_kind()
    assert kinds.pop("model") == 3 * 10 * 48
    assert list(kinds.values()) == [3 * 10 * bytes_back]


def test_compcga_saves_at_most_48_percent_as_models_travel_in_full(blobs):
    """Table 1's footnote counts only the gradients."""
    model = nn.Sequential(nn.Linear(4, 50), nn.ReLU(), nn.Linear(50, 3))
    sent = []
    for algorithm in (cg.CGA(), cg.comp_cga()):
        result = cg.fit(model, blobs(), graph=cg.ring(4), algorithm=algorithm, steps=2)
        sent.append(result.records[-1].bytes_sent)
    assert sent[1] / sent[0] == pytest.approx((1 + 1 / 32) / 2, abs=0.01)


def test_an_agent_that_is_not_finite_spoils_only_those_who_hear_it():
    graph = graphs.star(5)
    net, _, _ = networks(graph)
    x = random(5)
    x[3] = float("nan")
    assert net.mix_(x).isfinite().all(dim=1).tolist() == [False, True, True, False, True]


def test_a_tree_with_more_rounds_than_a_cache_holds_does_not_make_its_tables_again_in_every_step():
    """Ten times slower above 64 rounds; the tables go when the graph goes."""
    rounds = tree_rounds(graphs.ring(150))
    first, again = ([table_of(each) for each in rounds] for _ in range(2))
    assert len(rounds) == 150
    assert all(one is other for one, other in zip(first, again, strict=True))
    graph = graphs.ring(4)
    table = weakref.ref(table_of(graph))
    del graph
    gc.collect()
    assert table() is None
