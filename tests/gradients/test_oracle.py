"""Gradients as flat vectors equal what plain PyTorch computes, and asking for them leaves no trace."""

import copy

import pytest
import torch
from torch import nn
from torch.nn.functional import cross_entropy

from crossgrad._gradients.oracle import FlatModel, Oracle
from crossgrad.data import Batches, Pool, Samples
from crossgrad.models.buffers import Buffers
from crossgrad.tasks import Classification


class Tied(nn.Module):
    """Uses one weight twice, has a frozen one and one that is never used."""

    def __init__(self):
        super().__init__()
        self.a = nn.Linear(4, 4)
        self.b = nn.Linear(4, 4)
        self.b.weight = self.a.weight
        self.out = nn.Linear(4, 3)
        self.out.bias.requires_grad_(False)
        self.unused = nn.Parameter(torch.ones(2))

    def forward(self, x):
        return self.out(self.b(torch.tanh(self.a(x))))


class Replacing(nn.Module):
    """Keeps a running mean by replacing its buffer instead of changing it in place."""

    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(4, 3)
        self.register_buffer("seen", torch.zeros(4))

    def forward(self, x):
        if self.training:
            self.seen = 0.5 * self.seen + 0.5 * x.detach().mean(dim=0)
        return self.layer(x - self.seen)


MODELS = {
    "linear": lambda: nn.Linear(4, 3),
    "mlp": lambda: nn.Sequential(nn.Linear(4, 6), nn.ReLU(), nn.Linear(6, 3)),
    "tied": Tied,
    "batch norm": lambda: nn.Sequential(nn.Linear(4, 6), nn.BatchNorm1d(6), nn.ReLU(), nn.Linear(6, 3)),
    "replacing": Replacing,
    "dropout": lambda: nn.Sequential(nn.Linear(4, 6), nn.Dropout(0.5), nn.Linear(6, 3)),
}


@pytest.fixture(params=MODELS)
def setting(request, blobs):
    torch.manual_seed(0)
    return make(MODELS[request.param](), blobs)


def make(model, blobs, agents=3):
    samples = [Samples(s.inputs.double(), s.labels) for s in (blobs(20 + 5 * j, seed=j) for j in range(agents))]
    flat = FlatModel(copy.deepcopy(model).double())
    buffers = Buffers.of(flat.module, agents)
    oracle = Oracle(
        flat, Classification(3), Pool.of(samples), Batches([len(own) for own in samples], 8, seed=5), buffers
    )
    generator = torch.Generator().manual_seed(1)
    x = flat.start + 0.3 * torch.randn(agents, len(flat.start), generator=generator, dtype=torch.float64)
    return copy.deepcopy(model).double(), oracle, x


def plain_gradient(model, oracle, x_D, agent, buffers=None):
    """The same gradient by an untouched module and torch.autograd.grad."""
    module = copy.deepcopy(model).train()
    parameters = [p for p in module.parameters() if p.requires_grad]
    start = 0
    with torch.no_grad():
        for p in parameters:
            p.copy_(x_D[start : start + p.numel()].view_as(p))
            start += p.numel()
    if buffers is not None:
        module.load_state_dict(buffers, strict=False)
    own, chosen = oracle.samples[agent], oracle.batches.indices(agent, int(oracle.drawn[agent]) - 1)
    torch.manual_seed(oracle.current[agent].noise)
    loss = cross_entropy(module(own.inputs[chosen]), own.labels[chosen])
    grads = torch.autograd.grad(loss, parameters, allow_unused=True)
    flat = [torch.zeros_like(p) if g is None else g for g, p in zip(grads, parameters, strict=True)]
    return torch.cat([g.reshape(-1) for g in flat]), float(loss.detach()), module


def test_own_gradients_and_losses_equal_autograd(setting):
    model, oracle, x = setting
    g = oracle(x)
    for j in range(len(x)):
        expected, loss, _ = plain_gradient(model, oracle, x[j], j)
        torch.testing.assert_close(g[j], expected, rtol=1e-12, atol=1e-14)
        assert float(oracle.losses[j]) == pytest.approx(loss, rel=1e-12)


def test_cross_gradients_are_taken_on_the_hosts_batch_at_the_guests_model(setting):
    model, oracle, x = setting
    oracle(x)
    pairs = [(0, 1), (1, 0), (2, 1), (0, 2)]
    # The parameters are those of the other agent; the buffers are the agent's own.
    state = [buffer_dict(oracle, j) for j in range(len(x))]
    g = oracle.cross([x[j] for j, _ in pairs], [l for _, l in pairs])
    for row, (other, agent) in zip(g, pairs, strict=True):
        expected, _, _ = plain_gradient(model, oracle, x[other], agent, state[agent])
        torch.testing.assert_close(row, expected, rtol=1e-12, atol=1e-14)


def buffer_dict(oracle, agent):
    oracle.buffers.load(*oracle.buffers.copy_of(agent))
    return {name: value.clone() for name, value in oracle.model.module.named_buffers()}


