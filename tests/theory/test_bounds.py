"""On quadratics with known constants: what is measured stays under the corrected bounds, not always the printed."""

import math
from dataclasses import dataclass, replace

import numpy as np
import pytest
import torch

from crossgrad.algorithms import CGA, DPMSGD, Mean, comp_cga
from crossgrad.algorithms.aggregation import DIAGNOSTICS
from crossgrad.graphs import bipartite, from_matrix, fully_connected, ring
from crossgrad.theory import (
    Constants,
    corrected_bound,
    corrected_consensus,
    corrected_limit,
    printed_bound,
    printed_consensus,
    printed_limit,
)

GRAPHS = {"ring": ring(10), "full": fully_connected(5), "bipartite": bipartite(6), "one agent": fully_connected(1)}
METHODS = {
    "CGA": CGA(0.9), "CGA, no momentum": CGA(0.0), "DPMSGD": DPMSGD(0.5), "mean": CGA(0.5, aggregate=Mean()),
    "CompCGA": comp_cga(0.5),
}  # fmt: skip
STEPS = 20


def largest_step(graph, momentum: float) -> float:
    unit = Constants(
        L=1, sigma=0, delta=0, epsilon=0, start=0, agents=1, momentum=momentum, lr=1, mixing_rate=graph.mixing_rate
    )
    return corrected_limit(unit)


@pytest.mark.parametrize("graph", GRAPHS.values(), ids=GRAPHS)
@pytest.mark.parametrize("method", METHODS.values(), ids=METHODS)
@pytest.mark.parametrize("alike", [True, False], ids=["one curvature", "many"])
def test_what_is_measured_stays_under_the_corrected_bounds(losses, follow, graph, method, alike):
    problem = losses(graph.agents, alike=alike, seed=3)
    run = follow(method, graph, problem, largest_step(graph, method.momentum), STEPS)
    c = run.constants
    assert 0 < run.left <= corrected_bound(c).total
    assert run.consensus * STEPS <= corrected_consensus(c).total
    if alike:  # delta does not depend on where the models are
        away = problem.c - problem.c.mean(axis=0)
        assert c.delta**2 == pytest.approx(np.square(away @ problem.A[0]).sum() / graph.agents)
    if graph.agents == 1:
        assert run.consensus < 1e-25
    elif isinstance(method, CGA):
        assert c.epsilon > 0.01  # or the test would say nothing about it
    else:
        assert c.epsilon < 1e-9


def test_the_corrected_lemma_is_not_far_from_what_unlike_data_really_does(losses, follow):
    graph = fully_connected(6)
    run = follow(DPMSGD(0.5), graph, losses(6, alike=True, sigma=0.0), 0.1 * largest_step(graph, 0.5), 200)
    assert 0.4 < run.consensus * 200 / corrected_consensus(run.constants).total <= 0.5


@dataclass(frozen=True, eq=False)
class Biased:
    """An aggregation that adds the same vector to an agent's gradient in every step."""

    bias_ND: torch.Tensor

    def __call__(self, g_RD, G_RKD, pi_RL, sizes):
        return g_RD + self.bias_ND, g_RD.new_zeros(len(g_RD), len(DIAGNOSTICS))


def slowest(agents: int) -> np.ndarray:
    """A unit vector for each agent of a ring, which averaging shrinks by sqrt(rho)."""
    angle = 2 * np.pi * np.arange(agents) / agents
    return np.stack([np.cos(angle), np.sin(angle)], axis=1)


def test_a_constant_bias_breaks_lemma_1_as_printed_by_the_factor_of_the_notes(losses, follow):
    graph, steps, epsilon = ring(10), 300, 0.3
    problem = losses(10, size=2, unlike=0.0, sigma=0.0)
    problem.A = np.zeros((10, 2, 2))
    method = CGA(0.5, aggregate=Biased(epsilon * torch.from_numpy(slowest(10))))
    run = follow(method, graph, problem, 1e-6, steps)
    assert run.constants.epsilon == pytest.approx(epsilon)
    measured, rate = run.consensus * steps, graph.mixing_rate
    factor = (1 + rate) / (2 * (1 - rate))
    assert factor > 7
    assert measured / printed_consensus(run.constants, 0.0).total == pytest.approx(factor, rel=0.1)
    assert measured / corrected_consensus(run.constants).total == pytest.approx(0.5, rel=0.1)


