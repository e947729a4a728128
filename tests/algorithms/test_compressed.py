"""Compressed methods and NGC equal their rules written with dense matrices; codecs are as small as they say."""

import numpy as np
import pytest
import torch

from crossgrad import graphs
from crossgrad._training.validate import check_faults
from crossgrad.algorithms import BEER, CHOCO, NGC, AdaGossip, MoTEF, comp_ngc, mean_cga
from crossgrad.codecs import Exact, Quantised, RandomK, ScaledSign, TopK
from crossgrad.graphs.faults import Faults

STEPS, LR, GAMMA, SIZE = 6, 0.07, 0.4, 6
GRAPHS = [graphs.ring(1), graphs.ring(2), graphs.ring(5), graphs.star(5), graphs.fully_connected(4)]
CODECS = [Exact(), TopK(0.4), ScaledSign(feedback=False)]  # without chance: rounding of the last bit changes nothing


def name(thing):
    return f"{thing.name}-{thing.agents}" if hasattr(thing, "agents") else repr(thing)


def arrives(codec):
    """What arrives of a message, row by row."""

    def Q(p):
        rows = torch.from_numpy(np.ascontiguousarray(p))
        return torch.cat([codec.decode(codec.encode(row[None], (4, 2)), (4, 2)) for row in rows]).numpy()

    return Q


def choco(L, x, grad, Q):
    hat = np.zeros_like(x)
    for _ in range(STEPS):
        y = x - LR * grad(x)
        hat = hat + Q(y - hat)
        x = y + GAMMA * L @ hat
        yield x


def choco_with_momentum(L, x, grad, Q):
    hat, v = np.zeros_like(x), 0
    for _ in range(STEPS):
        v = 0.7 * v - LR * grad(x)
        hat = hat + Q(x + v - hat)
        x = x + v + GAMMA * L @ hat
        yield x


def adagossip(L, x, grad, Q):
    hat, u = np.zeros_like(x), 0
    for t in range(1, STEPS + 1):
        y = x - LR * grad(x)
        hat = hat + Q(y - hat)
        r = L @ hat
        u = 0.9 * u + 0.1 * r**2
        x = y + np.minimum(1, GAMMA / (np.sqrt(u / (1 - 0.9**t)) + 1e-8)) * r
        yield x


def motef(L, x, grad, Q, share=0.3):
    h = g = np.zeros_like(x)
    m = v = grad(x)
    for _ in range(STEPS):
        x = x + GAMMA * L @ h - LR * v
        yield x
        h = h + Q(x - h)
        m_next = (1 - share) * m + share * grad(x)
        v, m = v + GAMMA * L @ g + m_next - m, m_next
        g = g + Q(v - g)


def beer(L, x, grad, Q):
    return motef(L, x, grad, Q, share=1.0)


RULES = {
    choco: lambda codec: CHOCO(codec, GAMMA),
    choco_with_momentum: lambda codec: CHOCO(codec, GAMMA, momentum=0.7),
    adagossip: lambda codec: AdaGossip(codec, GAMMA, beta=0.9),
    beer: lambda codec: BEER(codec, GAMMA),
    motef: lambda codec: MoTEF(codec, GAMMA, share=0.3),
}


@pytest.mark.parametrize("codec", CODECS, ids=name)
@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.__name__)
def test_compressed_methods_equal_their_matrix_form(world, rule, codec):
    for graph in GRAPHS:
        w = world(graph)
        L = graph.dense() - np.eye(graph.agents)
        states = w.run(RULES[rule](codec), STEPS, LR)[1:]
        for state, x in zip(states, rule(L, w.x0.numpy(), w.grad.own, arrives(codec)), strict=True):
            np.testing.assert_allclose(state.x.numpy(), x, rtol=1e-9, atol=1e-9)


EXACT = [BEER(Quantised(4)), BEER(TopK(0.5), 0.3), MoTEF(Quantised(6), share=0.5)]


@pytest.mark.parametrize("algorithm", EXACT, ids=repr)
def test_compressed_tracking_reaches_the_optimum_of_unlike_quadratics(world, algorithm):
    w = world(graphs.ring(5))
    x = w.run(algorithm, 340, lr=0.06)[-1].x.numpy()
    assert np.abs(x - w.grad.optimum()).max() < 1e-8


def test_choco_keeps_the_bias_of_dpsgd(world):
    w = world(graphs.ring(5))
    assert np.abs(w.run(CHOCO(Quantised(8)), 150, lr=0.1)[-1].x.numpy() - w.grad.optimum()).max() > 1e-3


def test_copies_are_what_neighbours_have_heard(world):
    w = world(graphs.star(5))
    state = w.run(CHOCO(TopK(0.3)), 8)[-1]
    torch.testing.assert_close(state.average, torch.from_numpy(w.graph.dense()) @ state.hat, rtol=1e-12, atol=1e-12)


