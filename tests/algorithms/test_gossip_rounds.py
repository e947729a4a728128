"""Several rounds, accelerated and compressed, against their matrix form; the verbs they are made of."""

from dataclasses import replace
from pathlib import Path

import networkx as nx
import numpy as np
import pytest
import torch
from numpy.polynomial.chebyshev import Chebyshev

import crossgrad as cg
from crossgrad import graphs
from crossgrad._forecast.dry_steps import count_step_cost
from crossgrad._training.validate import check_faults, check_graph, check_robust
from crossgrad.algorithms import DPSGD, EDM, KGT, GradientTracking
from crossgrad.algorithms.api import rounds_of
from crossgrad.algorithms.gossip_rounds import Gossip
from crossgrad.algorithms.steps import XState
from crossgrad.codecs import Exact, Quantised, RandomK, ScaledSign, TopK
from crossgrad.experiments.files import read
from crossgrad.graphs.faults import Faults
from crossgrad.guards import CoordinateMedian

GRAPHS = [
    graphs.ring(2),
    graphs.ring(7),
    graphs.bipartite(6),
    graphs.star(5),
    graphs.torus(6),
    graphs.fully_connected(4),
]
CODECS = [Exact(), Quantised(8), Quantised(3), TopK(0.4), RandomK(0.4), ScaledSign()]


def name(value):
    return f"{value.name}-{value.agents}" if hasattr(value, "agents") else str(value)


def mixed(w, gossip, lazy=0.0, kind="model"):
    """What an averaging of the models makes of them."""

    class Averaging:
        needs = DPSGD.needs

        def init(self, x, net):
            return XState(x)

        def step(self, s, lr, grad, net):
            return XState(net.mix_(s.x, kind=kind, lazy=lazy))

    return w.run(gossip.around(Averaging()), 1)[-1].x.numpy()


@pytest.mark.parametrize("graph", GRAPHS, ids=name)
@pytest.mark.parametrize("rounds", [1, 2, 3, 5])
def test_plain_rounds_are_a_power_of_the_matrix(world, graph, rounds):
    w = world(graph)
    W = 0.3 * np.eye(graph.agents) + 0.7 * graph.dense()
    expected = np.linalg.matrix_power(W, rounds) @ w.x0.numpy()
    np.testing.assert_allclose(mixed(w, Gossip(rounds=rounds, gamma=0.7)), expected, atol=1e-13)


@pytest.mark.parametrize("graph", GRAPHS, ids=name)
@pytest.mark.parametrize("rounds", [2, 3, 6])
@pytest.mark.parametrize("gamma", [1.0, 0.5])
def test_accelerated_rounds_are_the_chebyshev_polynomial_of_the_matrix(world, graph, rounds, gamma):
    """T_R(W / l) / T_R(1 / l), on the eigenvalues, by numpy's own Chebyshev series; and the lazy share after."""
    w = world(graph)
    eigenvalues, V = np.linalg.eigh((1 - gamma) * np.eye(graph.agents) + gamma * graph.dense())
    rate = np.abs(np.sort(np.delete(eigenvalues, -1))).max()
    if rate < 1e-9:
        polynomial = np.where(np.arange(graph.agents) == graph.agents - 1, 1.0, 0.0)
    else:
        T = Chebyshev.basis(rounds)
        polynomial = T(eigenvalues / rate) / T(1 / rate)
    P = V @ np.diag(polynomial) @ V.T
    expected = (0.25 * np.eye(graph.agents) + 0.75 * P) @ w.x0.numpy()
    found = mixed(w, Gossip(rounds=rounds, chebyshev=True, gamma=gamma), lazy=0.25)
    np.testing.assert_allclose(found, expected, atol=1e-9)


