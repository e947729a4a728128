"""Faults: those away keep everything as it was, what must be preserved is, and a schedule is a function of the seed."""

import numpy as np
import pytest
import torch
from torch import nn

import crossgrad as cg
from crossgrad._network.network import AgentNetwork
from crossgrad._training.absent import masked_step
from crossgrad.algorithms import ALGORITHMS, SGP, GradientTracking, Needs, SwarmSGD
from crossgrad.graphs.faults import Faults, Scenario
from crossgrad.models.buffers import Buffers

STORM = Faults(leave=0.1, away=3, straggle=0.2, drop=0.3)
MUTUAL = {"ring": cg.ring(6), "star": cg.star(5), "bipartite": cg.bipartite(6), "matchings": cg.random_matchings(6)}
DIRECTED = {"exponential": cg.exponential(6), "one peer": cg.one_peer_exponential(6)}
BEARING = [name for name, make in ALGORITHMS.items() if Needs.RELIABLE not in make().needs]  # others refuse faults
EVERYWHERE = [
    *[(name, "ring") for name in BEARING],
    *[(name, "matchings") for name, make in ALGORITHMS.items() if Needs.FIXED not in make().needs],
    *[(name, "bipartite") for name in ("compcga", "edm", "swarm")],
    *[("sgp", graph) for graph in DIRECTED],
]


def faulty_steps(world, algorithm, faults, steps, lr=0.05):
    """(who was present, the state before, the state after) of every step; copies, as a step may work in place."""
    scenario = Scenario(faults, world.graph, world.seed)
    state = algorithm.init(world.x0.clone(), world.net())
    for step in range(steps):
        before = [part.clone() for part in state]
        present = torch.from_numpy(scenario.present(step))
        net = AgentNetwork(scenario.at(step), world.context, step)
        state = masked_step(algorithm, state, lr, world.grad, net, world.context.buffers, present)
        yield present, before, type(state)(*[part.clone() for part in state])


# The schedule.


@pytest.mark.parametrize("faults", [STORM, Faults(leave=0.1), Faults(straggle=0.2), Faults(drop=0.3)], ids=repr)
def test_the_same_seed_gives_the_same_faults_in_any_order_and_another_seed_others(faults):
    graph = cg.ring(8)
    forwards, backwards, other = (Scenario(faults, graph, seed) for seed in (3, 3, 4))
    late_first = [(backwards.present(t), backwards.at(t).dense()) for t in reversed(range(150))][::-1]
    for t, (present, weights) in enumerate(late_first):
        assert np.array_equal(forwards.present(t), present)
        assert np.array_equal(forwards.at(t).dense(), weights)
    assert any(not np.array_equal(forwards.at(t).dense(), other.at(t).dense()) for t in range(150))


@pytest.mark.parametrize("away", [1, 7, 64, 200])
def test_one_who_leaves_stays_away_for_exactly_that_long(away):
    """Those who leave are seen with away = 1; a longer stay is the union of the windows after it."""
    graph, leave, steps = cg.ring(20), 0.01, 400
    leaves = np.stack([~Scenario(Faults(leave=leave, away=1), graph, 0).present(t) for t in range(steps)])
    absent = np.stack([~Scenario(Faults(leave=leave, away=away), graph, 0).present(t) for t in range(steps)])
    expected = np.stack([leaves[max(0, t - away + 1) : t + 1].any(axis=0) for t in range(steps)])
    assert leaves.any()
    assert np.array_equal(absent, expected)


def test_absence_lateness_and_loss_are_as_frequent_as_was_said():
    graph, leave, away, drop, straggle = cg.ring(500), 0.01, 20, 0.3, 0.2
    steps = range(100, 1100)
    absence = Scenario(Faults(leave=leave, away=away), graph, 1).shares(steps)
    assert absence["present"] == pytest.approx((1 - leave) ** away, abs=0.01)
    assert absence["links"] == pytest.approx((1 - leave) ** (2 * away), abs=0.02)
    assert Scenario(Faults(leave=0.3, away=1), graph, 1).shares(steps)["present"] == pytest.approx(0.7, abs=0.01)
    assert Scenario(Faults(drop=drop), graph, 1).shares(steps)["links"] == pytest.approx(1 - drop, abs=0.01)
    assert Scenario(Faults(straggle=straggle), graph, 1).shares(steps) == {
        "present": 1.0,
        "links": pytest.approx((1 - straggle) ** 2, abs=0.01),
    }


