"""What holds for every registered algorithm: bytes by hand, runs that go on, and where quadratics bring it."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from scipy.optimize import root
from torch import nn

from crossgrad import graphs
from crossgrad._forecast.dry_steps import count_step_cost
from crossgrad._training.schedule import Constant
from crossgrad._training.settings import TrainingSettings
from crossgrad._training.trainer import Training
from crossgrad.algorithms import ALGORITHMS, NGC, RULES, Needs, SwarmSGD, TorchOptim
from crossgrad.codecs import Exact
from crossgrad.data import Samples

P, SIGNS, CODED = 6 * 8, 1 + 8, 4 * 1 + 2 * 8  # a model; a bit each and a scale; 4 bits each, and 2 ends for 2 tensors

BYTES = {
    "dpsgd": P, "dpmsgd": P, "sgp": P + 8, "cga": 2 * P, "compcga": P + SIGNS, "cga-released": 2 * P,
    "compcga-released": 2 * P, "cga-mean": 2 * P, "ngc": 2 * P, "compngc": P + SIGNS, "qg-dsgdm": P,
    "gradient-tracking": 2 * P, "edm": P, "d2": P, "exact-diffusion": P, "momentum-tracking": 2 * P, "decentlam": P,
    "gut": P, "kgt": 2 * P, "led": P, "torch-optim": P, "qg-adam": P, "gtadam": 2 * P, "choco": CODED,
    "adagossip": CODED, "beer": 2 * CODED, "motef": 2 * CODED, "relaysgd": P + 8,
}  # fmt: skip


def graph_for(algorithm, agents=5):
    return graphs.chain(agents) if Needs.TREE in algorithm.needs else graphs.ring(agents)


@pytest.mark.parametrize("name", ALGORITHMS)
def test_bytes_per_edge_are_those_of_the_hand_formula_in_a_run_and_in_its_forecast(world, name):
    algorithm = ALGORITHMS[name]()
    w = world(graph_for(algorithm))
    w.run(algorithm, 3)
    forecast = count_step_cost(algorithm, w.graph, w.grad.sizes, torch.float64, 0, seed=0)
    # One pair of SwarmSGD's averages in a step, over one edge both ways.
    expected = 2 * P if name == "swarm" else w.graph.messages * BYTES[name]
    assert w.traffic.total == 3 * expected
    assert sum(forecast.bytes_by_kind.values()) == expected


def a_training(algorithm):
    torch.manual_seed(0)
    agents = [Samples(torch.randn(9, 3).double() + j, torch.arange(9) % 2) for j in range(4)]
    settings = TrainingSettings(Constant(0.05), 4, steps=6, dtype=torch.float64)
    return Training(nn.Linear(3, 2).double(), agents, algorithm, graph_for(algorithm, 4), settings)


@pytest.mark.parametrize("name", ALGORITHMS)
def test_a_run_goes_on_from_its_saved_state_to_the_same_bits(name):
    """Whatever the algorithm keeps, memory of each edge included."""
    whole, again = a_training(ALGORITHMS[name]()), a_training(ALGORITHMS[name]())
    for _ in range(3):
        whole.step()
    again.load_state_dict(_copied(whole.state_dict()))
    for _ in range(3):
        whole.step()
        again.step()
    assert all(map(torch.equal, whole.state, again.state))
    assert whole.traffic.by_kind() == again.traffic.by_kind()


COUPLED = {  # one number's step depends on the others: by a QP, a codec's scale or the length of the step
    "cga", "compcga", "cga-released", "compcga-released", "compngc", "choco", "adagossip", "beer", "motef", "qg-adam",
}  # fmt: skip


@pytest.mark.parametrize("name", ALGORITHMS)
def test_a_step_size_for_every_number_is_that_of_its_own(world, name):
    """Losses are sums over the numbers, so that each goes its own way."""
    algorithm, sizes = ALGORITHMS[name](), torch.tensor([0.05] * 4 + [0.02] * 2, dtype=torch.float64)
    w = world(graph_for(algorithm))
    w.grad.A = np.stack([np.diag(np.diag(A)) for A in w.grad.A])
    fast, slow = (w.run(algorithm, 4, lr)[-1].x for lr in (0.05, 0.02))
    if name in COUPLED:
        sizes, slow = torch.full_like(sizes, 0.05), fast
    expected = torch.cat([fast[:, :4], slow[:, 4:]], dim=1)
    torch.testing.assert_close(w.run(algorithm, 4, sizes)[-1].x, expected, rtol=1e-9, atol=1e-11)


def test_a_rule_of_torch_that_remembers_its_step_size_needs_one_for_all(world):
    w = world(graphs.ring(3))
    with pytest.raises(ValueError, match=r"ASGD needs one step size for all parameters; found .* 2 different ones"):
        w.run(TorchOptim(RULES["asgd"](t0=0.0)), 3, torch.tensor([0.05] * 4 + [0.02] * 2, dtype=torch.float64))


def _copied(part):
    if isinstance(part, dict):
        return {key: _copied(value) for key, value in part.items()}
    return part.clone() if isinstance(part, torch.Tensor) else part


LR, AGENTS = 0.1, 4


def still(w, residual):
    """Where this rule would stay: the root of its residual, which knows dense matrices only."""
    start = np.tile(w.grad.optimum(), (AGENTS, 1))
    found = root(lambda flat: residual(flat.reshape(start.shape)).ravel(), start.ravel(), tol=1e-13)
    assert np.abs(found.fun).max() < 1e-11
    return found.x.reshape(start.shape)


def cross(w, x):
    """Row j: sum_l w_jl grad F_l(x_j)."""
    W = w.graph.dense()
    return np.stack([sum(W[j, l] * w.grad.at(x[j], l) for l in range(AGENTS)) for j in range(AGENTS)])


def at_others(w, x):
    """Row j: sum_l w_jl grad F_j(x_l)."""
    W = w.graph.dense()
    return np.stack([sum(W[j, l] * w.grad.at(x[l], j) for l in range(AGENTS)) for j in range(AGENTS)])


def with_velocity(w, x, g, momentum):
    """x = W x + v with v = beta v - lr g at rest."""
    return w.graph.dense() @ x - LR * g / (1 - momentum) - x


def averaged_after(w, x, step):
    """x = W (x - step)."""
    return w.graph.dense() @ (x - step) - x


def adam(g, eps):
    """Adam's step along a gradient that stays: both moments are those of g."""
    return g / (np.abs(g) + eps)