BYTES = [
    (CHOCO(Quantised(4)), 4 * 1 + 2 * 8),
    (CHOCO(Quantised(3)), 3 * 1 + 2 * 8),
    (CHOCO(Quantised(8)), 6 + 2 * 8),
    (CHOCO(TopK(0.5)), 3 * 8 + 1),
    (CHOCO(RandomK(0.5)), 3 * 8 + 4),
    (CHOCO(ScaledSign(feedback=False)), 1 + 8),
    (BEER(Quantised(2)), 2 * (2 * 1 + 2 * 8)),
    (NGC(), 2 * 6 * 8),
    (NGC(alpha=0), 6 * 8),
    (comp_ngc(), 6 * 8 + 1 + 8),
]


@pytest.mark.parametrize(("algorithm", "each"), BYTES, ids=repr)
def test_bytes_per_edge_and_step_are_those_of_the_formula(world, algorithm, each):
    """6 numbers of 8 bytes in a model."""
    w = world(graphs.ring(5))
    w.run(algorithm, 3)
    assert w.traffic.total == 3 * w.graph.messages * each


@pytest.mark.parametrize("graph", [*GRAPHS, graphs.random_matchings(5, seed=1)], ids=name)
def test_ngc_equals_its_rule_with_and_without_the_second_message(world, graph):
    w = world(graph)
    for alpha in (0, 1):
        x, v = w.x0.numpy(), np.zeros_like(w.x0.numpy())
        for step, state in enumerate(w.run(NGC(alpha, 0.7), STEPS, LR)[1:]):
            W = graph.at(step).dense()
            near = range(len(x))
            crossed = [[w.grad.at(x[j], l) if alpha else w.grad.at(x[l], j) for l in near] for j in near]
            v = 0.7 * v - LR * np.einsum("jl,jld->jd", W, np.array(crossed))
            x = W @ x + v
            np.testing.assert_allclose(state.x.numpy(), x, rtol=1e-11, atol=1e-11)


def test_ngc_with_the_second_message_is_the_mean_cross_gradient(world):
    w = world(graphs.star(5))
    ours, theirs = (w.run(algorithm, 8)[-1].x for algorithm in (NGC(momentum=0.9), mean_cga(0.9)))
    torch.testing.assert_close(ours, theirs, rtol=1e-12, atol=1e-13)


def test_methods_with_copies_refuse_faults_and_say_why():
    with pytest.raises(ValueError, match=r"wrong for good once a message is lost .* Run it without faults"):
        check_faults(CHOCO(), graphs.ring(5), Faults(drop=0.1))


@pytest.mark.parametrize("bits", range(1, 9))
def test_quantised_numbers_are_right_on_average_and_never_off_by_more_than_a_level(bits):
    p = torch.randn(1, 4001, generator=torch.Generator().manual_seed(bits), dtype=torch.float64)
    q = [codec.decode(codec.encode(p, [4001]), [4001]) for codec in (Quantised(bits, seed) for seed in range(200))]
    level = float(p.max() - p.min()) / (2**bits - 1)
    assert max(float((one - p).abs().max()) for one in q) <= level * (1 + 1e-9)
    assert float((torch.stack(q).mean(dim=0) - p).abs().max()) < 0.25 * level
    assert torch.equal(q[0], Quantised(bits, 0).decode(Quantised(bits, 0).encode(p, [4001]), [4001]))


@pytest.mark.parametrize("codec", [Quantised(3), TopK(0.1), TopK(0.01), RandomK(0.1), ScaledSign()], ids=repr)
@pytest.mark.parametrize("size", [1, 7, 64, 1000])
def test_a_message_does_not_depend_on_those_beside_it(codec, size):
    p = torch.randn(3, size, generator=torch.Generator().manual_seed(size))
    together = codec.decode(codec.encode(p, [size]), [size])
    for row, whole in zip(p, together, strict=True):
        assert torch.equal(codec.decode(codec.encode(row[None], [size]), [size])[0], whole)
    assert together.dtype == p.dtype
    nothing = codec.decode(codec.encode(torch.zeros(1, size), [size]), [size])
    assert not nothing.any()


def test_the_largest_numbers_travel_and_random_ones():
    p = torch.randn(2, 50, generator=torch.Generator().manual_seed(1))
    top = TopK(0.2).decode(TopK(0.2).encode(p, [50]), [50])
    assert [(row != 0).sum().item() for row in top] == [10, 10]
    for row, kept in zip(p, top, strict=True):
        assert torch.equal(kept[kept != 0], row[row.abs() >= row.abs().sort().values[-10]])
    drawn = [RandomK(0.2, seed).decode(RandomK(0.2, seed).encode(p, [50]), [50]) != 0 for seed in range(200)]
    share = torch.stack(drawn).double().mean(dim=0)
    assert float((share - 0.2).abs().max()) < 0.15
