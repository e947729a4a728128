"""Every algorithm equals its rule written with dense matrices, as the literature writes it."""

import numpy as np
import pytest
import torch
from daqp import solve as daqp_solve

from crossgrad import graphs
from crossgrad.algorithms import CGA, DPMSGD, DPSGD, EDM, SGP, GradientTracking, QGDSGDm, mean_cga, released_cga
from crossgrad.codecs.codec import ScaledSign

STEPS, LR, BETA = 6, 0.07, 0.8

DOUBLY = [
    graphs.ring(1), graphs.ring(2), graphs.ring(5), graphs.fully_connected(4), graphs.bipartite(6), graphs.star(5),
    graphs.torus(6), graphs.chain(4), graphs.erdos_renyi(7, seed=1),
]  # fmt: skip
CHANGING = [graphs.random_matchings(6, seed=3), graphs.random_matchings(5, seed=1)]
DIRECTED = [graphs.exponential(6), graphs.one_peer_exponential(8)]


def name(graph):
    return f"{graph.name}-{graph.agents}"


def dense(graph):
    return [graph.at(k).dense() for k in range(STEPS)]


def dpsgd(w, grad):
    x = w.x0.numpy()
    for W in dense(w.graph):
        x = W @ x - LR * grad(x)
        yield x


def dpmsgd(w, grad):
    x = w.x0.numpy()
    v = np.zeros_like(x)
    for W in dense(w.graph):
        v = BETA * v - LR * grad(x)
        x = W @ x + v
        yield x


def sgp(w, grad):
    x, weight = w.x0.numpy(), np.ones((w.graph.agents, 1))
    v = np.zeros_like(x)
    for W in dense(w.graph):
        v = BETA * v - LR * grad(x)
        u, weight = W @ (weight * x + v), W @ weight
        x = u / weight
        yield x


def quasi_global(w, grad):
    x = w.x0.numpy()
    m = np.zeros_like(x)
    for W in dense(w.graph):
        x_next = W @ (x - LR * (BETA * m + grad(x)))
        m = 0.9 * m + 0.1 * (x - x_next) / LR
        x = x_next
        yield x


def gradient_tracking(w, grad):
    x = w.x0.numpy()
    y = g = grad(x)
    for number, W in enumerate(dense(w.graph)):
        if number:
            g_next = grad(x)
            y, g = W @ y + g_next - g, g_next
        x = W @ (x - LR * y)
        yield x


def edm(w, grad):
    """X+ = W(2X - X- - eta (M - M-)), first step W(X - eta M), with W = (I + Pi) / 2."""
    W = (np.eye(w.graph.agents) + w.graph.dense()) / 2
    x, m = w.x0.numpy(), np.zeros_like(w.x0.numpy())
    x_before = m_before = None
    for _ in range(STEPS):
        m = BETA * m + (1 - BETA) * grad(x)
        inner = x - LR * m if x_before is None else 2 * x - x_before - LR * (m - m_before)
        x_before, m_before = x, m
        x = W @ inner
        yield x


