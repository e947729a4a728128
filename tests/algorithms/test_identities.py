"""What must hold whatever the numbers: identities between algorithms, and invariants of each."""

from collections import Counter
from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn.functional import cross_entropy

import crossgrad as cg
from crossgrad import graphs
from crossgrad._network.cross_gradients import ModelsAtNeighbours
from crossgrad._network.network import AgentNetwork
from crossgrad._training.validate import check_graph
from crossgrad.algorithms import ALGORITHMS, RELEASED, Needs
from crossgrad.algorithms.api import rounds_of

GRAPHS = [
    graphs.ring(1), graphs.ring(2), graphs.ring(6), graphs.fully_connected(5), graphs.bipartite(6),
    graphs.balanced_bipartite(6), graphs.star(5), graphs.chain(4), graphs.torus(9), graphs.exponential(6),
    graphs.one_peer_exponential(8), graphs.random_matchings(6), graphs.erdos_renyi(8, seed=2),
]  # fmt: skip


def fits(algorithm, graph):
    try:
        check_graph(algorithm, graph, graph.agents)
    except ValueError:
        return False
    return True


PAIRS = [
    pytest.param(make(), graph, id=f"{name}-{graph.name}-{graph.agents}")
    for name, make in ALGORITHMS.items()
    for graph in GRAPHS
    if fits(make(), graph)
]


def test_every_algorithm_meets_undirected_and_sgp_also_directed_graphs():
    for make in ALGORITHMS.values():
        assert fits(make(), graphs.chain(5))
        assert fits(make(), graphs.exponential(6)) == (Needs.UNDIRECTED not in make().needs)


@pytest.mark.parametrize(("algorithm", "graph"), PAIRS)
def test_shapes_and_kinds_of_tensors_stay_the_same(world, algorithm, graph):
    states = world(graph).run(algorithm, 3)
    for before, after in zip(states[0], states[-1], strict=True):
        assert before.shape == after.shape
        assert before.dtype == after.dtype
        assert after.shape[0] == graph.agents


@pytest.mark.parametrize("name", [*ALGORITHMS, "edm in three rounds", "ngc without cross-gradients"])
def test_a_step_takes_as_many_communication_rounds_as_the_algorithm_declares(world, monkeypatch, name):
    """Counted from outside: the messages of one kind that an agent sends one after the other, and those sent back."""
    more = {"edm in three rounds": cg.Gossip(rounds=3).around(cg.EDM()), "ngc without cross-gradients": cg.NGC(alpha=0)}
    algorithm = more[name] if name in more else ALGORITHMS[name]()
    sent, back = Counter(), set()
    next_round, cross_gradients = AgentNetwork.next_round, ModelsAtNeighbours.cross_gradients

    def counted(net, kind):
        sent[kind] += 1
        return next_round(net, kind)

    def noted(shared, *arguments):
        back.add("cross-gradients")
        return cross_gradients(shared, *arguments)

    monkeypatch.setattr(AgentNetwork, "next_round", counted)
    monkeypatch.setattr(ModelsAtNeighbours, "cross_gradients", noted)
    world(graphs.chain(4)).run(algorithm, 1)
    assert rounds_of(algorithm, None) == max(sent.values(), default=1) + len(back)


@pytest.mark.parametrize(("algorithm", "graph"), PAIRS)
def test_a_step_works_in_place_and_depends_on_the_state_alone(world, algorithm, graph):
    w = world(graph)
    state = w.run(algorithm, 2)[-1]
    copies = type(state)(*[part.clone() for part in state])
    once, again = (algorithm.step(s, 0.1, w.grad, w.net()) for s in (state, copies))
    assert all(torch.equal(one, other) for one, other in zip(once, again, strict=True))
    assert once.x.data_ptr() != again.x.data_ptr()


