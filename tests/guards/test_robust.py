"""Robust rules against their definitions, and what a hostile agent can do with and without them."""

import numpy as np
import pytest
import torch
from torch import nn

import crossgrad as cg
from crossgrad import graphs, guards
from crossgrad._network.context import NetworkContext
from crossgrad.algorithms import ALGORITHMS
from crossgrad.experiments.files import parse, to_toml

HONEST = guards.Attack()
RNG = np.random.default_rng(0)
X = torch.from_numpy(RNG.normal(size=(200, 5))).float()
Y = (X[:, 0] > 0).long()


def mixed(w, rule=None, attack=HONEST, lazy=0.0):
    """What one averaging makes of the models."""
    w.context = NetworkContext(w.context.shard, w.graph, w.traffic, w.context.buffers, 0, rule, attack)
    return w.net().mix_(w.x0.clone(), lazy=lazy).numpy()


def neighbours(graph, j):
    row = graph.dense()[j].copy()
    row[j] = 0
    return np.flatnonzero(row), row[row > 0]


def clipped(x, j, others, pi):
    out = x[j].copy()
    for l, weight in zip(others, pi, strict=True):
        out += weight * (x[l] - x[j]) * min(1.0, 1.5 / np.linalg.norm(x[l] - x[j]))
    return out


def norm_clipped(x, j, others, pi):
    scaled = [x[l] * min(1.0, np.linalg.norm(x[j]) / np.linalg.norm(x[l])) for l in others]
    return (1 - pi.sum()) * x[j] + sum(weight * one for weight, one in zip(pi, scaled, strict=True))


RULES = {
    guards.SelfCentredClipping(1.5): clipped,
    guards.NormClipping(1.0): norm_clipped,
    guards.CoordinateMedian(): lambda x, j, others, pi: np.median(x[[j, *others]], axis=0),
    guards.TrimmedMean(1): lambda x, j, others, pi: np.sort(x[[j, *others]], axis=0)[1:-1].mean(axis=0),
}


@pytest.mark.parametrize(
    "graph", [graphs.ring(6), graphs.fully_connected(5), graphs.bipartite(6)], ids=lambda g: g.name
)
@pytest.mark.parametrize("rule", RULES, ids=lambda rule: type(rule).__name__)
@pytest.mark.parametrize("lazy", [0.0, 0.25])
def test_a_rule_makes_of_the_neighbours_what_its_formula_says(world, graph, rule, lazy):
    w = world(graph)
    x = w.x0.numpy().copy()
    expected = [RULES[rule](x, j, *neighbours(graph, j)) for j in range(graph.agents)]
    np.testing.assert_allclose(mixed(w, rule, lazy=lazy), lazy * x + (1 - lazy) * np.array(expected), atol=1e-12)


def test_without_a_rule_hostile_messages_are_averaged_and_the_hostile_agent_keeps_its_own_model(world):
    w = world(graphs.ring(5))
    x, W = w.x0.numpy().copy(), w.graph.dense()
    sent = x.copy()
    sent[2] *= -3
    expected = (W - np.diag(np.diag(W))) @ sent + np.diag(W)[:, None] * x
    np.testing.assert_allclose(mixed(w, attack=guards.Attack((2,), "sign-flip", 3.0)), expected, atol=1e-12)


def test_clipping_bounds_how_far_a_hostile_neighbour_moves_an_agent(world):
    w, rule = world(graphs.ring(5)), guards.SelfCentredClipping(0.1)
    honest, attacked = mixed(w, rule), mixed(w, rule, guards.Attack((2,), "noise", 1e6))
    moved = np.linalg.norm(attacked - honest, axis=1)
    assert moved[[0, 4]].max() == 0
    assert 0 < moved[[1, 3]].max() <= 2 * 0.1 / 3 + 1e-12


def fit(attack=None, robust=None, algorithm=None):
    torch.manual_seed(0)
    return cg.fit(
        nn.Linear(5, 2), (X, Y), graph=cg.fully_connected(6), algorithm=algorithm or cg.DPSGD(), lr=0.3, steps=60,
        test=(X, Y), attack=attack, robust=robust, stop_if_diverged=False,
    )  # fmt: skip


@pytest.mark.parametrize(
    "algorithm", [cg.DPSGD(), cg.CGA(momentum=0.5), cg.EDM(lazy=0.5)], ids=lambda a: type(a).__name__
)
@pytest.mark.parametrize("kind", ["sign-flip", "noise"])
def test_a_hostile_agent_spoils_an_average_and_not_a_trimmed_mean(kind, algorithm):
    attack = guards.Attack((3,), kind, 30.0)
    worst = {name: min(fit(attack, rule, algorithm).records[-1].agent_accuracy)
             for name, rule in (("average", None), ("trimmed", guards.TrimmedMean(1)))}  # fmt: skip
    assert worst["trimmed"] > 0.85 > worst["average"]


def test_a_rule_is_chosen_by_name_in_an_experiment_file_and_written_back():
    text = "agents=5\npartition='iid'\nmodel='mlp'\ngraph='ring'\nalgorithm='dpsgd'\ntraining={steps=1}\n"
    chosen = parse(text + "robust={name='trimmed-mean', trim=2}\nattack={agents=[1], kind='noise'}\n")
    assert chosen.settings().robust == guards.TrimmedMean(2)
    assert parse(to_toml(chosen)) == chosen
    assert "robust" not in to_toml(parse(text))
    assert "attack" not in to_toml(parse(text))
    with pytest.raises(ValueError, match=r"attack: hostile agents must be 0 to 4; found 9\."):
        parse(text + "attack={agents=[9]}")


@pytest.mark.parametrize("name", ALGORITHMS)
def test_an_algorithm_that_a_rule_cannot_guard_is_refused_before_the_run(name):
    algorithm, unguarded = ALGORITHMS[name](), {"sgp", "choco", "adagossip", "beer", "motef", "relaysgd"}
    graph = cg.chain(6) if name == "relaysgd" else cg.fully_connected(6)

    def start():
        cg.fit(nn.Linear(5, 2), (X, Y), graph=graph, algorithm=algorithm, steps=1, robust=guards.CoordinateMedian())

    if name in unguarded:
        with pytest.raises(ValueError, match="a robust rule needs an algorithm that averages models"):
            start()
    else:
        start()
