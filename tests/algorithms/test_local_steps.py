"""Local steps around any algorithm."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from scipy.sparse import csr_array

from crossgrad import graphs
from crossgrad.algorithms import ALGORITHMS, BEER, D2, EDM, GUT, KGT, Gossip, MoTEF, Needs, RelaySGD
from crossgrad.codecs import Exact, Quantised, TopK
from crossgrad.graphs import Graph, GraphSequence

STEPS, H = 3, 3


def sometimes(graph):
    """The graph in every H-th step, and nobody hears anybody in the others."""
    nobody = Graph(csr_array(np.eye(graph.agents)), "nobody", part_of_sequence=True)
    return GraphSequence("sometimes", graph.agents, H, lambda k: graph if k % H == H - 1 else nobody, lambda: graph)


def bears(name):
    made = ALGORITHMS[name]()
    return Needs.FIXED not in made.needs and not hasattr(made, "local_steps")


@pytest.mark.parametrize("name", [name for name in ALGORITHMS if bears(name)])
def test_local_steps_are_steps_in_which_nobody_hears_anybody(world, name):
    graph, algorithm = graphs.ring(5), ALGORITHMS[name]()
    local = Gossip(local_steps=H).around(algorithm)
    every, some = world(sometimes(graph)), world(graph)
    expected, found = every.run(algorithm, H * STEPS), some.run(local, STEPS)
    for step in range(STEPS + 1):
        assert all(map(torch.equal, expected[H * step], found[step]))
    assert every.traffic.total == some.traffic.total > 0
    assert local.pace(5) == H


FIXED = [name for name in ALGORITHMS if Needs.FIXED in ALGORITHMS[name]().needs and name != "led"]


@pytest.mark.parametrize("name", FIXED)
def test_what_needs_the_same_weights_in_every_step_takes_the_sum_of_its_local_gradients(world, name):
    """Written out: H plain steps of one's own, and the method's step along what they came to."""
    w, algorithm = world(graphs.chain(5)), ALGORITHMS[name]()
    if hasattr(algorithm, "codec"):
        algorithm = replace(algorithm, codec=TopK(0.5))  # rounding at random would follow the last bits
    found = w.run(Gossip(local_steps=H).around(algorithm), STEPS, 0.05)
    sent, gradients = w.traffic.total, w.grad.calls

    def local(x, active=None):
        y = x.numpy().copy()
        for _ in range(H):
            y = y - 0.05 * w.grad.own(y)
        return torch.from_numpy((x.numpy() - y) / 0.05)

    local.sizes = w.grad.sizes
    state, w.traffic = algorithm.init(w.x0.clone(), w.net()), world(graphs.chain(5)).traffic
    for step in range(STEPS):
        state = algorithm.step(state, 0.05, local, w.net(step))
        torch.testing.assert_close(found[step + 1].x, state.x, rtol=1e-9, atol=1e-9)
    assert gradients == H * STEPS
    assert sent == w.context.traffic.total / 2 > 0


EXACT = [D2(), EDM(0.5), RelaySGD(), BEER(Exact(), gamma=1.0), MoTEF(Exact(), gamma=1.0, share=0.5), GUT(1.0)]


@pytest.mark.parametrize("algorithm", EXACT, ids=repr)
def test_their_local_steps_have_the_bias_of_the_sums(world, algorithm):
    """The sums vanish at the optimum of quadratics with Hessians M_j = (I - (I - lr A_j)^H) / lr."""
    w, lr = world(graphs.star(4)), 0.08
    x = w.run(Gossip(local_steps=H).around(algorithm), 450, lr)[-1].x.numpy()
    eye = np.eye(w.grad.A.shape[1])
    M = np.stack([(eye - np.linalg.matrix_power(eye - lr * A, H)) / lr for A in w.grad.A])
    expected = np.linalg.solve(M.sum(axis=0), np.einsum("jab,jb->a", M, w.grad.b))
    assert np.abs(x - expected).max() < 1e-8
    assert np.abs(expected - w.grad.optimum()).max() > 1e-3


def test_local_steps_of_its_own_are_not_counted_twice():
    with pytest.raises(ValueError, match=r"KGT has its own, beside those of gossip\. Set algorithm\.local_steps"):
        Gossip(local_steps=2).around(KGT())


def test_messages_of_local_steps_can_be_compressed(world):
    """CHOCO's rule with local steps, of which only the last sends: the mean is that of plain local steps."""
    one, two = world(graphs.ring(5)), world(graphs.ring(5))
    start = one.x0.clone()
    algorithm = ALGORITHMS["dpsgd"]()
    coded = one.run(Gossip(Quantised(4), gamma=0.5, local_steps=2).around(algorithm), 1, x0=start)[-1].x
    plain = two.run(Gossip(local_steps=2).around(algorithm), 1, x0=start)[-1].x
    torch.testing.assert_close(coded.mean(dim=0), plain.mean(dim=0), rtol=1e-12, atol=1e-12)
    assert one.traffic.total == one.graph.messages * (4 * 1 + 2 * 8)
