"""Every further method equals its rule written with dense matrices, as its paper has it."""

import numpy as np
import pytest
import torch

from crossgrad import graphs
from crossgrad._training.validate import check_graph
from crossgrad.algorithms import (
    D2,
    DPMSGD,
    DPSGD,
    EDM,
    GUT,
    KGT,
    LED,
    RULES,
    DecentLaM,
    Gossip,
    GradientTracking,
    GTAdam,
    MomentumTracking,
    QGAdam,
    QGDSGDm,
    TorchOptim,
    exact_diffusion,
)

STEPS, LR, BETA, MU = 6, 0.07, 0.8, 0.3

FIXED = [graphs.ring(1), graphs.ring(2), graphs.ring(5), graphs.fully_connected(4), graphs.star(5), graphs.chain(4)]
CHANGING = [graphs.random_matchings(5, seed=1), graphs.one_peer_exponential(8)]


def name(thing):
    return f"{thing.name}-{thing.agents}" if hasattr(thing, "agents") else thing.__name__


def dense(graph):
    return [graph.at(k).dense() for k in range(STEPS)]


def d2(W, x, grad):
    g = grad(x)
    x_before, x = x, W[0] @ (x - LR * g)
    yield x
    for P in W[1:]:
        g_before, g = g, grad(x)
        x_before, x = x, P @ (2 * x - x_before - LR * (g - g_before))
        yield x


def halved(W, x, grad):
    return d2([(np.eye(len(x)) + P) / 2 for P in W], x, grad)


def tracking_with_momentum(W, x, grad):
    y = g = grad(x)
    m = 0
    for number, P in enumerate(W):
        if number:
            g_before, g = g, grad(x)
            y = P @ y + g - g_before
        m = BETA * m + y
        x = P @ (x - LR * m)
        yield x


def momentum_tracking(W, x, grad):
    u = c = np.zeros_like(x)
    for P in W:
        u = BETA * u + grad(x)
        x, c = P @ x - LR * (u - c), P @ (c - u) + u
        yield x


def decentlam(W, x, grad):
    m = 0
    for P in W:
        m = BETA * m + (x - P @ (x - LR * grad(x))) / LR
        x = x - LR * m
        yield x


def quasi_global(W, x, grad):
    m = np.zeros_like(x)
    for P in W:
        x_next = P @ (x - LR * (BETA * m + grad(x)))
        m, x = (1 - MU) * m + MU * (x - x_next) / LR, x_next
        yield x


def quasi_global_nesterov(W, x, grad):
    m = np.zeros_like(x)
    for P in W:
        g = grad(x)
        x_next = P @ (x - LR * (g + BETA * (BETA * m + g)))
        m, x = (1 - MU) * m + MU * (x - x_next) / LR, x_next
        yield x


def quasi_global_adam(W, x, grad):
    m = v = np.zeros_like(x)
    for t, P in enumerate(W, start=1):
        g = grad(x)
        a = (0.9 * m + 0.1 * g) / (1 - 0.9**t)
        b = (0.99 * v + 0.01 * g**2) / (1 - 0.99**t)
        x_next = P @ (x - LR * a / (np.sqrt(b) + 1e-8))
        d = (x - x_next) / (np.linalg.norm(x - x_next, axis=1, keepdims=True) + 1e-8)
        m, v, x = 0.9 * m + 0.1 * d, 0.99 * v + 0.01 * d**2, x_next
        yield x


def gtadam(W, x, grad):
    y = g = grad(x)
    m = v = 0
    for number, P in enumerate(W):
        if number:
            g_before, g = g, grad(x)
            y = P @ y + g - g_before
        m, v = 0.9 * m + 0.1 * y, 0.99 * v + 0.01 * y**2
        x = P @ x - LR * m / np.sqrt(v + 1e-3)
        yield x


def gut(W, x, grad):
    y = g = np.zeros_like(x)
    for P in W:
        g_before, g = g, grad(P @ x)
        y = g - (P @ x - x) / LR + MU * (P @ y - g_before)
        x = x - LR * y
        yield x


def kgt(W, x, grad):
    c = np.zeros_like(x)
    for P in W:
        y = x
        for _ in range(3):
            y = y - LR * (grad(y) + c)
        z = (x - y) / (3 * LR)
        c = c - z + P @ z
        x = P @ (x - 3 * LR * 0.5 * z)
        yield x


def led(W, x, grad):
    y = np.zeros_like(x)
    for P in W:
        p = x
        for _ in range(3):
            p = p - LR * grad(p) - y / 3
        x = (P + np.eye(len(x))) @ p / 2
        y = y + p - x
        yield x


def local_sgd(W, x, grad):
    for P in W:
        x = x - LR * grad(x)
        x = x - LR * grad(x)
        x = P @ x - LR * grad(x)
        yield x


def local_momentum(W, x, grad):
    v = np.zeros_like(x)
    for P in W:
        v = BETA * v - LR * grad(x)
        x = x + v
        v = BETA * v - LR * grad(x)
        x = P @ x + v
        yield x


ANY_GRAPH = {
    tracking_with_momentum: GradientTracking(BETA),
    momentum_tracking: MomentumTracking(BETA),
    decentlam: DecentLaM(BETA),
    quasi_global: QGDSGDm(BETA, MU),
    quasi_global_nesterov: QGDSGDm(BETA, MU, nesterov=True),
    quasi_global_adam: QGAdam((0.9, 0.99)),
    gtadam: GTAdam((0.9, 0.99), eps=1e-3),
    kgt: KGT(local_steps=3, share=0.5),
    local_sgd: Gossip(local_steps=3).around(DPSGD()),
    local_momentum: Gossip(local_steps=2).around(DPMSGD(BETA)),
}
FIXED_GRAPH = {d2: D2(lazy=0), halved: exact_diffusion(), gut: GUT(MU), led: LED(local_steps=3)}


