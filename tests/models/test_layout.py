"""Kernels and images with their channels last in memory: the same results, nothing copied, nothing seen outside."""

import copy

import pytest
import torch
from torch import nn
from torch.nn.functional import cross_entropy

import crossgrad as cg
from crossgrad._gradients.oracle import Oracle
from crossgrad._gradients.strategy import Gradients
from crossgrad._training.settings import TrainingSettings
from crossgrad._training.trainer import Training
from crossgrad.data import Batches, Pool, Samples
from crossgrad.models.buffers import Buffers
from crossgrad.models.channels_last import channels_last, channels_last_pays
from crossgrad.models.flat import FlatModel
from crossgrad.models.zoo import VGG11, PaperCNN, ReleasedCNN
from crossgrad.tasks import Classification

SHAPE = (3, 8, 8)


class Viewing(nn.Module):
    """Flattens by `view`, which refuses a tensor whose channels lie last."""

    def __init__(self):
        super().__init__()
        self.conv, self.out = nn.Conv2d(3, 4, 3, padding=1), nn.Linear(4 * 64, 10)

    def forward(self, x):
        return self.out(self.conv(x).view(len(x), -1))


def convolving():
    torch.manual_seed(0)
    return nn.Sequential(
        nn.Conv2d(3, 6, 3, padding=1), nn.MaxPool2d(2), nn.ReLU(), nn.Conv2d(6, 5, 3, groups=1, padding=1), nn.Tanh(),
        nn.Conv2d(5, 4, 1), nn.ConvTranspose2d(4, 4, 2, stride=2), nn.Flatten(), nn.Linear(256, 10),
    )  # fmt: skip


def images(count=24, seed=0, shape=SHAPE):
    generator = torch.Generator().manual_seed(seed)
    return Samples(torch.randn(count, *shape, generator=generator), torch.arange(count) % 10)


def dropping(layer):
    return nn.Sequential(nn.Conv2d(3, 6, 3, padding=1), layer, nn.Flatten(), nn.Linear(384, 10))


@pytest.mark.parametrize(
    ("module", "pays"),
    [
        (PaperCNN().build(SHAPE, 10), True),
        (ReleasedCNN().build(SHAPE, 10), True),
        (VGG11(group_norm=True).build(SHAPE, 10), True),
        (nn.Sequential(nn.Conv2d(3, 6, 3, padding=1), nn.BatchNorm2d(6), nn.Flatten(), nn.Linear(384, 10)), True),
        (nn.Sequential(nn.Conv2d(3, 6, 8), nn.Flatten(), nn.Dropout(0.5), nn.Linear(6, 10)), True),
        (dropping(nn.Dropout(0.5)), False),
        (Viewing(), False),
        (nn.Sequential(nn.Flatten(), nn.Linear(192, 10)), False),
        (nn.Linear(5, 5), False),
    ],
    ids=["cnn", "released", "vgg11", "batch norm", "dense dropout", "dropout", "view", "dense", "wrong"],
)
def test_channels_lie_last_where_a_model_convolves_and_its_results_stay_the_same(module, pays):
    before, state = copy.deepcopy(module.state_dict()), torch.get_rng_state()
    assert channels_last_pays(module, images().inputs[:2], 32) == pays
    assert torch.equal(torch.get_rng_state(), state)
    assert all(torch.equal(before[name], value) for name, value in module.state_dict().items())
    assert not channels_last_pays(module.double(), images().inputs[:2].double(), 32), "float64 has no fast kernels"


def test_wide_convolutions_need_many_images_to_be_faster_so():
    vgg11, cnn = VGG11().build(SHAPE, 10), PaperCNN().build(SHAPE, 10)
    assert [channels_last_pays(vgg11, images().inputs[:2], batch) for batch in (1, 31, 32)] == [False, False, True]
    assert channels_last_pays(cnn, images().inputs[:2], 1)


def oracle_of(nhwc, gradients):
    own = [images(20 + j, seed=j) for j in range(3)]
    pool = Pool.of(own, dtype=torch.float64, channels_last=nhwc)
    model = FlatModel(convolving().double(), nhwc)
    batches = Batches([len(s) for s in own], 8, seed=5)
    return Oracle(model, Classification(10), pool, batches, Buffers.of(model.module, 3), gradients=gradients)