def test_an_own_pass_updates_only_ones_own_buffers_and_a_cross_pass_none(setting):
    model, oracle, x = setting
    before = oracle.buffers.floats_NF.clone()
    active = torch.tensor([True, False, True])
    oracle(x, active)
    changed = (oracle.buffers.floats_NF != before).any(dim=1) if before.shape[1] else torch.zeros(3, dtype=torch.bool)
    assert not bool(changed[1])
    if before.shape[1]:
        assert bool(changed[0])
        _, _, module = plain_gradient(model, oracle, x[0], 0)
        expected = torch.cat([b.reshape(-1) for b in module.buffers() if b.is_floating_point()])
        torch.testing.assert_close(oracle.buffers.floats_NF[0], expected, rtol=1e-12, atol=1e-14)
    floats, integers = oracle.buffers.floats_NF.clone(), oracle.buffers.integers_NI.clone()
    oracle.cross([x[0], x[2]], [2, 0])
    assert torch.equal(oracle.buffers.floats_NF, floats)
    assert torch.equal(oracle.buffers.integers_NI, integers)


def test_batch_norm_counts_its_batches_per_agent(blobs):
    _, oracle, x = make(MODELS["batch norm"](), blobs)
    oracle(x, torch.tensor([True, False, True]))
    oracle(x)
    oracle.cross([x[0]], [1])
    assert oracle.buffers.integers_NI[:, 0].tolist() == [2, 1, 2]


def test_only_active_agents_draw_and_the_others_get_zeros(setting):
    _, oracle, x = setting
    g = oracle(x, torch.tensor([False, True, False]))
    assert float(g[0].abs().sum() + g[2].abs().sum()) == 0.0
    assert oracle.drawn.tolist() == [0, 1, 0]
    assert oracle.evaluations.tolist() == [0, 1, 0]


def test_the_users_module_models_and_random_state_are_left_alone(blobs):
    model = MODELS["dropout"]()
    weights = copy.deepcopy(model.state_dict())
    _, oracle, x = make(model, blobs)
    kept, state = x.clone(), torch.get_rng_state()
    oracle(x)
    oracle.cross([x[0]], [1])
    assert torch.equal(torch.get_rng_state(), state)
    assert torch.equal(x, kept)
    assert all(torch.equal(weights[name], value) for name, value in model.state_dict().items())


def test_gradients_are_a_pure_function_of_seed_and_batch(blobs):
    """The same whether others draw or not, and whatever the global random state is."""
    _, one, x = make(MODELS["dropout"](), blobs)
    torch.manual_seed(7)
    _, two, _ = make(MODELS["dropout"](), blobs)
    two.model.start.copy_(one.model.start)
    first = one(x)
    torch.manual_seed(8)
    two(x, torch.tensor([False, True, True]))
    again = two(x, torch.tensor([True, False, False]))
    assert torch.equal(first[0], again[0])


def test_a_model_with_nothing_to_train_says_so():
    model = nn.Linear(2, 2).requires_grad_(False)
    with pytest.raises(ValueError, match="nothing to train"):
        FlatModel(model)


@pytest.mark.parametrize("name", MODELS)
def test_small_models_without_state_or_noise_are_evaluated_all_at_once(name, blobs):
    _, oracle, _ = make(MODELS[name](), blobs)
    assert (oracle.batched is not None) == (name in ("linear", "mlp", "tied"))


def test_one_pass_for_all_equals_the_loop(blobs):
    """Random models, batches of unlike sizes among them; float64."""
    for model in (
        MODELS["mlp"](),
        nn.Sequential(nn.Unflatten(1, (1, 2, 2)), nn.Conv2d(1, 3, 2), nn.Flatten(), nn.Tanh()),
    ):
        _, together, x = make(model, blobs)
        _, loop, _ = make(model, blobs)
        loop.batched = None
        assert together.batched is not None
        torch.testing.assert_close(together(x), loop(x), rtol=1e-10, atol=1e-12)
        torch.testing.assert_close(together.losses, loop.losses, rtol=1e-10, atol=1e-12)
        others, agents = [x[0], x[2], x[1], x[0]], [1, 1, 0, 2]
        torch.testing.assert_close(together.cross(others, agents), loop.cross(others, agents), rtol=1e-10, atol=1e-12)
        assert together.evaluations.tolist() == loop.evaluations.tolist()


def test_a_layer_that_cannot_be_batched_falls_back_to_the_loop(blobs):
    class Branching(nn.Module):
        def __init__(self):
            super().__init__()
            self.layer = nn.Linear(4, 3)

        def forward(self, x):
            out = self.layer(x)
            return out if float(out.detach().sum()) > 0 else 2 * out

    _, oracle, x = make(Branching(), blobs)
    assert oracle.batched is None
    assert bool(oracle(x).isfinite().all())


def test_a_large_model_is_evaluated_one_by_one(blobs):
    _, oracle, _ = make(nn.Sequential(nn.Linear(4, 20_000), nn.Linear(20_000, 3)), blobs, agents=2)
    assert oracle.batched is None
