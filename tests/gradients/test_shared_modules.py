"""Models in which something occurs twice have the gradients of plain PyTorch, in whichever way they are taken."""

import copy

import pytest
import torch
from torch import nn
from torch.nn.utils.parametrizations import weight_norm

import crossgrad as cg


class Twice(nn.Module):
    """Two layers in a row, which may be one, under one name or two."""

    def __init__(self, first: nn.Module, second: nn.Module) -> None:
        super().__init__()
        self.first, self.second, self.last = first, second, nn.Linear(4, 3)

    def forward(self, x):
        return self.last(torch.tanh(self.second(torch.tanh(self.first(x)))))


def one_name():
    model = Twice(nn.Linear(4, 4), nn.Identity())
    model.second.forward = model.first.forward  # the same layer is called twice
    return model


def two_names(layer):
    return Twice(layer, layer)


def in_a_list():
    layer = nn.Linear(4, 4)
    return nn.Sequential(layer, nn.Tanh(), layer, nn.Tanh(), nn.Linear(4, 3))


def tied_weights():
    model = Twice(nn.Linear(4, 4), nn.Linear(4, 4))
    model.second.weight = model.first.weight
    return model


class Scaled(nn.Module):
    """Has a parameter of a single number, and one of none."""

    def __init__(self):
        super().__init__()
        self.scale, self.none = nn.Parameter(torch.tensor(1.5)), nn.Parameter(torch.zeros(0))
        self.layer = nn.Linear(4, 3)

    def forward(self, x):
        return self.scale * self.layer(x) + self.none.sum()


class Remembers(nn.Module):
    """Uses what its last pass left in it, in a place that is no buffer."""

    def __init__(self):
        super().__init__()
        self.layer, self.before = nn.Linear(4, 3), []

    def forward(self, x):
        output = self.layer(x) + sum(0 * each.mean() for each in self.before)
        self.before[:] = [output.detach()]
        return output


SHARED = {
    "a module that uses its last pass": Remembers,
    "a parameter of a single number": Scaled,
    "a layer called twice": one_name,
    "a layer under two names": lambda: two_names(nn.Linear(4, 4)),
    "a layer twice in a list": in_a_list,
    "a block under two names": lambda: two_names(nn.Sequential(nn.Linear(4, 4), nn.LayerNorm(4))),
    "a parametrised layer under two names": lambda: two_names(weight_norm(nn.Linear(4, 4))),
    "batch normalisation under two names": lambda: two_names(nn.BatchNorm1d(4)),
    "tied weights": tied_weights,
}


@pytest.mark.parametrize("kind", SHARED)
def test_a_module_used_twice_is_trained_by_four_agents_as_by_plain_pytorch(kind, blobs):
    """It failed with "escaped from vmap". One batch of all samples on a full graph is plain gradient descent."""
    torch.manual_seed(0)
    model, samples = SHARED[kind]().double(), blobs(30)
    plain = copy.deepcopy(model)
    if kind == "a layer called twice":
        plain.second.forward = plain.first.forward
    own = (samples.inputs.double(), samples.labels)
    fitted = cg.fit(
        *(model, [own] * 4),
        graph=cg.fully_connected(4),
        algorithm=cg.DPSGD(),
        lr=0.1,
        steps=3,
        batch_size=30,
        dtype=torch.float64,
    )
    optimiser = torch.optim.SGD(plain.parameters(), lr=0.1)
    for _ in range(3):
        optimiser.zero_grad()
        nn.functional.cross_entropy(plain(own[0]), own[1]).backward()
        optimiser.step()
    for found, expected in zip(fitted.model.parameters(), plain.parameters(), strict=True):
        torch.testing.assert_close(found, expected, rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("agents", [2, 4])
@pytest.mark.parametrize("start", ["weight", "loss"])
def test_a_run_that_is_not_finite_at_its_start_says_so_with_agent_and_step(agents, start, blobs):
    """With three agents or more it was an error of torch.allclose."""
    model, options = nn.Linear(4, 3), {}
    if start == "weight":
        model.weight.data[0, 0] = torch.nan
    else:
        options["loss"] = lambda output, labels: torch.nan * nn.functional.cross_entropy(output, labels)
    with pytest.warns(UserWarning, match=r"nonfinite at step 0: .* on the data of agent 0 is nan"):
        result = cg.fit(model, [blobs(20)] * agents, graph=cg.chain(agents), steps=3, **options)
    assert result.status == "nonfinite"