@pytest.mark.parametrize("graph", DOUBLY + CHANGING + DIRECTED, ids=name)
@pytest.mark.parametrize(
    ("algorithm", "rule"),
    [
        (DPSGD(), dpsgd),
        (DPMSGD(BETA), dpmsgd),
        (SGP(BETA), sgp),
        (QGDSGDm(BETA), quasi_global),
        (GradientTracking(), gradient_tracking),
    ],
    ids=["dpsgd", "dpmsgd", "sgp", "qg-dsgdm", "gradient-tracking"],
)
def test_gossip_algorithms_equal_their_matrix_form(world, graph, algorithm, rule):
    w = world(graph)
    states = w.run(algorithm, STEPS, LR)
    for state, x in zip(states[1:], rule(w, w.grad.own), strict=True):
        np.testing.assert_allclose(state.x.numpy(), x, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("graph", DOUBLY, ids=name)
def test_edm_equals_its_two_step_form(world, graph):
    w = world(graph)
    for state, x in zip(w.run(EDM(BETA), STEPS, LR)[1:], edm(w, w.grad.own), strict=True):
        np.testing.assert_allclose(state.x.numpy(), x, rtol=1e-12, atol=1e-12)


def test_sgp_averages_on_a_directed_graph_that_is_only_column_stochastic(world, tmp_path):
    edges = tmp_path / "one-way.txt"
    edges.write_text("0 1\n1 2\n2 3\n3 0\n0 2\n")
    graph = graphs.read_edge_list(edges, directed=True)
    assert not graph.row_stochastic
    w = world(graph)
    states = w.run(SGP(), 400, lr=0.0)
    np.testing.assert_allclose(states[-1].x.numpy(), np.tile(w.x0.mean(dim=0), (4, 1)), atol=1e-10)
    for state in states:
        assert float(state.w.sum()) == pytest.approx(4, rel=1e-12)


def project(g, G, lower=0.0):
    """argmin |g + G'u| over u >= lower, by trying every set of rows with u > lower; the nearest point of a cone for 0.

    Rows of compressed gradients are orthogonal or equal up to rounding, where SciPy's nnls can return another point.
    """
    g = g + lower * G.sum(axis=0)
    nearest = g
    for active in range(1, 2 ** len(G)):
        rows = G[[bool(active >> k & 1) for k in range(len(G))]]
        u = np.linalg.lstsq(rows.T, -g, rcond=None)[0]
        point = g + rows.T @ u
        if u.min() >= -1e-9 and np.linalg.norm(point) < np.linalg.norm(nearest):
            nearest = point
    if len(G) and lower == 0.0:
        nothing, ends = np.zeros(len(G)), np.full(len(G), 1e30)
        x, _, flag, _ = daqp_solve(np.eye(len(g)), -g, np.ascontiguousarray(G), ends, nothing, nothing.astype(np.int32))
        assert flag > 0
        np.testing.assert_allclose(nearest, x, atol=1e-7)
    return nearest


def cga(w, steps, projected):
    """Algorithm 1, agent by agent."""
    x = w.x0.numpy()
    v = np.zeros_like(x)
    for k in range(steps):
        graph = w.graph.at(k)
        W = graph.dense()
        direction = np.stack(
            [
                projected(
                    w.grad.at(x[j], j), [w.grad.at(x[j], l) for l in graph.neighbours(j)], W[j], graph.neighbours(j), j
                )
                for j in range(len(x))
            ]
        )
        v = BETA * v - LR * direction
        x = W @ x + v
        yield x


@pytest.mark.parametrize("graph", DOUBLY + CHANGING, ids=name)
def test_cga_equals_algorithm_1_with_another_solver(world, graph):
    w = world(graph)

    def projected(g, G, _pi, _near, _j):
        return project(g, np.array(G).reshape(-1, len(g)))

    for state, x in zip(w.run(CGA(BETA), STEPS, LR)[1:], cga(w, STEPS, projected), strict=True):
        np.testing.assert_allclose(state.x.numpy(), x, rtol=1e-6, atol=1e-7)


@pytest.mark.parametrize("graph", DOUBLY + CHANGING, ids=name)
def test_mean_cross_gradient_equals_the_weighted_mean(world, graph):
    w = world(graph)

    def projected(g, G, pi, near, j):
        return pi[j] * g + sum(pi[l] * gl for l, gl in zip(near, G, strict=True))

    for state, x in zip(w.run(mean_cga(BETA), STEPS, LR)[1:], cga(w, STEPS, projected), strict=True):
        np.testing.assert_allclose(state.x.numpy(), x, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("graph", [graphs.ring(5), graphs.bipartite(5), graphs.fully_connected(4)], ids=name)
def test_the_released_variant_equals_its_own_rule(world, graph):
    """A QP per tensor on gradients times pi with u >= 0.5; m = beta m + g~; x = w - lr (g~ + beta m)."""
    w = world(graph)
    W, x = graph.dense(), w.x0.numpy()
    m = np.zeros_like(x)
    states = w.run(released_cga(BETA), STEPS, LR)
    for state in states[1:]:
        direction = np.zeros_like(x)
        for j in range(len(x)):
            near = graph.neighbours(j)
            g = W[j, j] * w.grad.at(x[j], j)
            G = np.stack([W[j, l] * w.grad.at(x[j], l) for l in near])
            start = 0
            for size in w.grad.sizes:
                piece = slice(start, start + size)
                direction[j, piece] = project(g[piece], G[:, piece], lower=0.5)
                start += size
        m = BETA * m + direction
        x = W @ x - LR * (direction + BETA * m)
        np.testing.assert_allclose(state.x.numpy(), x, rtol=1e-6, atol=1e-7)


@pytest.mark.parametrize("per_tensor", [False, True])
@pytest.mark.parametrize("graph", [*DOUBLY[1:], *CHANGING], ids=name)
def test_compcga_equals_algorithm_2(world, graph, per_tensor):
    """One error memory per ordered pair and one for the own gradient, also where neighbours change."""
    w = world(graph)
    agents, size = w.x0.shape
    memory = np.zeros((agents, agents, size))
    pieces = np.split(np.arange(size), np.cumsum(w.grad.sizes)[:-1]) if per_tensor else [np.arange(size)]

    def compressed(j, l, g):
        p = g + memory[j, l]
        delta = np.zeros(size)
        for piece in pieces:
            delta[piece] = np.abs(p[piece]).sum() / len(piece) * np.where(p[piece] >= 0, 1.0, -1.0)
        memory[j, l] = p - delta
        return delta

    def projected(g, G, _pi, near, j):
        G = [compressed(j, l, gl) for l, gl in zip(near, G, strict=True)]
        return project(compressed(j, j, g), np.array(G).reshape(-1, size))

    algorithm = CGA(BETA, codec=ScaledSign(per_tensor=per_tensor))
    for state, x in zip(w.run(algorithm, STEPS, LR)[1:], cga(w, STEPS, projected), strict=True):
        np.testing.assert_allclose(state.x.numpy(), x, rtol=1e-6, atol=1e-7)


def test_all_states_stay_in_float64(world):
    for state in world(graphs.ring(4)).run(CGA(BETA, codec=ScaledSign()), 2)[-1]:
        assert state.dtype == torch.float64