@pytest.mark.parametrize(("algorithm", "graph"), PAIRS)
def test_agents_that_agree_on_data_and_start_keep_agreeing(world, algorithm, graph):
    if isinstance(algorithm, cg.SwarmSGD) and not algorithm.matching:
        pytest.skip("only one pair of agents takes a step, so the others fall behind")
    if algorithm.__dict__.get("aggregate") == RELEASED and len(set(graph.union().weights.diagonal())) > 1:
        pytest.skip("the released code scales gradients by pi_jj, which differs between these agents")
    if Needs.RELIABLE in algorithm.needs:
        pytest.skip("each agent's messages are rounded at random, so models differ at once")
    if isinstance(algorithm, cg.NGC) and algorithm.codec.feedback and graph.period != 1:
        pytest.skip("error memories are kept per neighbour, and agents meet different neighbours on changing graphs")
    w = world(graph, alike=True)
    x = w.run(algorithm, 5, x0=w.x0[:1].repeat(graph.agents, 1))[-1].x
    torch.testing.assert_close(x, x[:1].expand_as(x), rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize(("algorithm", "graph"), PAIRS)
def test_a_step_size_of_almost_nothing_leaves_the_mean_in_place(world, algorithm, graph):
    if isinstance(algorithm, cg.RelaySGD):
        pytest.skip("RelaySGD averages models of earlier steps, so the mean moves until all agents agree")
    if isinstance(algorithm, cg.AdaGossip):
        pytest.skip("AdaGossip's consensus step differs between two neighbours, so the mean moves")
    w = world(graph)
    x = w.run(algorithm, 5, lr=1e-300)[-1].x
    torch.testing.assert_close(x.mean(dim=0), w.x0.mean(dim=0), rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize(("algorithm", "graph"), PAIRS)
def test_exact_gradients_bring_the_loss_of_the_mean_down(world, algorithm, graph):
    if isinstance(algorithm, cg.QGAdam):
        pytest.skip("the direction has length 1 at any distance from the optimum, so it does not settle there")
    w = world(graph)
    if hasattr(algorithm, "momentum"):
        algorithm = replace(algorithm, momentum=0.3)
    before, after = (w.grad.mean_loss(s.x.mean(dim=0).numpy()) for s in w.run(algorithm, 15, lr=0.04)[::15])
    assert after < before


@pytest.mark.parametrize("graph", [g for g in GRAPHS if g.doubly_stochastic], ids=lambda g: f"{g.name}-{g.agents}")
@pytest.mark.parametrize("make", [cg.DPMSGD, cg.CGA, cg.comp_cga, cg.mean_cga])
def test_the_mean_model_follows_the_mean_velocity(world, graph, make):
    algorithm = make(0.7)
    if not fits(algorithm, graph):
        pytest.skip("needs an undirected graph")
    states = world(graph).run(algorithm, 6)
    for before, after in pairwise(states):
        torch.testing.assert_close(
            after.x.mean(dim=0), before.x.mean(dim=0) + after.v.mean(dim=0), rtol=1e-12, atol=1e-13
        )


@pytest.mark.parametrize("make", [cg.CGA, cg.DPMSGD])
def test_one_agent_alone_is_momentum_sgd(world, make):
    w = world(graphs.ring(1))
    x = nn.Parameter(w.x0[0].clone())
    sgd = torch.optim.SGD([x], lr=0.05, momentum=0.9)
    for state in w.run(make(0.9), 10)[1:]:
        x.grad = torch.from_numpy(w.grad.at(x.detach().numpy(), 0))
        sgd.step()
        torch.testing.assert_close(state.x[0], x.detach(), rtol=1e-12, atol=1e-13)


def test_cga_is_dpmsgd_where_all_data_is_the_same(world):
    for graph in (graphs.ring(5), graphs.bipartite(6)):
        w = world(graph, alike=True)
        start = w.x0[:1].repeat(graph.agents, 1)
        ours, theirs = (w.run(make(0.9), 8, x0=start)[-1].x for make in (cg.CGA, cg.DPMSGD))
        torch.testing.assert_close(ours, theirs, rtol=1e-10, atol=1e-12)


def test_no_mixing_means_independent_runs(world):
    alone = graphs.Graph(graphs.ring(1).weights, "alone")
    many = graphs.random_pairs(graphs.ring(1), np.random.default_rng(0))
    assert many.agents == alone.agents == 1
    identity = cg.Graph(type(alone.weights)(np.eye(4)), "identity", part_of_sequence=True)
    w = world(identity)
    together = w.run(cg.DPMSGD(0.9), 6)[-1].x
    for j in range(4):
        x, v = w.x0[j].numpy(), np.zeros(6)
        for _ in range(6):
            v = 0.9 * v - 0.05 * w.grad.at(x, j)
            x = x + v
        np.testing.assert_allclose(together[j].numpy(), x, rtol=1e-12)


def test_the_identity_codec_makes_compcga_cga(world):
    class Identity(cg.Exact):
        feedback = True

    w = world(graphs.ring(5))
    with_memory = w.run(cg.CGA(0.9, codec=Identity()), 6)[-1]
    torch.testing.assert_close(with_memory.x, w.run(cg.CGA(0.9), 6)[-1].x, rtol=1e-12, atol=1e-13)
    assert float(with_memory.memory.abs().max()) == 0.0


def test_fully_connected_sgp_is_centralised_sgd_with_all_batches(blobs):
    """The same data in the same batches, by one plain loop of PyTorch."""
    data, agents, steps, size = blobs(120), 4, 15, 10
    model = nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 3)).double()
    result = cg.fit(
        model, data, graph=cg.fully_connected(agents), algorithm=cg.SGP(), partition=cg.ByClass(), lr=0.1, steps=steps,
        batch_size=size, dtype=torch.float64,
    )  # fmt: skip
    oracle = result.training.oracle
    central = torch.nn.Sequential(*[type(layer)(*_arguments(layer)) for layer in model]).double()
    central.load_state_dict(model.state_dict())
    sgd = torch.optim.SGD(central.parameters(), lr=0.1)
    for step in range(steps):
        sgd.zero_grad()
        losses = []
        for agent, own in enumerate(result.training.agents):
            chosen = oracle.batches.indices(agent, step)
            losses.append(cross_entropy(central(own.inputs[chosen]), own.labels[chosen]))
        torch.stack(losses).mean().backward()
        sgd.step()
    for ours, theirs in zip(result.model.parameters(), central.parameters(), strict=True):
        torch.testing.assert_close(ours, theirs, rtol=1e-10, atol=1e-12)