def reference(w, codec, gossip, steps, lr):
    """DPSGD whose averaging is R rounds of difference gossip, with dense matrices and all copies at one place."""
    W, size, x = w.graph.dense(), w.x0.shape[1], w.x0.numpy().copy()
    eigenvalues = np.linalg.eigvalsh((1 - gossip.gamma) * np.eye(len(W)) + gossip.gamma * W)
    rate, hat = np.abs(eigenvalues[:-1]).max(), np.zeros_like(x)
    for _ in range(steps):
        g, z, before, omega = w.grad.own(x), x, x, 2.0
        for number in range(gossip.rounds):
            difference = torch.from_numpy(z - hat)
            hat = hat + codec.decode(codec.encode(difference, [size]), [size]).numpy()
            moved = z + gossip.gamma * (W @ hat - hat)
            if number and gossip.chebyshev:
                omega = 1 / (1 - rate**2 * omega / 4)
                moved = omega * (moved - before) + before
            before, z = z, moved
        x = z - lr * g
        yield x


@pytest.mark.parametrize("graph", [graphs.ring(7), graphs.bipartite(6)], ids=name)
@pytest.mark.parametrize("codec", [Exact(), TopK(0.4), ScaledSign()], ids=str)
@pytest.mark.parametrize(("rounds", "chebyshev", "gamma"), [(1, False, 0.6), (3, False, 0.5), (3, True, 0.4)])
def test_compressed_rounds_equal_their_matrix_form(world, graph, codec, rounds, chebyshev, gamma):
    w, gossip = world(graph), Gossip(codec, rounds, chebyshev, gamma)
    states = w.run(gossip.around(DPSGD()), 5, 0.05)
    for state, x in zip(states[1:], reference(w, codec, gossip, 5, 0.05), strict=True):
        np.testing.assert_allclose(state.x.numpy(), x, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("codec", CODECS, ids=str)
def test_compressed_averaging_keeps_the_mean_whatever_is_lost(world, codec):
    w = world(graphs.ring(6))
    states = w.run(Gossip(codec, 2, True, 0.3).around(DPSGD()), 30, lr=0.0)
    for state in states:
        torch.testing.assert_close(state.x.mean(dim=0), w.x0.mean(dim=0), rtol=1e-11, atol=1e-12)


@pytest.mark.parametrize("codec", CODECS, ids=str)
def test_compressed_averaging_reaches_consensus(world, codec):
    """Differences shrink, and with them what the codec loses: no floor is left."""
    w = world(graphs.ring(5))
    state = w.run(Gossip(codec, gamma=0.15).around(DPSGD()), 250, lr=0.0)[-1]
    torch.testing.assert_close(state.x, w.x0.mean(dim=0).expand(5, -1), rtol=0, atol=1e-6)


def test_copies_are_what_the_neighbours_sum_to(world):
    w = world(graphs.bipartite(6))
    state = w.run(Gossip(Quantised(3), 2).around(GradientTracking()), 7)[-1]
    for hat, near in ((state.hat_model, state.near_model), (state.hat_tracker, state.near_tracker)):
        np.testing.assert_allclose(near.numpy(), w.graph.dense() @ hat.numpy(), atol=1e-12)
        assert float(hat.abs().sum()) > 0


@pytest.mark.parametrize("algorithm", [EDM(0.5), GradientTracking()], ids=lambda a: type(a).__name__)
def test_exact_methods_stay_exact_with_compressed_rounds(world, algorithm):
    w = world(graphs.ring(6))
    gossip = Gossip(Quantised(4), rounds=2, chebyshev=True, gamma=0.5)
    state = w.run(gossip.around(algorithm), 120, lr=0.2)[-1]
    np.testing.assert_allclose(state.x.numpy(), np.tile(w.grad.optimum(), (6, 1)), atol=1e-8)


@pytest.mark.parametrize(
    ("codec", "size", "bytes_each"),
    [
        (None, 6, 48),
        (Quantised(4), 6, 4 * 1 + 16),
        (Quantised(3), 6, 3 * 1 + 16),
        (TopK(0.5), 6, 3 * 8 + 1),
        (RandomK(0.5), 6, 3 * 8 + 4),
        (ScaledSign(), 6, 1 + 8),
    ],
    ids=str,
)
def test_bytes_are_those_of_every_round_on_every_edge(world, codec, size, bytes_each):
    w = world(graphs.ring(5))
    w.run(Gossip(codec, rounds=3).around(GradientTracking()), 4)
    assert w.traffic.by_kind() == {kind: 4 * 3 * 10 * bytes_each for kind in ("model", "tracker")}


TREES = [*GRAPHS, graphs.ring(1), graphs.chain(6), graphs.binary_tree(7)]


@pytest.mark.parametrize("graph", TREES, ids=name)
@pytest.mark.parametrize("lazy", [0.0, 0.25])
def test_along_a_tree_everybody_gets_the_mean_of_all(world, graph, lazy):
    w = world(graph)
    expected = lazy * w.x0.numpy() + (1 - lazy) * w.x0.numpy().mean(axis=0)
    np.testing.assert_allclose(mixed(w, Gossip(tree=True), lazy=lazy), expected, atol=1e-14)
    assert w.traffic.by_kind().get("model", 0) == 2 * (graph.agents - 1) * 6 * 8


def along_tree(w, codec, steps, lr):
    """DPSGD whose averages travel agent by agent: parents and copies in dicts, no matrices."""
    size, agents = w.x0.shape[1], w.graph.agents
    paths = dict(nx.all_pairs_shortest_path(nx.from_numpy_array(w.graph.dense())))
    root = min(range(agents), key=lambda i: max(len(path) for path in paths[i].values()))
    parent = {child: path[-2] for child, path in paths[root].items() if child != root}
    far_first = sorted(parent, key=lambda i: -len(paths[root][i]))
    up, down, x = ({i: np.zeros(size) for i in range(agents)} for _ in range(3))
    x = {i: row for i, row in enumerate(w.x0.numpy())}

    def arrives(difference):
        row = torch.from_numpy(difference)[None]
        return codec.decode(codec.encode(row, [size]), [size]).numpy()[0]

    for _ in range(steps):
        g = w.grad.own(np.stack([x[i] for i in range(agents)]))
        total, count = dict(x), dict.fromkeys(range(agents), 1)
        for i in far_first:  # a child's mean times the number of agents below it is added to what the parent has
            up[i] = up[i] + arrives(total[i] / count[i] - up[i])
            total[parent[i]], count[parent[i]] = total[parent[i]] + count[i] * up[i], count[parent[i]] + count[i]
        mean = {root: total[root] / agents}
        for i in [root, *reversed(far_first)]:
            mean[i] = mean[i] if i == root else down[parent[i]]
            if i in parent.values():
                mean[i] = down[i] = down[i] + arrives(mean[i] - down[i])
        x = {i: mean[i] - lr * g[i] for i in range(agents)}
        yield np.stack([x[i] for i in range(agents)])


@pytest.mark.parametrize("graph", [graphs.binary_tree(7), graphs.star(5), graphs.chain(6)], ids=name)
@pytest.mark.parametrize("codec", [Exact(), TopK(0.4), ScaledSign()], ids=str)
def test_compressed_means_along_a_tree_equal_those_computed_agent_by_agent(world, graph, codec):
    w = world(graph)
    states = w.run(Gossip(codec, tree=True).around(DPSGD()), 6, 0.05)
    for state, x in zip(states[1:], along_tree(w, codec, 6, 0.05), strict=True):
        np.testing.assert_allclose(state.x.numpy(), x, rtol=1e-9, atol=1e-9)


def test_rounded_means_along_a_tree_are_the_same_for_everybody_and_settle_on_the_mean(world):
    """At rest, what the codec loses shrinks with the differences, on the way up and on the way down."""
    w = world(graphs.bipartite(8))
    for state in w.run(Gossip(Quantised(8), tree=True).around(DPSGD()), 12, lr=0.0)[3:]:
        torch.testing.assert_close(state.x, state.x[:1].expand(8, -1), rtol=0, atol=1e-6)
    torch.testing.assert_close(state.x[0], w.x0.mean(dim=0), rtol=0, atol=0.02)


class CountsRows(Exact):
    """Notes how many messages are encoded."""

    rows = 0

    def encode(self, p_MD, sizes):
        type(self).rows += len(p_MD)
        return super().encode(p_MD, sizes)


def test_along_a_tree_only_agents_that_send_encode_anything(world):
    """On the way up all but the root; on the way down all but the leaves, once for all children."""
    tree, averaging = graphs.binary_tree(15), Gossip(CountsRows(), tree=True).around(DPSGD())
    CountsRows.rows = 0
    world(tree).run(averaging, 3, 0.05)
    leaves = sum(len(tree.neighbours(agent)) == 1 for agent in range(15))
    assert CountsRows.rows == 3 * (14 + 15 - leaves)


def test_a_step_along_a_tree_has_twice_as_many_rounds_as_the_tree_is_deep(world):
    w = world(graphs.chain(7))
    assert rounds_of(Gossip(tree=True).around(GradientTracking()), w.net()) == 2 * 3


@pytest.mark.parametrize("algorithm", [EDM(0.5), GradientTracking()], ids=lambda a: type(a).__name__)
def test_methods_that_would_add_up_the_errors_of_rounded_means_are_refused(algorithm):
    with pytest.raises(ValueError, match=r"errors would add up\. Use QG-DSGDm or DPSGD, or no codec"):
        Gossip(Quantised(8), tree=True).around(algorithm)
    Gossip(tree=True).around(algorithm)


@pytest.mark.parametrize("options", [{"rounds": 2}, {"chebyshev": True}, {"gamma": 0.5}], ids=str)
def test_a_tree_beside_other_rounds_is_refused(options):
    with pytest.raises(
        ValueError, match=r"exact after rounds of its own; found .* beside tree\. Leave these out, or tree"
    ):
        Gossip(tree=True, **options)


def test_what_a_tree_needs_is_checked_with_the_remedy():
    along = Gossip(tree=True).around(DPSGD())
    with pytest.raises(ValueError, match="averages along a tree, which needs the same graph in every step"):
        check_graph(along, graphs.random_matchings(6), 6)
    with pytest.raises(ValueError, match="needs an undirected graph"):
        check_graph(along, graphs.exponential(6), 6)
    with pytest.raises(
        ValueError, match=r"averages along a tree, where every message is needed; .* leave out gossip\.tree"
    ):
        check_faults(along, graphs.ring(6), Faults(drop=0.1))
    with pytest.raises(ValueError, match=r"a robust rule needs .* this one averages along a tree"):
        check_robust(along, CoordinateMedian())


def test_one_exact_round_is_the_algorithm_itself():
    assert Gossip().around(DPSGD()) == DPSGD()


@pytest.mark.parametrize(
    ("algorithm", "why"),
    [(cg.CGA(), "neighbours' models"), (cg.SGP(), "pushes weighted sums"), (cg.SwarmSGD(), "averages random pairs")],
    ids=["cga", "sgp", "swarm"],
)
def test_algorithms_that_do_more_than_averaging_are_refused(algorithm, why):
    with pytest.raises(ValueError, match=f"only averages with its neighbours; this one .*{why}.* Use DPSGD"):
        Gossip(rounds=2).around(algorithm)


def test_what_the_graph_must_be_is_checked_with_the_remedy():
    compressed, accelerated = Gossip(Quantised(4)).around(DPSGD()), Gossip(rounds=2, chebyshev=True).around(DPSGD())
    with pytest.raises(ValueError, match="needs the same graph in every step"):
        check_graph(compressed, graphs.random_matchings(6), 6)
    with pytest.raises(ValueError, match="wrong for good once a message is lost"):
        check_faults(compressed, graphs.ring(6), Faults(drop=0.1))
    with pytest.raises(ValueError, match="needs an undirected graph"):
        check_graph(accelerated, graphs.exponential(6), 6)
    with pytest.raises(ValueError, match=r"accelerated rounds with lazy = 0\.1 have some near -0\.8\. Set lazy = 0.5"):
        Gossip(rounds=2, chebyshev=True).around(cg.D2(lazy=0.1))
    for wrong in ({"rounds": 0}, {"gamma": 0.0}, {"gamma": 1.5}):
        with pytest.raises(ValueError, match="must be"):
            Gossip(**wrong)


def relayed(tree, x, steps):
    """RelaySum agent by agent: messages of the step before, in dicts."""
    sent = {}
    for k in range(steps):
        xk = x + k
        now = {}
        for i in range(tree.agents):
            for j in tree.neighbours(i).tolist():
                others = [sent[l, i] for l in tree.neighbours(i).tolist() if l != j and (l, i) in sent]
                now[i, j] = (xk[i] + sum(m for m, _ in others), 1 + sum(c for _, c in others))
        sent = now
        yield [
            (
                sum(sent[l, i][0] for l in tree.neighbours(i).tolist()),
                sum(sent[l, i][1] for l in tree.neighbours(i).tolist()),
            )
            for i in range(tree.agents)
        ]


@pytest.mark.parametrize("tree", [graphs.chain(5), graphs.star(6)], ids=name)
def test_relayed_sums_are_those_of_every_agent_once_the_diameter_has_passed(world, tree):
    w = world(tree)
    received, counts = w.x0.new_zeros(tree.agents, w.net().slots, 6), w.x0.new_zeros(tree.agents, w.net().slots)
    for step, expected in enumerate(relayed(tree, w.x0.numpy(), 8)):
        total, count = w.net(step).relay_(w.x0 + step, received, counts)
        for i, (m, c) in enumerate(expected):
            np.testing.assert_allclose(total[i].numpy(), m, atol=1e-12)
            assert float(count[i]) == c
    assert count[:, 0].tolist() == [tree.agents - 1] * tree.agents
    assert w.traffic.by_kind() == {"model": 8 * tree.messages * 7 * 8}


@pytest.mark.slow
@pytest.mark.parametrize("seed", [0, 1])
def test_four_bits_and_two_accelerated_rounds_close_the_gap_of_a_ring_of_forty(seed):
    """At a quarter of the bytes of one exact round, the worst agent is as good as on a fully connected graph."""
    path = Path(__file__).parents[2] / "examples" / "digits-compressed.toml"
    experiment = read(path, [f"seed={seed}", "training.threads=1"])
    compressed, exact = (replace(experiment, gossip=gossip) for gossip in (experiment.gossip, Gossip()))
    record, plain = ([*one.start()][-1] for one in (compressed, exact))
    parameters = 64 * 32 + 32 + 32 * 10 + 10
    assert record.bytes_sent == 300 * 2 * 80 * (4 * -(-parameters // 8) + 8)
    assert plain.bytes_sent == 300 * 80 * 4 * parameters
    assert record.bytes_sent < 0.26 * plain.bytes_sent
    assert record.accuracy > 0.958
    assert min(record.agent_accuracy) > 0.95
    assert min(record.agent_accuracy) > min(plain.agent_accuracy) + 0.02


@pytest.mark.parametrize("codec", [None, Quantised(3), TopK(0.01), RandomK(0.03), ScaledSign(per_tensor=True)], ids=str)
def test_the_forecast_of_bytes_is_what_is_counted(codec):
    """Without knowing rounds or codecs: by trial steps with small models."""
    algorithm, sizes = Gossip(codec, rounds=3, gamma=0.5).around(GradientTracking()), (501, 7, 260)
    cost = count_step_cost(algorithm, graphs.ring(5), sizes, torch.float32)
    each = 4 * sum(sizes)
    if codec is not None:
        each = sum(part.nbytes for part in codec.encode(torch.randn(1, sum(sizes)), sizes))
    assert cost.bytes_by_kind == {kind: 3 * 10 * each for kind in ("model", "tracker")}


@pytest.mark.parametrize("make", [lambda: Gossip(rounds=1.5), lambda: Gossip(local_steps=2.5), lambda: KGT(2.5)])
def test_a_part_of_a_round_or_of_a_local_step_is_refused(make):
    with pytest.raises(ValueError, match=r"must be a whole number of at least 1; found (1|2)\.5"):
        make()