@pytest.mark.parametrize("gradients", [Gradients.LOOP, Gradients.BATCHED])
def test_gradients_are_the_same_in_either_layout(gradients):
    plain, other = oracle_of(False, Gradients.LOOP), oracle_of(True, gradients)
    models = [plain.model.start + 0.1 * j for j in range(3)]
    turned = [other.model.flatten(plain.model.views(x)) for x in models]
    assert not torch.equal(turned[0], models[0]), "the order within the vector is another"
    for ask in (lambda oracle, x: oracle(torch.stack(x)), lambda oracle, x: oracle.cross(x, [2, 0, 1])):
        for g, h in zip(ask(plain, models), ask(other, turned), strict=True):
            back = plain.model.flatten(other.model.views(h))
            torch.testing.assert_close(back, g, rtol=1e-10, atol=1e-12)
    torch.testing.assert_close(other.losses, plain.losses, rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("nhwc", [False, True])
def test_a_backward_pass_adds_to_the_vector_it_was_given_and_copies_no_parameter(nhwc):
    model = FlatModel(convolving(), nhwc)
    x, g = model.start.clone(), torch.ones_like(model.start)
    model.load(x, g)
    own = list(model.parameters)
    addresses = [(p.data_ptr(), p.grad.data_ptr(), p.grad.stride()) for p in own]
    inputs = images().inputs
    cross_entropy(model.module(channels_last(inputs) if nhwc else inputs), images().labels).backward()
    assert [(p.data_ptr(), p.grad.data_ptr(), p.grad.stride()) for p in own] == addresses
    assert addresses[0][0] == x.data_ptr()
    assert addresses[0][1] == g.data_ptr()
    assert own[2].is_contiguous(memory_format=torch.channels_last) == nhwc
    twin = convolving()
    cross_entropy(twin(inputs), images().labels).backward()
    for p, expected in zip(own, twin.parameters(), strict=True):
        torch.testing.assert_close(p.grad, expected.grad + 1, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("shape", [(3, 8, 8), (1, 8, 8), (3, 1, 1), (192,)])
def test_rows_of_samples_keep_their_layout_and_their_values(shape):
    plain, chosen = images(shape=shape), torch.tensor([5, 0, 5, 23])
    assert torch.equal(plain.rows(chosen)[0], plain.inputs[chosen])
    assert plain.rows(chosen)[0].is_contiguous()
    if len(shape) == 3:
        turned = Samples(channels_last(plain.inputs), plain.labels)
        for inputs in (turned.rows(chosen)[0], turned.take(chosen).inputs):
            assert torch.equal(inputs, plain.inputs[chosen])
            assert inputs.stride() == turned.inputs[:4].stride()
        assert turned.inputs.stride(1) == 1
    assert torch.equal(plain.rows(chosen)[1], plain.labels[chosen])


def training(model, deterministic=False):
    own = [images(20, seed=j) for j in range(3)]
    settings = TrainingSettings(batch_size=8, steps=3, deterministic=deterministic)
    return Training(model, own, cg.CGA(0.9), cg.ring(3), settings, images(30, seed=9))


def test_models_that_leave_a_run_have_ordinary_parameters_in_their_own_order():
    model = PaperCNN().build(SHAPE, 10)
    run = training(model)
    assert run.passes == "gradients: one by one, with channels last in memory."
    assert run.agents[0].inputs.stride(1) == 1
    for trained in (run.averaged_model(), run.agent_model(1)):
        for p, start in zip(trained.parameters(), model.parameters(), strict=True):
            assert p.stride() == start.stride()
            torch.testing.assert_close(p, start)
            assert p.untyped_storage().nbytes() == start.untyped_storage().nbytes()
    records = list(run)
    x = images(30, seed=9)
    with torch.no_grad():
        loss = cross_entropy(run.averaged_model()(x.inputs), x.labels)
    assert records[-1].test_loss == pytest.approx(float(loss), rel=1e-5)


def test_a_run_is_the_same_up_to_rounding_with_channels_last(monkeypatch):
    model = PaperCNN().build(SHAPE, 10)
    turned = training(model)
    records = [r.as_json() for r in turned]
    monkeypatch.setattr("crossgrad._training.trainer.channels_last_pays", lambda *_: False)
    plain = training(model)
    assert [r["loss"] for r in records] == pytest.approx([r.loss for r in plain], rel=1e-4)
    assert not plain.model.channels_last
    for a, b in zip(turned.averaged_model().parameters(), plain.averaged_model().parameters(), strict=True):
        torch.testing.assert_close(a, b, rtol=1e-3, atol=1e-6)
