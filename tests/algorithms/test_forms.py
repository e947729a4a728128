"""The other forms of rules that have several: Nesterov's momentum, NGC's means and momenta, local steps drawn anew."""

import numpy as np
import pytest

from crossgrad import graphs
from crossgrad.algorithms import DPMSGD, NGC, SGP, SwarmSGD
from crossgrad.codecs import Exact, ScaledSign

STEPS, LR, BETA = 6, 0.07, 0.8


def equals(states, expected):
    for state, x in zip(states[1:], expected, strict=True):
        np.testing.assert_allclose(state.x.numpy(), x, rtol=1e-11, atol=1e-11)


@pytest.mark.parametrize("graph", [graphs.ring(5), graphs.star(5), graphs.exponential(6)], ids=lambda g: g.name)
def test_nesterov_s_form_of_gossip_looks_ahead_along_the_velocity(world, graph):
    w, W = world(graph), graph.dense()

    def rule(averaged_first):
        x, v = w.x0.numpy(), 0
        for _ in range(STEPS):
            g = w.grad.own(x)
            v = BETA * v + g
            step = LR * (g + BETA * v)
            x = W @ x - step if averaged_first else W @ (x - step)
            yield x

    equals(w.run(DPMSGD(BETA, nesterov=True), STEPS, LR), rule(True))
    equals(w.run(SGP(BETA, nesterov=True), STEPS, LR), rule(False))  # doubly stochastic: weights stay 1


def signs(p):
    return np.abs(p).mean() * np.where(p >= 0, 1.0, -1.0)


@pytest.mark.parametrize("codec", [Exact(), ScaledSign()], ids=["exact", "signs"])
@pytest.mark.parametrize("alpha", [0, 0.3, 1])
@pytest.mark.parametrize("form", ["heavy ball", "nesterov", "quasi-global"])
@pytest.mark.parametrize("graph", [graphs.ring(5), graphs.star(4)], ids=lambda g: g.name)
def test_ngc_in_all_its_forms_equals_its_rule(world, graph, form, alpha, codec):
    """Only what neighbours send back is compressed, with an error memory for each pair."""
    w, W, n = world(graph), graph.dense(), graph.agents
    owed = {(j, l): 0 for j in range(n) for l in range(n)}

    def sent(j, l, g):
        p = g + owed[j, l]
        arrives = p if codec == Exact() else signs(p)
        owed[j, l] = p - arrives
        return arrives

    def direction(x, j):
        near = np.flatnonzero(W[j])
        back = sum(W[j, l] * sent(j, l, w.grad.at(x[j], l)) for l in near) if alpha else 0
        return alpha * back + (1 - alpha) * sum(W[j, l] * w.grad.at(x[l], j) for l in near)

    def rule():
        x, v, before = w.x0.numpy(), 0, None
        for _ in range(STEPS):
            g, average = np.stack([direction(x, j) for j in range(n)]), W @ x
            if form == "quasi-global":
                v = BETA * v + (0 if before is None else (1 - BETA) * (before - average) / LR)
                x, before = average - LR * (BETA * v + g), average
            else:
                v = BETA * v + g
                x = average - LR * (g + BETA * v if form == "nesterov" else v)
            yield x

    algorithm = NGC(alpha, BETA, form == "nesterov", form == "quasi-global", codec)
    equals(w.run(algorithm, STEPS, LR), rule())


@pytest.mark.parametrize("matching", [False, True])
def test_swarm_takes_the_number_of_local_steps_that_each_agent_drew(world, matching):
    w, algorithm = world(graphs.ring(6)), SwarmSGD(matching, local_steps=3, geometric=True)
    x = w.x0.numpy()
    unlike = set()
    for step, state in enumerate(w.run(algorithm, 8, LR)[1:]):
        u = w.net(step).draw("local steps").numpy()
        H = np.maximum(1, np.ceil(np.log(1 - u) / np.log(1 - 1 / 3))).astype(int)  # P(H > h) = (1 - 1/3)^h
        awake, pairs = w.net(step).meet(single=not matching)
        y = x.copy()
        for j in np.flatnonzero(awake.numpy()):
            for _ in range(H[j]):
                y[j] = y[j] - LR * w.grad.at(y[j], j)
            unlike.add(int(H[j]))
        x = pairs.graph.dense() @ y
        np.testing.assert_allclose(state.x.numpy(), x, rtol=1e-11, atol=1e-11)
    assert len(unlike) > 1