AT_REST = {
    "dpsgd": (None, lambda w, x, g: with_velocity(w, x, g, 0.0)),
    "dpmsgd": ({"momentum": 0.5}, lambda w, x, g: with_velocity(w, x, g, 0.5)),
    "sgp": ({"momentum": 0.5}, lambda w, x, g: averaged_after(w, x, LR * g / 0.5)),
    "cga-mean": ({"momentum": 0.5}, lambda w, x, g: with_velocity(w, x, cross(w, x), 0.5)),
    "ngc": ({"momentum": 0.5}, lambda w, x, g: with_velocity(w, x, cross(w, x), 0.5)),
    "qg-dsgdm": ({"momentum": 0.5}, lambda w, x, g: averaged_after(w, x, LR * g)),
    "decentlam": ({"momentum": 0.5}, lambda w, x, g: averaged_after(w, x, LR * g)),
    "gut": (
        {"mu": 0.5},
        lambda w, x, g: 0.5 * LR * w.grad.own(w.graph.dense() @ x) - (w.graph.dense() - np.eye(4)) @ x,
    ),
    "torch-optim": (
        {"rule": RULES["adam"](betas=(0.9, 0.9), eps=1.0)},
        lambda w, x, g: averaged_after(w, x, LR * adam(g, 1.0)),
    ),
    "choco": ({"codec": Exact(), "gamma": 0.5}, lambda w, x, g: (w.graph.dense() + np.eye(4)) / 2 @ (x - LR * g) - x),
    "adagossip": ({"codec": Exact(), "gamma": 1.0, "beta": 0.5}, lambda w, x, g: averaged_after(w, x, LR * g)),
}
EXACT = {
    "gradient-tracking": {"momentum": 0.3}, "edm": {"momentum": 0.5}, "d2": {}, "exact-diffusion": {},
    "momentum-tracking": {"momentum": 0.3}, "gtadam": {"eps": 1.0}, "relaysgd": {}, "led": {}, "kgt": {},
    "beer": {"gamma": 0.5, "codec": Exact()}, "motef": {"gamma": 1.0, "codec": Exact(), "share": 0.5},
}  # fmt: skip
ELSEWHERE = {
    "swarm": "its pairs are random: below",
    "cga": "a projection has no formula for where it ends: its own test",
    "compcga": "one bit of each gradient never rests: its own test",
    "cga-released": "as cga: its own test",
    "compcga-released": "as compcga: its own test",
    "compngc": "its own test: at rest on average",
    "qg-adam": "its direction has length 1 however near the optimum is: test_methods.py",
}


def test_every_algorithm_is_exact_or_has_a_bias_that_is_predicted_or_a_reason():
    assert sorted([*AT_REST, *EXACT, *ELSEWHERE]) == sorted(ALGORITHMS)


@pytest.mark.parametrize("name", EXACT)
def test_exact_methods_reach_the_optimum(world, name):
    algorithm = replace(ALGORITHMS[name](), **EXACT[name])
    w = world(graphs.star(AGENTS) if name == "relaysgd" else graphs.ring(AGENTS))
    x = w.run(algorithm, 500, lr=LR)[-1].x.numpy()
    assert np.abs(x - w.grad.optimum()).max() < 1e-8


@pytest.mark.parametrize("name", AT_REST)
def test_biased_methods_rest_where_their_rule_says(world, name):
    options, residual = AT_REST[name]
    w = world(graphs.ring(AGENTS))
    algorithm = replace(ALGORITHMS[name](), **(options or {}))
    x = w.run(algorithm, 500, lr=LR)[-1].x.numpy()
    expected = still(w, lambda x: residual(w, x, w.grad.own(x)))
    np.testing.assert_allclose(x, expected, atol=1e-8)
    assert np.abs(expected - w.grad.optimum()).max() > 1e-2


