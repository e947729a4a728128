"""Short runs on separable data."""

from collections.abc import Callable

import pytest
import torch
from torch import nn

import crossgrad as cg
from crossgrad.algorithms import Needs


@pytest.fixture
def mlp() -> Callable[[], nn.Module]:
    """Makes a small model with known parameters."""

    def make():
        torch.manual_seed(0)
        return nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 3))

    return make


@pytest.fixture
def run(blobs, mlp):
    """Fits a model to separable data, of which each agent has classes of its own."""

    def fit(algorithm=None, model=None, agents=4, **options):
        options = {"steps": 20, "lr": 0.05, "batch_size": 8, "test": blobs(60, seed=7)} | options
        algorithm = algorithm or cg.CGA(0.9)
        graph = cg.chain(agents) if Needs.TREE in algorithm.needs else cg.ring(agents)
        return cg.fit(
            model or mlp(), options.pop("data", None) or blobs(), graph=options.pop("graph", graph),
            partition=options.pop("partition", cg.ByClass()),
            algorithm=algorithm, **options,
        )  # fmt: skip

    return fit