def test_lemma_1_as_printed_fails_for_large_steps_as_delta_is_not_taken_at_the_average(losses, follow):
    """Each agent's loss curves downwards, the average stays at 0, and only the agents drift apart."""
    graph, steps = ring(10), 150
    problem = losses(10, size=2, sigma=0.0)
    problem.A, problem.c = np.broadcast_to(-np.eye(2), (10, 2, 2)), slowest(10)
    problem.least = lambda: problem.loss(np.zeros(2))  # the lemma does not ask for it
    lr = 0.8 * (1 - graph.mixing_rate)
    run = follow(DPMSGD(0.0), graph, problem, lr, steps, x0=np.zeros(2))
    assert run.gradients < 1e-9
    assert run.constants.delta == pytest.approx(1)
    assert run.consensus * steps > 2 * printed_consensus(run.constants, run.gradients * steps).total
    assert run.consensus * steps < corrected_consensus(run.constants).total


def slope_of_two_wells(x: float) -> float:
    """Of a loss with L = 1: a hill at 0 between minima at -2 and 3, the lower one 2.25 below the top."""
    return x + 2 if x < -1 else x - 3 if x > 1.5 else -x


def two_agents(c: Constants) -> tuple[float, list[float]]:
    """DPMSGD of two agents with this loss, plus and minus delta x: mean of |grad F(average)|^2, and the end."""
    x, y, v, w, total = 0.0, 0.0, 0.0, 0.0, 0.0
    for _ in range(c.steps):
        total += slope_of_two_wells((x + y) / 2) ** 2
        v = c.momentum * v - c.lr * (slope_of_two_wells(x) + c.delta)
        w = c.momentum * w - c.lr * (slope_of_two_wells(y) - c.delta)
        x, y = x + c.s / 2 * (y - x) + v, y + c.s / 2 * (x - y) + w
    return total / c.steps, [x, y]


TWO = Constants(
    L=1.0, sigma=0.0, delta=0.03, epsilon=0.0, start=2.25, agents=2, momentum=0.97, lr=1.0, mixing_rate=0.998,
    steps=40_000,
)  # fmt: skip


def test_theorem_1_as_printed_fails_within_its_own_step_size():
    """Too large a step for the graph: the agents settle on two sides of the hill, and their average on its slope."""
    printed = replace(TWO, lr=printed_limit(TWO))
    left, (x, y) = two_agents(printed)
    assert x < -1 < 1.5 < y
    assert left > 4 * printed_bound(printed).total
    assert corrected_limit(TWO) < printed.lr
    corrected = replace(TWO, lr=corrected_limit(TWO))
    assert two_agents(corrected)[0] < corrected_bound(corrected).total


def test_the_two_agents_are_those_of_the_library(follow):
    class Wells:
        sizes, sigma = (1,), 0.0
        noise = np.zeros((2, 1))

        def exact(self, x_MD, agents):
            sign = np.array([[1.0 if agent == 0 else -1.0] for agent in agents])
            return np.array([[slope_of_two_wells(float(x))] for x in x_MD[:, 0]]) + TWO.delta * sign

        def loss(self, x):
            return 2.25

        def least(self):
            return 0.0

        def __call__(self, x, active=None):
            return torch.from_numpy(self.exact(x.numpy(), range(2)))

    c = replace(TWO, lr=0.01, steps=150)
    graph = from_matrix(np.array([[1 - c.s / 2, c.s / 2], [c.s / 2, 1 - c.s / 2]]))
    assert graph.mixing_rate == pytest.approx(c.mixing_rate)
    run = follow(DPMSGD(c.momentum), graph, Wells(), c.lr, c.steps, x0=np.zeros(1))
    assert run.left == pytest.approx(two_agents(c)[0], rel=1e-9)
    assert run.left > 0
    assert math.isclose(run.constants.delta, TWO.delta)