def _arguments(layer):
    return (layer.in_features, layer.out_features) if isinstance(layer, nn.Linear) else ()


def test_methods_that_correct_for_unlike_data_reach_the_optimum(world):
    """Gradient tracking and exact diffusion do; DPSGD keeps a bias."""
    w = world(graphs.ring(6))
    optimum = w.grad.optimum()

    def error(algorithm, steps=250):
        return np.abs(w.run(algorithm, steps, lr=0.1)[-1].x.numpy() - optimum).max()

    assert error(cg.GradientTracking()) < 1e-8
    assert error(cg.EDM(0.5)) < 1e-8
    assert error(cg.DPSGD()) > 1e-3


def test_error_feedback_telescopes(world):
    """sum of what arrived = sum of what was meant + e_0 - e_K."""
    from crossgrad.codecs.codec import ScaledSign, send

    generator = torch.Generator().manual_seed(0)
    memory = torch.zeros(3, 7, dtype=torch.float64)
    meant = arrived = torch.zeros(3, 7, dtype=torch.float64)
    for _ in range(20):
        g = torch.randn(3, 7, generator=generator, dtype=torch.float64)
        delta = send(ScaledSign(), g, memory, [7]).arrives_MD
        meant, arrived = meant + g, arrived + delta
    torch.testing.assert_close(arrived, meant - memory, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("power", [1, 2, 3, 4])
def test_one_peer_exponential_averages_exactly_in_log_n_steps(world, power):
    w = world(graphs.one_peer_exponential(2**power))
    x = w.run(cg.DPSGD(), power, lr=0.0)[-1].x
    torch.testing.assert_close(x, w.x0.mean(dim=0).expand_as(x), rtol=1e-14, atol=1e-14)


def test_relabelling_the_agents_relabels_the_models(world):
    """The order of neighbours changes nothing but rounding."""
    graph = graphs.erdos_renyi(7, seed=3)
    order = np.random.default_rng(0).permutation(7)
    shuffled = graphs.from_matrix(graph.dense()[np.ix_(order, order)])
    w, s = world(graph), world(shuffled)
    s.grad.A, s.grad.b, s.x0 = w.grad.A[order], w.grad.b[order], w.x0[torch.from_numpy(order)]
    for make in (cg.DPMSGD, cg.CGA, cg.comp_cga, cg.released_cga):
        ours, theirs = w.run(make(0.9), 5)[-1].x[torch.from_numpy(order)], s.run(make(0.9), 5)[-1].x
        torch.testing.assert_close(ours, theirs, rtol=1e-7, atol=1e-8)


def test_swarm_moves_only_the_pair_that_met(world):
    w = world(graphs.ring(6))
    before, after = w.run(cg.SwarmSGD(), 1)
    moved = (before.x != after.x).any(dim=1).nonzero()[:, 0].tolist()
    assert len(moved) == 2
    assert (moved[1] - moved[0]) % 6 in (1, 5)
    i, j = moved
    g = w.grad.own(w.x0.numpy())
    both = (w.x0[i].numpy() - 0.05 * g[i] + w.x0[j].numpy() - 0.05 * g[j]) / 2
    np.testing.assert_allclose(after.x[i].numpy(), both, rtol=1e-12)
    assert torch.equal(after.x[i], after.x[j])


def test_swarm_matching_steps_everybody_and_averages_pairs(world):
    w = world(graphs.ring(6))
    x = w.run(cg.SwarmSGD(matching=True), 1)[-1].x
    assert (x != w.x0).any(dim=1).all()
    torch.testing.assert_close(
        x.mean(dim=0), (w.x0 - 0.05 * torch.from_numpy(w.grad.own(w.x0.numpy()))).mean(dim=0), rtol=1e-12, atol=1e-13
    )


def test_geometric_local_steps_have_the_mean_they_should(world):
    w = world(graphs.ring(40))
    algorithm = cg.SwarmSGD(matching=True, local_steps=4, geometric=True)
    draws = torch.cat([algorithm._local_steps(w.net(step)) for step in range(250)])
    assert float(draws.min()) == 1.0
    assert float(draws.mean()) == pytest.approx(4, abs=0.15)
    assert float(draws.var()) == pytest.approx(4 * 3, rel=0.1)  # (1 - p) / p^2 at p = 1/4
