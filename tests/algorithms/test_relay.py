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


def relay(graph, x, grad, steps, momentum):
    """Messages between named agents, as in the paper's Algorithm 1."""
    n, near, v = len(x), [graph.neighbours(j).tolist() for j in range(len(x))], np.zeros_like(x)
    m, c = {}, {}
    for _ in range(steps):
        v = momentum * v - LR * grad(x)
        y = x + v
        pairs = [(j, l) for j in range(n) for l in near[j]]
        m, c = (
            {(j, l): y[j] + sum(m.get((k, j), 0) for k in near[j] if k != l) for j, l in pairs},
            {(j, l): 1 + sum(c.get((k, j), 0) for k in near[j] if k != l) for j, l in pairs},
        )
        x = np.stack(
            [(y[j] * (n - sum(c[k, j] for k in near[j])) + sum(m[k, j] for k in near[j])) / n for j in range(n)]
        )
        yield x


@pytest.mark.parametrize("graph", TREES, ids=lambda g: f"{g.name}-{g.agents}")
@pytest.mark.parametrize("momentum", [0.0, 0.8])
def test_relaysgd_equals_algorithm_1(world, graph, momentum):
    w = world(graph)
    states = w.run(RelaySGD(momentum), 9, LR)[1:]
    for state, x in zip(states, relay(graph, w.x0.numpy(), w.grad.own, 9, momentum), strict=True):
        np.testing.assert_allclose(state.x.numpy(), x, rtol=1e-11, atol=1e-11)


def test_relaysgd_reaches_the_optimum_and_counts_everybody(world):
    w = world(graphs.binary_tree(7))
    end = w.run(RelaySGD(0.5), 300, lr=0.06)[-1]
    assert np.abs(end.x.numpy() - w.grad.optimum()).max() < 1e-8
    assert end.counts.sum(dim=1).tolist() == [6.0] * 7
    assert w.traffic.total == 300 * w.graph.messages * (6 + 1) * 8


def test_relaysgd_needs_a_tree_and_every_message():
    with pytest.raises(ValueError, match=r"must be a tree.*'ring' is none\. Use binary-tree.*spanning_tree\(graph\)"):
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