@pytest.mark.parametrize("graph", FIXED + CHANGING, ids=name)
@pytest.mark.parametrize("rule", ANY_GRAPH, ids=name)
def test_methods_on_any_graph_equal_their_matrix_form(world, rule, graph):
    equals(world(graph), ANY_GRAPH[rule], rule)


@pytest.mark.parametrize("graph", FIXED, ids=name)
@pytest.mark.parametrize("rule", FIXED_GRAPH, ids=name)
def test_methods_on_a_fixed_graph_equal_their_matrix_form(world, rule, graph):
    equals(world(graph), FIXED_GRAPH[rule], rule)


def equals(w, algorithm, rule):
    states = w.run(algorithm, STEPS, LR)
    for state, x in zip(states[1:], rule(dense(w.graph), w.x0.numpy(), w.grad.own), strict=True):
        np.testing.assert_allclose(state.x.numpy(), x, rtol=1e-11, atol=1e-11)


@pytest.mark.parametrize("rule", RULES.values(), ids=RULES)
def test_an_own_rule_is_torch_s_optimiser_and_then_the_average(world, rule):
    """One optimiser of torch per agent, which keeps its state from step to step."""
    w = world(graphs.ring(4))
    x = w.x0.clone()
    rows = [torch.nn.Parameter(row) for row in x]
    optimisers = [rule().optimiser([row], lr=LR) for row in rows]
    for state in w.run(TorchOptim(rule()), STEPS, LR)[1:]:
        for agent, (row, optimiser) in enumerate(zip(rows, optimisers, strict=True)):
            row.grad = torch.from_numpy(w.grad.at(row.detach().numpy(), agent))
            optimiser.step()
        average = torch.from_numpy(w.graph.dense()) @ torch.stack([row.detach() for row in rows])
        for row, mean in zip(rows, average, strict=True):
            row.data.copy_(mean)
        torch.testing.assert_close(state.x, average, rtol=1e-12, atol=1e-12)


EXACT = [
    D2(), exact_diffusion(), EDM(0.5), GradientTracking(0.5), MomentumTracking(0.5), KGT(local_steps=3),
    LED(local_steps=3), GTAdam(eps=0.1), GUT(1.0),
    *(Gossip(local_steps=3).around(tracking) for tracking in (GradientTracking(), MomentumTracking(), GTAdam(eps=0.1))),
]  # fmt: skip
BIASED = [DPSGD(), Gossip(local_steps=3).around(DPSGD()), DPMSGD(0.5), DecentLaM(0.5), QGDSGDm(0.5), GUT(0.5), QGAdam()]


@pytest.mark.parametrize("algorithm", EXACT, ids=repr)
def test_exact_methods_reach_the_optimum_of_unlike_quadratics(world, algorithm):
    w = world(graphs.ring(5))
    x = w.run(algorithm, 450, lr=0.05)[-1].x.numpy()
    assert np.abs(x - w.grad.optimum()).max() < 1e-8


@pytest.mark.parametrize("algorithm", BIASED, ids=repr)
def test_biased_methods_keep_a_bias_that_shrinks_with_the_step_size(world, algorithm):
    large, small = (bias(world(graphs.ring(5)), algorithm, lr, steps) for lr, steps in ((0.06, 250), (0.015, 1000)))
    assert large > 1e-3
    assert small < 0.7 * large


def test_adam_on_unlike_data_keeps_a_bias_that_no_step_size_removes(world):
    large, small = (bias(world(graphs.ring(5)), TorchOptim(), lr, steps) for lr, steps in ((0.04, 250), (0.01, 1000)))
    assert small > 0.7 * large > 0.1


def bias(w, algorithm, lr, steps):
    """How far the agents end from the optimum."""
    return np.abs(w.run(algorithm, steps, lr=lr)[-1].x.numpy() - w.grad.optimum()).max()


REFUSED = [
    (D2(lazy=0), graphs.ring(6), "D2 needs averaging weights with all eigenvalues above -0.3333"),
    (GUT(1.0), graphs.balanced_bipartite(6), "GUT needs averaging weights with all eigenvalues above -0.3333"),
    (LED(lazy=0), graphs.ring(6), "LED needs averaging weights with all eigenvalues above -0.3333"),
    (GUT(), graphs.random_matchings(6), "the same graph in every step"),
    (MomentumTracking(), graphs.read_edge_list, "rows and columns each sum to 1"),
]


@pytest.mark.parametrize(("algorithm", "graph", "sentence"), REFUSED, ids=lambda part: getattr(part, "name", None))
def test_a_graph_that_does_not_fit_is_refused_with_the_remedy(algorithm, graph, sentence, tmp_path):
    if not hasattr(graph, "agents"):
        edges = tmp_path / "one-way.txt"
        edges.write_text("0 1\n1 2\n2 0\n0 2\n")
        graph = graphs.read_edge_list(edges, directed=True)
    with pytest.raises(ValueError, match=sentence) as refusal:
        check_graph(algorithm, graph, graph.agents)
    assert "Use " in str(refusal.value) or "Set lazy = 0.5" in str(refusal.value)


@pytest.mark.parametrize("agents", [4, 6, 8])
def test_what_is_refused_would_not_settle(world, agents):
    """On an even ring without a share of the identity differences between agents never fade."""
    w = world(graphs.ring(agents))
    spread = [
        float((state.x - state.x.mean(dim=0)).abs().max())
        for state in (w.run(algorithm, 400, lr=1e-3)[-1] for algorithm in (D2(lazy=0), D2()))
    ]
    assert spread[0] > 10 * spread[1]
