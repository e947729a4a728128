"""A loss that is not finite is named, and nothing that is not finite reaches a neighbour."""

import pytest
import torch
from torch import nn
from torch.nn.functional import cross_entropy

import crossgrad as cg
from crossgrad._training.settings import TrainingSettings
from crossgrad._training.trainer import Training
from crossgrad.algorithms import ALGORITHMS, Needs
from crossgrad.data import Samples
from crossgrad.tasks import Classification


def a_training(algorithm, bad=float("nan")):
    """Four agents, one of which has a loss that is not finite."""
    torch.manual_seed(0)
    labels = [torch.full((8,), int(agent == 2)) for agent in range(4)]
    agents = [Samples(torch.randn(8, 3), own) for own in labels]

    def loss(output, labels):
        in_training = torch.is_grad_enabled()
        return cross_entropy(output, labels) * torch.where((labels == 1).all() & in_training, bad, 1.0)

    settings = TrainingSettings(cg.Constant(0.1), batch_size=8, steps=6, evaluate_every=3)
    graph = cg.chain(4) if Needs.TREE in algorithm.needs else cg.ring(4)
    return Training(nn.Linear(3, 2), agents, algorithm, graph, settings, task=Classification(2, loss))


@pytest.mark.parametrize("name", sorted(ALGORITHMS))
@pytest.mark.parametrize("bad", [float("nan"), float("inf")])
def test_an_agent_whose_loss_is_not_finite_is_named_and_the_others_stay_finite(name, bad):
    training = a_training(ALGORITHMS[name](), bad)
    records = list(training)
    assert training.status == "nonfinite"
    assert "the loss of agent 2 was not finite at step " in training.reason
    assert records[-1].step == 3
    for part in training.state:
        assert part.isfinite().all()


def test_the_models_from_before_are_kept():
    training = a_training(ALGORITHMS["cga"]())
    before = training.state.x.clone()
    list(training)
    training.keep_last_good()
    assert training.last_good_step == 0
    assert torch.equal(training.state.x, before)
