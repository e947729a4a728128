"""Estimates on runs of linear regression, whose constants numpy knows."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from torch import nn

from crossgrad._training.schedule import Constant
from crossgrad._training.settings import TrainingSettings
from crossgrad._training.trainer import Training
from crossgrad.algorithms import CGA, DPMSGD, DPSGD, Mean, SwarmSGD, comp_cga
from crossgrad.data import Samples
from crossgrad.graphs import from_matrix, fully_connected, one_peer_exponential, ring
from crossgrad.theory import check_theory, coverage, estimate, verdict

N, ROWS, SIZE = 4, 12, 3


class World:
    """Agents that regress on data of their own: f_i = |X_i w - y_i|^2 / rows."""

    def __init__(self, algorithm, graph=None, batch=ROWS, lr=1e-12, steps=ROWS, scale=1.0) -> None:
        rng = np.random.default_rng(5)
        self.X = scale * rng.normal(size=(N, ROWS, SIZE))
        self.y = self.X @ (3 * rng.normal(size=(N, SIZE, 1))) + rng.normal(size=(N, ROWS, 1))
        self.w = rng.normal(size=(SIZE, 1))
        model = nn.Linear(SIZE, 1, bias=False).double()
        model.weight.data = torch.from_numpy(self.w.T.copy())
        agents = [Samples(torch.from_numpy(X), torch.from_numpy(y)) for X, y in zip(self.X, self.y, strict=True)]
        settings = TrainingSettings(Constant(lr), batch_size=batch, steps=steps, dtype=torch.float64)
        self.training = Training(model, agents, algorithm, graph or ring(N), settings)

    def gradients(self, w: np.ndarray) -> np.ndarray:
        """Everybody's, at one model."""
        return np.stack([2 * X.T @ (X @ w - y) / ROWS for X, y in zip(self.X, self.y, strict=True)])[:, :, 0]


def quiet(what: str, done: int, of: int) -> None:
    assert what == "steps" or what.startswith("curvature ")
    assert 0 <= done <= of


def test_the_curvature_is_the_largest_eigenvalue_of_any_agents_hessian():
    world = World(DPSGD())
    largest = max(np.linalg.eigvalsh(2 * X.T @ X / ROWS).max() for X in world.X)
    found = estimate(world.training, 1, 60.0, quiet).L
    assert 0.97 * largest < found <= largest * (1 + 1e-12)


def test_at_a_model_that_stands_still_the_estimates_are_exact():
    """A batch of one and as many steps as samples: the noise of every sample occurs once."""
    world = World(DPSGD(), batch=1)
    found = estimate(world.training, ROWS, 60.0, quiet)
    g = world.gradients(world.w)
    each = np.stack([2 * X * (X @ world.w - y) for X, y in zip(world.X, world.y, strict=True)])
    assert found.sigma**2 == pytest.approx(np.square(each - g[:, None]).sum(axis=2).mean())
    assert found.delta**2 == pytest.approx(np.square(g - g.mean(axis=0)).sum(axis=1).mean())
    assert found.left == pytest.approx(np.square(g.mean(axis=0)).sum()) == found.gradients
    assert found.start == pytest.approx(np.square(world.X @ world.w - world.y).mean())
    assert found.epsilon == 0
    assert (found.steps, found.all_samples, found.complete) == (ROWS, True, True)


@pytest.mark.parametrize("algorithm", [CGA(0.5), comp_cga(0.5), CGA(0.5, aggregate=Mean()), DPMSGD(0.5)], ids=repr)
def test_epsilon_is_what_the_velocities_tell(algorithm):
    world, lr = World(algorithm, lr=0.01, steps=5), 0.01
    found = estimate(world.training, 5, 60.0, quiet)
    training, squares = World(algorithm, lr=0.01, steps=5).training, []
    for _ in range(5):
        x, v = training.state.x.numpy().copy(), training.state.v.numpy().copy()
        g = np.stack([2 * X.T @ (X @ row[:, None] - y) / ROWS for X, y, row in zip(world.X, world.y, x, strict=True)])
        training.step()
        used = (0.5 * v - training.state.v.numpy()) / lr
        squares.append(np.square(used - g[:, :, 0]).sum(axis=1).mean())
    assert found.epsilon == pytest.approx(np.mean(squares) ** 0.5, abs=1e-9)
    assert (found.epsilon > 0.1) == (not isinstance(algorithm, DPMSGD))
    assert found.sigma < 1e-9  # full batches