@pytest.mark.parametrize("alpha", [0, 0.3, 0.7])
def test_ngc_rests_where_its_two_means_say(world, alpha):
    w = world(graphs.ring(AGENTS))
    x = w.run(NGC(alpha, 0.5), 500, lr=LR)[-1].x.numpy()
    mean = lambda x: alpha * cross(w, x) + (1 - alpha) * at_others(w, x)  # noqa: E731
    np.testing.assert_allclose(x, still(w, lambda x: with_velocity(w, x, mean(x), 0.5)), atol=1e-8)


def test_compngc_rests_on_average_where_ngc_does(world):
    """Error feedback owes nothing in the long run: the mean of all gradients that arrived is that of the true ones."""
    w = world(graphs.ring(AGENTS))
    states = w.run(replace(ALGORITHMS["compngc"](), momentum=0.0), 700, lr=LR)[100:]
    mean = torch.stack([s.x for s in states]).mean(dim=0).numpy()
    np.testing.assert_allclose(mean, still(w, lambda x: with_velocity(w, x, cross(w, x), 0.0)), atol=0.02)


@pytest.mark.parametrize(("lr", "steps"), [(0.2, 200), (0.1, 450)])
def test_cga_stays_away_from_the_optimum_at_any_step_size(world, lr, steps):
    """It jumps to and fro where a neighbour's constraint begins to count; what is left is no transient."""
    w = world(graphs.ring(AGENTS))
    x = torch.stack([s.x for s in w.run(replace(ALGORITHMS["cga"](), momentum=0.0), steps, lr=lr)[-100:]]).numpy()
    assert np.abs(x[:50].mean(axis=0) - x[50:].mean(axis=0)).max() < 1e-2
    assert np.abs(x - w.grad.optimum()).max(axis=(1, 2)).min() > 0.3


def test_released_cga_comes_to_rest_away_from_the_optimum_at_any_step_size(world):
    """Its QP has u >= 0.5, so that agents never agree on a zero of their directions."""
    for lr, steps in ((0.2, 150), (0.1, 300)):
        w = world(graphs.ring(AGENTS))
        states = w.run(replace(ALGORITHMS["cga-released"](), momentum=0.0), steps, lr=lr)
        x, before = (states[step].x.numpy() for step in (-1, -20))
        assert np.abs(x - before).max() < 1e-3
        assert np.abs(x - w.grad.optimum()).max() > 0.15


@pytest.mark.parametrize(("name", "moves"), [("compcga", 0.1), ("compcga-released", 0.01)])
def test_compressed_cga_stays_near_the_optimum_without_coming_to_rest(world, name, moves):
    """One scale for all numbers of a gradient: some move although their own gradient is small."""
    w = world(graphs.ring(AGENTS))
    x = torch.stack([s.x for s in w.run(replace(ALGORITHMS[name](), momentum=0.0), 160, lr=LR)]).numpy()
    far = np.abs(x - w.grad.optimum()).max(axis=(1, 2))
    assert far[100:].max() < 0.4 * far[0]
    assert np.abs(np.diff(x[100:], axis=0)).max(axis=(1, 2)).min() > 0
    assert np.abs(x[100:] - x[100:].mean(axis=0)).max() > moves
    assert np.abs(x[100:].mean(axis=0) - w.grad.optimum()).max() > 0.1


@pytest.mark.parametrize("options", [{}, {"matching": True, "local_steps": 2, "momentum": 0.4}], ids=repr)
def test_swarm_equals_its_rule_with_the_matrix_of_the_pairs_that_met(world, options):
    w, algorithm = world(graphs.ring(6)), SwarmSGD(**options)
    x, v = w.x0.numpy(), 0.0
    for step, state in enumerate(w.run(algorithm, 8, LR)[1:]):
        awake, pairs = w.net(step).meet(single=not algorithm.matching)
        on, M = awake.numpy()[:, None].astype(float), pairs.mix_(torch.eye(6, dtype=torch.float64)).numpy()
        np.testing.assert_allclose(M @ M, M, atol=1e-15)  # a pair takes its average, and everybody else his own model
        for _ in range(algorithm.local_steps):
            v = np.where(on > 0, algorithm.momentum * v - LR * w.grad.own(x), v)
            x = x + on * v
        x = M @ x
        np.testing.assert_allclose(state.x.numpy(), x, rtol=1e-11, atol=1e-11)


def test_two_swarm_agents_rest_at_the_optimum_of_their_local_steps(world):
    """Both have the mean of where two local steps lead: the zero of the sums of M_j (x - b_j)."""
    w = world(graphs.ring(2))
    x = w.run(SwarmSGD(local_steps=2), 200, lr=LR)[-1].x.numpy()
    M = np.stack([2 * A - LR * A @ A for A in w.grad.A])
    expected = np.linalg.solve(M.sum(axis=0), np.einsum("jab,jb->a", M, w.grad.b))
    np.testing.assert_allclose(x, np.tile(expected, (2, 1)), atol=1e-9)
    assert np.abs(expected - w.grad.optimum()).max() > 1e-3
