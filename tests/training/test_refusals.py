"""What cannot be trained is refused before the first step."""

import math

import pytest
from torch import nn

import crossgrad as cg
from crossgrad.data import Samples

WRONG = {
    "steps and epochs": ({"epochs": 1.0}, "either in steps or in epochs"),
    "neither": ({"steps": None}, "either in steps or in epochs"),
    "no steps": ({"steps": 0}, "steps must be at least 1"),
    "batch": ({"batch_size": 0}, "batch_size must be at least 1"),
    "lr": ({"lr": -1.0}, "step size lr"),
    "lr nan": ({"lr": math.nan}, "step size lr"),
    "lr huge": ({"lr": 1e30}, "step size lr"),
    "device": ({"device": "gpu"}, "device must be"),
    "graph size": ({"data": 3}, "3 .*4 agents|4 agents.* 3"),
    "directed": ({"graph": cg.exponential(5)}, "undirected"),
    "output": ({"model": nn.Linear(4, 2)}, "3 classes, so the model must return 3 numbers"),
    "input": ({"model": nn.Linear(5, 3)}, "does not take the data's inputs of shape"),
    "seed": ({"seed": -1}, "seed"),
}


@pytest.mark.parametrize("case", WRONG)
def test_what_cannot_work_is_refused_in_one_sentence(run, blobs, case):
    options, message = WRONG[case]
    if "data" in options:  # data sets of so many agents
        options = options | {"data": [blobs(30, seed=k) for k in range(options["data"])], "partition": None}
    with pytest.raises(ValueError, match=message):
        run(**options)


@pytest.mark.parametrize("momentum", [-0.1, 1.0, math.nan, 5.0])
def test_an_impossible_momentum_is_refused(momentum):
    for make in (cg.CGA, cg.DPMSGD, cg.SGP, cg.QGDSGDm, cg.EDM):
        with pytest.raises(ValueError, match="momentum must be at least 0 and below 1"):
            make(momentum)


def test_bad_data_is_refused_before_training(blobs, mlp):
    X, y = blobs().inputs, blobs().labels
    with_nan = X.clone()
    with_nan[3, 1] = math.nan
    for data, message in (
        ((with_nan, y), "finite"),
        ((X, y - 1), "Labels|classes"),
        ((X[:0], y[:0]), "[Aa]t least one sample"),
        ((X, y[:-1]), "label"),
    ):
        with pytest.raises(ValueError, match=message):
            cg.fit(mlp(), data, graph=cg.ring(4), steps=1)
    with pytest.raises(ValueError, match="agents"):
        cg.fit(mlp(), (X[:5], y[:5]), graph=cg.ring(10), steps=1)
    with pytest.raises(ValueError, match="has 3 agents"):
        cg.fit(mlp(), [Samples(X, y)] * 2, graph=cg.ring(3), steps=1)
