"""Every algorithm says with which step size it learns, and does."""

from dataclasses import replace

import pytest
import torch
from torch import nn

from crossgrad import graphs
from crossgrad._training.schedule import SCHEDULES, Constant, Exponential
from crossgrad._training.settings import TrainingSettings
from crossgrad._training.trainer import Training
from crossgrad.algorithms import ALGORITHMS, Needs
from crossgrad.data import IID, load, split
from crossgrad.experiments import comparison
from crossgrad.graphs import GRAPHS


@pytest.fixture(scope="module")
def digits():
    return load("digits")


@pytest.mark.parametrize("name", ALGORITHMS)
def test_the_stated_step_size_learns_digits_in_a_few_steps(digits, name):
    """A linear model and 5 agents; at 0.01 methods without momentum are still below 20 %."""
    algorithm, own = ALGORITHMS[name](), IID()(digits.train.labels.numpy(), 5, 0)
    torch.manual_seed(0)
    model, steps = nn.Sequential(nn.Flatten(), nn.Linear(64, 10)), 40
    settings = TrainingSettings(Constant(algorithm.step_size), 16, steps=steps, evaluate_every=steps)
    graph = graphs.chain(5) if Needs.TREE in algorithm.needs else graphs.ring(5)
    training = Training(model, split(digits.train, own), algorithm, graph, settings, digits.test)
    assert list(training)[-1].accuracy > 0.5


@pytest.mark.parametrize("name", ALGORITHMS)
def test_a_description_says_which_step_size_is_needed(crossgrad, name):
    said = crossgrad("list", name).out
    size = ALGORITHMS[name]().step_size
    assert f"Step size: {size:g} learns digits (IID, " in said
    assert ("an experiment's step size is 0.01 by default" in said) == (size != 0.01)


def test_every_schedule_has_the_default_step_size_that_descriptions_name():
    assert {make().lr for make in SCHEDULES.values() if "lr" in make.__dataclass_fields__} == {0.01}


@pytest.mark.slow
@pytest.mark.parametrize("name", ALGORITHMS)
def test_the_stated_step_size_learns_the_demo_s_experiment(digits, name):
    """Ten agents, 300 steps. With one class each, the averaged model too, but for SwarmSGD and rules of Adam's kind."""
    algorithm = ALGORITHMS[name]()
    graph = GRAPHS["spanning-tree" if Needs.TREE in algorithm.needs else "ring"]()
    for label, least in (
        ("IID", 0.75),
        ("one class per agent", {"torch-optim": 0.0, "qg-adam": 0.3, "swarm": 0.4}.get(name, 0.75)),
    ):
        one = comparison.experiment(comparison.DemoRun("DPMSGD", label, 0), graph, 10, 300)
        one = replace(one, algorithm=algorithm, schedule=Exponential(algorithm.step_size, comparison.DECAY), name=name)
        assert list(one.start(digits))[-1].accuracy > least
