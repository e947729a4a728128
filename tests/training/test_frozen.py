"""Parameters that are frozen by name, alike in `fit`, experiment files and optimisers."""

import pytest
import torch
from torch import nn

import crossgrad as cg

X = torch.randn(30, 4, generator=torch.Generator().manual_seed(0))
DATA = X, (X[:, 0] > 0).long()
FILE = """
agents = 3
partition = "iid"
graph = "ring"
algorithm = "dpsgd"
model = { name = "mlp", hidden = [5] }
training = { steps = 4, frozen = ["1"] }
"""


def net(frozen=False):
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(4, 3), nn.ReLU(), nn.Linear(3, 2))
    model[0].requires_grad_(not frozen)
    return model


def fit(model, **options):
    return cg.fit(model, DATA, graph=cg.ring(3), algorithm=cg.DPSGD(), steps=3, lr=0.1, progress=False, **options)


def test_frozen_by_name_is_frozen_by_requires_grad_and_the_users_model_stays_as_it_is():
    model = net()
    named, plain = fit(model, frozen="0"), fit(net(frozen=True))
    for name, value in plain.model.state_dict().items():
        assert torch.equal(named.model.state_dict()[name], value)
    assert torch.equal(named.model[0].weight, net()[0].weight)
    assert named.records[-1].bytes_sent == plain.records[-1].bytes_sent == 3 * 3 * 2 * (3 * 2 + 2) * 4
    assert all(p.requires_grad for p in model.parameters())


def test_an_experiment_file_freezes_by_name_and_the_forecast_of_bytes_knows_it():
    experiment = cg.experiments.parse(FILE)
    assert cg.experiments.parse(cg.experiments.to_toml(experiment)) == experiment
    training = experiment.start()
    before = training.state.x.clone()
    record = list(training)[-1]
    assert training.model.names == ["3.weight", "3.bias"]
    assert record.bytes_sent == 4 * 3 * 2 * (5 * 10 + 10) * 4
    assert not torch.equal(training.state.x, before)


@pytest.mark.parametrize("frozen", ["head", ["0", "1"]])
def test_a_name_that_matches_no_parameter_is_refused(frozen):
    with pytest.raises(ValueError, match=r"frozen must name parameters or modules of the model.* matches none of 0\."):
        fit(net(), frozen=frozen)


def test_an_optimiser_freezes_and_starts_as_fit_does(tmp_path):
    result = fit(net(), frozen="0")
    result.save(tmp_path / "model.safetensors")
    with cg.process_group():
        model = net()
        opt = cg.optim.DPSGD(model, graph=cg.ring(1), frozen=["0"], start=tmp_path / "model.safetensors")
        assert opt.flat.names == ["2.weight", "2.bias"]
        for name, value in result.model.state_dict().items():
            assert torch.equal(model.state_dict()[name], value)
