"""RelaySGD on trees, and gossip options in an experiment."""

import numpy as np
import pytest

from crossgrad import graphs
from crossgrad._training.validate import check_faults, check_graph
from crossgrad.algorithms import Gossip, RelaySGD
from crossgrad.codecs import Quantised
from crossgrad.experiments.files import parse, to_toml
from crossgrad.graphs.faults import Faults

LR = 0.05
TREES = [graphs.ring(1), graphs.ring(2), graphs.chain(5), graphs.star(6), graphs.binary_tree(7)]


class Tree:
    """Messages between named agents, as in the paper's Algorithm 1."""

    def __init__(self, near):
        self.near, self.m, self.c = near, {}, {}

    def relay(self, y):
        n, near, m, c = len(y), self.near, self.m, self.c
        pairs = [(j, l) for j in range(n) for l in near[j]]
        self.m = m = {(j, l): y[j] + sum(m.get((k, j), 0) for k in near[j] if k != l) for j, l in pairs}
        self.c = c = {(j, l): 1 + sum(c.get((k, j), 0) for k in near[j] if k != l) for j, l in pairs}
        return np.stack(
            [(y[j] * (n - sum(c[k, j] for k in near[j])) + sum(m[k, j] for k in near[j])) / n for j in range(n)]
        )


def relay(trees, x, grad, steps, momentum, nesterov=False):
    """Each tree relays the same share of the model's numbers."""
    v = np.zeros_like(x)
    for _ in range(steps):
        g = grad(x)
        v = momentum * v + g
        y = x - LR * (g + momentum * v if nesterov else v)
        x = np.hstack([tree.relay(part) for tree, part in zip(trees, np.array_split(y, len(trees), 1), strict=True)])
        yield x


def binary(n, mirrored=False):
    """Who is near to whom in a binary tree, or in the one whose agents are numbered from the other end."""
    near = {j: [] for j in range(n)}
    for j in range(1, n):
        pair = (j, (j - 1) // 2) if not mirrored else (n - 1 - j, n - 1 - (j - 1) // 2)
        near[pair[0]].append(pair[1])
        near[pair[1]].append(pair[0])
    return near


@pytest.mark.parametrize("graph", TREES, ids=lambda g: f"{g.name}-{g.agents}")
@pytest.mark.parametrize("options", [{}, {"momentum": 0.8}, {"momentum": 0.8, "nesterov": True}], ids=repr)
def test_relaysgd_equals_algorithm_1(world, graph, options):
    w, tree = world(graph), Tree([graph.neighbours(j).tolist() for j in range(graph.agents)])
    expected = relay([tree], w.x0.numpy(), w.grad.own, 9, **{"momentum": 0.0} | options)
    for state, x in zip(w.run(RelaySGD(**options), 9, LR)[1:], expected, strict=True):
        np.testing.assert_allclose(state.x.numpy(), x, rtol=1e-11, atol=1e-11)


@pytest.mark.parametrize("agents", [3, 4, 6, 7, 12])
def test_on_a_double_binary_tree_each_tree_relays_half_of_the_model(world, agents):
    w, trees = world(graphs.double_binary_tree(agents)), [Tree(binary(agents)), Tree(binary(agents, mirrored=True))]
    for state, x in zip(w.run(RelaySGD(0.8), 9, LR)[1:], relay(trees, w.x0.numpy(), w.grad.own, 9, 0.8), strict=True):
        np.testing.assert_allclose(state.x.numpy(), x, rtol=1e-11, atol=1e-11)
    assert w.traffic.total == 9 * 2 * 2 * (agents - 1) * (3 + 1) * 8  # on both ways of the edges of two trees


def test_relaysgd_reaches_the_optimum_on_a_double_binary_tree(world):
    w = world(graphs.double_binary_tree(7))
    end = w.run(RelaySGD(), 400, lr=0.1)[-1]
    assert np.abs(end.x.numpy() - w.grad.optimum()).max() < 1e-8
    assert end.counts.chunk(2, dim=1)[1].sum(dim=1).tolist() == [6.0] * 7


def test_relaysgd_reaches_the_optimum_and_counts_everybody(world):
    w = world(graphs.binary_tree(7))
    end = w.run(RelaySGD(0.5), 300, lr=0.06)[-1]
    assert np.abs(end.x.numpy() - w.grad.optimum()).max() < 1e-8
    assert end.counts.sum(dim=1).tolist() == [6.0] * 7
    assert w.traffic.total == 300 * w.graph.messages * (6 + 1) * 8


def test_relaysgd_needs_a_tree_and_every_message():
    with pytest.raises(
        ValueError,
        match=r"must be a tree.*'ring' is not one\. Use binary-tree, double-binary-tree.*spanning_tree\(graph\)",
    ):
        check_graph(RelaySGD(), graphs.ring(5), 5)
    check_graph(RelaySGD(), graphs.spanning_tree(graphs.ring(5)), 5)
    with pytest.raises(ValueError, match="once a message is lost"):
        check_faults(RelaySGD(), graphs.chain(5), Faults(drop=0.1))


def test_gossip_is_one_table_of_an_experiment():
    text = "model='linear'\ngraph='ring'\nalgorithm='edm'\npartition='class'\ntraining.steps=2\n"
    one = parse(text, ["gossip={codec={name='quantised', bits=3}, rounds=2, chebyshev=true}"])
    assert one.gossip == Gossip(Quantised(3), rounds=2, chebyshev=True)
    assert parse(to_toml(one)) == one
    assert one.method.algorithm == one.algorithm
    assert parse(text).method == one.algorithm