def test_absences_by_hand_last_from_the_first_step_to_the_return():
    scenario = Scenario(Faults(absences=((1, 2, 5), (1, 7, 8), (0, 4, 6))), cg.ring(4), 0)
    absent = {t: set(np.flatnonzero(~scenario.present(t)).tolist()) for t in range(9)}
    assert absent == {0: set(), 1: set(), 2: {1}, 3: {1}, 4: {0, 1}, 5: {0}, 6: set(), 7: {1}, 8: set()}


def test_a_stay_of_any_length_works():
    scenario = Scenario(Faults(leave=0.5, away=2**63 - 1), cg.ring(4), 0)
    assert not scenario.present(10**5).any()
    assert not Scenario(Faults(leave=1.0), cg.ring(4), 0).present(0).any()


# The graph of a step.


@pytest.mark.parametrize("base", [*MUTUAL.values(), *DIRECTED.values()], ids=[*MUTUAL, *DIRECTED])
def test_weights_are_made_again_on_the_links_that_are_left(base):
    scenario, changed = Scenario(STORM, base, 0), 0
    for t in range(60):
        plain, left = base.at(t), scenario.at(t)
        edges, kept = plain.dense() != 0, left.dense() != 0
        np.fill_diagonal(edges, True)
        assert not (kept & ~edges).any()
        assert left.column_stochastic
        absent = ~scenario.present(t)
        assert np.array_equal(left.dense()[absent], np.eye(base.agents)[absent])
        assert np.array_equal(left.dense()[:, absent], np.eye(base.agents)[:, absent])
        if left is plain:
            assert not (absent[:, None] & edges & ~np.eye(base.agents, dtype=bool)).any()
            continue
        changed += 1
        degree = (kept & ~np.eye(base.agents, dtype=bool)).sum(axis=0)
        for j, l in zip(*np.nonzero(kept), strict=True):
            if plain.undirected and j != l:
                assert left.dense()[j, l] == pytest.approx(1 / (1 + max(degree[j], degree[l])))
            elif not plain.undirected:
                assert left.dense()[j, l] == pytest.approx(1 / (1 + degree[l]))
        if plain.undirected:
            assert left.undirected
    assert changed > 20


def test_where_nothing_failed_the_graph_is_the_very_same():
    for base in (cg.bipartite(6), cg.random_matchings(6)):
        quiet = Scenario(Faults(absences=((2, 5, 6),)), base, 0)
        assert all(np.array_equal(quiet.at(t).dense(), base.at(t).dense()) for t in range(10) if t != 5)
        assert not np.array_equal(quiet.at(5).dense(), base.at(5).dense())
    assert Scenario(Faults(absences=((2, 5, 6),)), (ring := cg.ring(4)), 0).at(4) is ring
    assert Scenario(Faults(), ring, 0).at(0) is ring


# What every algorithm keeps.


@pytest.mark.parametrize(("name", "graph"), EVERYWHERE)
def test_rows_of_those_away_are_bitwise_unchanged_in_the_whole_state(world, name, graph):
    absent_rows, moved = 0, 0
    for present, before, after in faulty_steps(world((MUTUAL | DIRECTED)[graph]), ALGORITHMS[name](), STORM, 25):
        for old, new in zip(before, after, strict=True):
            assert torch.equal(old[~present], new[~present])
        absent_rows += int((~present).sum())
        moved += int((before[0] != after.x).any(dim=1).sum())
        assert after.x.isfinite().all()
    assert absent_rows > 20
    assert moved > (10 if name == "swarm" else 40)


@pytest.mark.parametrize("name", MUTUAL)
def test_mixing_preserves_the_mean_of_all_models_those_away_included(world, name):
    here = world(MUTUAL[name])
    for _, before, after in faulty_steps(here, cg.DPSGD(), STORM, 40, lr=0.0):
        torch.testing.assert_close(after.x.mean(dim=0), before[0].mean(dim=0), rtol=0, atol=1e-12)


@pytest.mark.parametrize("name", [*MUTUAL, *DIRECTED])
def test_push_sum_weights_stay_positive_and_no_mass_is_lost(world, name):
    here = world((MUTUAL | DIRECTED)[name])
    for _, (x, w, _), after in faulty_steps(here, SGP(), STORM, 40, lr=0.0):
        assert (after.w > 0).all()
        assert float(after.w.sum()) == pytest.approx(here.graph.agents, abs=1e-9)
        torch.testing.assert_close((after.w * after.x).sum(dim=0), (w * x).sum(dim=0), rtol=0, atol=1e-10)


