"""Private gradients against their formula, the account against the exact one, and what is refused."""

import numpy as np
import pytest
import torch
from scipy.optimize import brentq
from scipy.stats import norm
from torch import nn

import crossgrad as cg
from crossgrad import guards
from crossgrad.algorithms import ALGORITHMS
from crossgrad.experiments.files import parse, to_toml
from crossgrad.guards.privacy import secret_generator

RNG = np.random.default_rng(0)
X = torch.from_numpy(RNG.normal(size=(40, 5)))
Y = (X[:, 0] > 0).long()


def fit(privacy=None, algorithm=None, graph=None, batch_size=4, steps=3, seed=0):
    torch.manual_seed(0)
    return cg.fit(
        nn.Linear(5, 2), (X, Y), graph=graph or cg.ring(4), algorithm=algorithm or cg.DPSGD(), lr=0.5, steps=steps,
        batch_size=batch_size, privacy=privacy, dtype=torch.float64, seed=seed, stop_if_diverged=False,
    )  # fmt: skip


def sample_gradient(x, inputs, label):
    """Of cross entropy of a linear model, by the textbook: (softmax - onehot) times the input."""
    W, b = x[:10].reshape(2, 5), x[10:]
    z = W @ inputs + b
    p = np.exp(z - z.max())
    p = p / p.sum() - np.eye(2)[label]
    return np.concatenate([np.outer(p, inputs).ravel(), p])


def test_a_private_gradient_is_the_mean_of_clipped_ones_plus_the_noise_of_agent_batch_and_model():
    guard = guards.GaussianNoise(clip=0.3, multiplier=0.7)
    training = fit(guard, steps=1).training
    x_ND = training.state.x.clone()
    g_ND, oracle = training.oracle(x_ND), training.oracle
    for j in range(4):
        batch = oracle.current[j]
        each = [
            sample_gradient(x_ND[j].numpy(), a.numpy(), int(y)) for a, y in zip(batch.inputs, batch.labels, strict=True)
        ]
        clipped = [g * min(1, 0.3 / np.linalg.norm(g)) for g in each]
        assert any(np.linalg.norm(g) > 0.3 for g in each)
        noise = secret_generator(0, j, 1, x_ND[j]).standard_normal(12) * 0.3 * 0.7 / 4
        np.testing.assert_allclose(g_ND[j].numpy(), np.mean(clipped, axis=0) + noise, atol=1e-12)


def test_one_sample_moves_a_private_gradient_by_at_most_clip_over_batch_size():
    guard = guards.GaussianNoise(clip=0.3, multiplier=0.7)
    training = fit(guard, steps=1).training
    oracle, x_ND = training.oracle, training.state.x
    before = oracle(x_ND)[0].clone()
    batch = oracle.current[0]
    oracle.current[0] = batch._replace(inputs=torch.cat([1e6 * batch.inputs[:1], batch.inputs[1:]]))
    after = oracle.cross([x_ND[0]], [0])[0]  # the same batch number and model: the same noise
    assert 0 < float((after - before).norm()) <= 2 * 0.3 / 4 + 1e-12  # taken away, and put in again


def exact_epsilon(multiplier, uses, delta):
    """Of one Gaussian mechanism with sensitivity sqrt(uses): Balle and Wang 2018, theorem 8."""
    mu = uses**0.5 / multiplier
    curve = lambda e: norm.cdf(mu / 2 - e / mu) - np.exp(e + norm.logcdf(-mu / 2 - e / mu)) - delta  # noqa: E731
    return brentq(curve, 0, 1e4)


@pytest.mark.parametrize(("multiplier", "uses"), [(1.0, 1), (1.0, 20), (4.0, 60), (0.5, 3)])
def test_the_account_is_at_least_the_exact_epsilon_and_close_to_it(multiplier, uses):
    exact = exact_epsilon(multiplier, uses, 1e-5)
    assert exact <= guards.GaussianNoise(multiplier=multiplier).epsilon(uses) <= 1.15 * exact + 0.1


@pytest.mark.parametrize(
    ("algorithm", "batch_size", "steps", "uses"),
    [
        (cg.DPSGD(), 5, 4, 2),  # 10 samples each: two epochs
        (cg.DPSGD(), 10, 3, 3),
        (cg.CGA(), 5, 4, 6),  # own gradient, and those at two neighbours' models
    ],
    ids=["two epochs", "whole batches", "cross-gradients"],
)
def test_a_sample_is_used_once_per_gradient_of_a_batch_that_holds_it(algorithm, batch_size, steps, uses):
    result = fit(guards.GaussianNoise(), algorithm, batch_size=batch_size, steps=steps)
    assert result.training.oracle.uses().tolist() == [uses] * 4
    assert result.records[-1].diagnostics["epsilon"] == guards.GaussianNoise().epsilon(uses)
    assert result.records[0].diagnostics["epsilon"] == 0


def test_a_sample_that_is_twice_in_a_batch_counts_four_times():
    training = fit(guards.GaussianNoise(), batch_size=7, steps=9).training
    batches, most = training.oracle.batches, 0
    for agent in range(4):
        times = np.stack([np.bincount(batches.indices(agent, i), minlength=10) for i in range(9)])
        most = max(most, (times**2).sum(axis=0).max())
        assert int(training.oracle.uses()[agent]) == (times**2).sum(axis=0).max()
    assert most > 7  # 9 batches of 7 are no more than 7 epochs of 10


@pytest.mark.parametrize("name", ALGORITHMS)
def test_every_algorithm_takes_a_privacy_guard(name):
    graph = cg.chain(4) if name == "relaysgd" else cg.fully_connected(4)
    result = fit(guards.GaussianNoise(multiplier=0.1), ALGORITHMS[name](), graph, steps=2)
    assert result.records[-1].diagnostics["epsilon"] > 0
    assert not torch.equal(result.training.state.x, fit(None, ALGORITHMS[name](), graph, steps=2).training.state.x)


def test_a_model_with_batch_normalisation_is_refused():
    model = nn.Sequential(nn.BatchNorm1d(5), nn.Linear(5, 2))
    with pytest.raises(ValueError, match="a privacy guard needs a model without buffers"):
        cg.fit(model, (X.float(), Y), graph=cg.ring(4), steps=1, privacy=guards.GaussianNoise())


def test_a_guard_is_chosen_by_name_in_an_experiment_file_and_written_back():
    text = "agents=5\npartition='iid'\nmodel='mlp'\ngraph='ring'\nalgorithm='dpsgd'\ntraining={steps=1}\n"
    chosen = parse(text + "privacy={name='gaussian-noise', clip=0.5, multiplier=2.0}\n")
    assert chosen.settings().privacy == guards.GaussianNoise(0.5, 2.0)
    assert parse(to_toml(chosen)) == chosen
    assert "privacy" not in to_toml(parse(text))
    with pytest.raises(ValueError, match=r"privacy: multiplier must be above 0 and finite; found 0\.0\."):
        parse(text + "privacy={name='gaussian-noise', multiplier=0.0}")