def test_being_watched_changes_no_bit_of_a_run():
    watched, alone = (World(CGA(0.9), lr=0.05, batch=4, steps=6).training for _ in range(2))
    estimate(watched, 6, 60.0, quiet)
    for _ in range(6):
        alone.step()
    assert torch.equal(watched.state.x, alone.state.x)
    assert watched.algorithm == alone.algorithm


def test_agents_that_sleep_do_not_count_as_noise():
    found = estimate(World(SwarmSGD(), graph=fully_connected(N)).training, 4, 60.0, quiet)
    assert found.sigma < 1e-9  # full batches of the two that are awake


def test_when_the_seconds_are_over_one_step_was_made_and_it_says_so():
    found = estimate(World(DPSGD()).training, 10, 0.0, quiet)
    assert (found.steps, found.complete) == (1, False)


def test_a_run_whose_loss_is_not_finite_is_refused():
    with pytest.raises(ValueError, match=r"that of agent \d was not at step \d+. Use a smaller step size"):
        estimate(World(DPSGD(), lr=1.0, scale=1e50).training, 5, 60.0, quiet)


@pytest.mark.parametrize("loss", [lambda o, y: o.sum(), lambda o, y: 0 * o.square().sum()], ids=["linear", "flat"])
def test_losses_without_curvature_are_refused(loss):
    world = World(DPSGD())
    world.training.task = replace(world.training.task, loss=loss)
    with pytest.raises(ValueError, match="some curvature L; found 0"):
        estimate(world.training, 1, 60.0, quiet)


def test_the_theory_is_silent_where_averaging_forgets_nothing():
    swap = np.array([[0.0, 0.5, 0.0, 0.5], [0.5, 0.0, 0.5, 0.0], [0.0, 0.5, 0.0, 0.5], [0.5, 0.0, 0.5, 0.0]])
    world = World(DPSGD(), graph=from_matrix(swap))
    result = verdict(world.training, estimate(world.training, 1, 60.0, quiet))
    assert result.claims is None
    assert "Assumption 4 is violated: sqrt(rho) = 1" in result.coverage.sentence


def test_a_graph_that_changes_is_refused():
    world = World(DPSGD(), graph=one_peer_exponential(N))
    with pytest.raises(ValueError, match=r"one fixed graph; .*one-peer.* changes from step to step"):
        check_theory(world.training)


def test_what_the_run_showed_is_under_the_corrected_bound():
    """The whole way from data to verdict, at a step size that the verdict itself allows."""
    first = World(CGA(0.5))
    limit = verdict(first.training, estimate(first.training, 1, 60.0, quiet)).claims.at_limit.lr
    world = World(CGA(0.5), lr=0.9 * limit, batch=4, steps=40)
    result = verdict(world.training, estimate(world.training, 40, 60.0, quiet))
    claims = result.claims
    assert claims.corrected
    assert all(condition.holds for condition in claims.conditions if "Theorem 1 corrected" in condition.name)
    terms = result.as_json()
    assert claims.estimates.left <= terms["bound"]["corrected"]["total"]
    assert terms["lemma"]["measured"] <= terms["lemma"]["corrected"]["total"]
    assert not replace(claims, constants=replace(claims.constants, lr=1.1 * limit)).corrected


@pytest.mark.parametrize(
    ("algorithm", "covered", "words"),
    [
        (CGA(), True, "the paper's CGA"),
        (CGA(nesterov=True), False, "Nesterov"),
        (CGA(aggregate=Mean()), True, "this way to aggregate"),
        (comp_cga(), True, "only supposes"),
        (DPMSGD(), True, "epsilon = 0"),
        (SwarmSGD(), False, "does not cover SwarmSGD"),
    ],
    ids=lambda value: str(value)[:20],
)
def test_it_says_of_which_algorithms_the_theorem_speaks(algorithm, covered, words):
    assert coverage(algorithm).covered == covered
    assert words in coverage(algorithm).sentence