@pytest.mark.parametrize("name", MUTUAL)
def test_trackers_still_sum_to_the_gradients_they_follow(world, name):
    for _, _, after in faulty_steps(world(MUTUAL[name]), GradientTracking(), STORM, 40):
        torch.testing.assert_close(after.y.sum(dim=0), after.g.sum(dim=0), rtol=0, atol=1e-10)


@pytest.mark.parametrize("name", BEARING)
def test_where_all_but_one_are_away_only_that_one_changes(world, name):
    algorithm = SwarmSGD(matching=True) if name == "swarm" else ALGORITHMS[name]()
    alone = Faults(absences=tuple((agent, 0, 5) for agent in range(6) if agent != 2))
    for _, before, after in faulty_steps(world(cg.ring(6)), algorithm, alone, 5):
        changed = (after.x != before[0]).any(dim=1).tolist()
        assert changed == [False, False, True, False, False, False]


@pytest.mark.parametrize("algorithm", [*[ALGORITHMS[name]() for name in BEARING], SwarmSGD(matching=True)], ids=repr)
def test_where_everybody_is_away_nothing_happens(world, algorithm):
    here = world(cg.ring(4))
    for _, before, after in faulty_steps(here, algorithm, Faults(leave=1.0), 3):
        assert all(torch.equal(old, new) for old, new in zip(before, after, strict=True))
    assert here.traffic.total == 0


def test_one_who_is_late_steps_alone(world):
    here, lr = world(cg.ring(5)), 0.05
    for present, (x,), after in faulty_steps(here, cg.DPSGD(), Faults(straggle=1.0), 5, lr):
        assert present.all()
        torch.testing.assert_close(after.x, x - lr * torch.from_numpy(here.grad.own(x.numpy())), rtol=0, atol=1e-14)
    assert here.traffic.total == 0


@pytest.mark.parametrize("single", [True, False])
def test_random_pairs_meet_only_among_those_in_touch(world, single):
    here, met = world(cg.fully_connected(6)), 0
    for present, before, after in faulty_steps(here, SwarmSGD(matching=not single), STORM, 40, lr=0.0):
        changed = (after.x != before[0]).any(dim=1)
        assert not (changed & ~present).any()
        assert int(changed.sum()) in ((0, 2) if single else (0, 2, 4, 6))
        met += int(changed.sum())
    assert met > 20


class InPlace:
    """DPMSGD that overwrites its own state, as a fast algorithm may."""

    needs = cg.DPMSGD.needs

    def init(self, x, net):
        return cg.DPMSGD().init(x, net)

    def step(self, s, lr, grad, net):
        v = s.v.mul_(0.98).sub_(lr * grad(s.x))
        s.x.copy_(net.mix_(s.x.clone()) + v)
        return s


def test_a_step_that_works_in_place_leaves_those_away_alone_too(world):
    for graph in (cg.ring(6), cg.random_matchings(6)):
        runs = [list(faulty_steps(world(graph), algorithm, STORM, 30)) for algorithm in (InPlace(), cg.DPMSGD())]
        for (_, _, found), (_, _, expected) in zip(*runs, strict=True):
            torch.testing.assert_close(found.x, expected.x, rtol=1e-12, atol=1e-12)
            torch.testing.assert_close(found.v, expected.v, rtol=1e-12, atol=1e-12)


class Meddler:
    """Adds 1 to every number there is."""

    needs = cg.DPSGD.needs

    def __init__(self, buffers):
        self.buffers = buffers

    def step(self, s, lr, grad, net):
        self.buffers.floats_NF = self.buffers.floats_NF + 1
        self.buffers.integers_NI += 1
        return type(s)(*[part + 1 for part in s])


def test_whatever_a_step_does_those_away_keep_their_state_and_buffers(world):
    here, buffers = world(cg.ring(4)), Buffers.of(nn.Sequential(nn.Linear(1, 2), nn.BatchNorm1d(2)), 4)
    state, present = SGP().init(here.x0, here.net()), torch.tensor([True, False, True, False])
    before = [part.clone() for part in (*state, buffers.floats_NF, buffers.integers_NI)]
    state = masked_step(Meddler(buffers), state, 0.1, here.grad, here.net(), buffers, present)
    for old, new in zip(before, (*state, buffers.floats_NF, buffers.integers_NI), strict=True):
        assert torch.equal(new, old + present[:, None].to(old.dtype))
