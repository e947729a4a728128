"""Parameter counts of the paper, and every model on every size of input."""

import pytest
import torch
from torch import nn

from crossgrad.models import MLP, MODELS, VGG11, Linear, PaperCNN, ReleasedCNN, build

SHAPES = [(1, 8, 8), (1, 28, 28), (3, 32, 32)]


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("model", [*(make() for make in MODELS.values()), VGG11(group_norm=True)], ids=str)
def test_every_model_takes_every_size_of_input(model, shape):
    module = model.build(shape, 10)
    assert module(torch.randn(2, *shape)).shape == (2, 10)


def count(module):
    return sum(p.numel() for p in module.parameters())


def test_parameters_are_those_of_the_paper():
    assert count(PaperCNN().build((3, 32, 32), 10)) == 2_168_362
    assert count(ReleasedCNN().build((3, 32, 32), 10)) == 75_818
    assert count(VGG11().build((3, 32, 32), 10)) == 9_225_610
    assert count(MLP((32,)).build((1, 8, 8), 10)) == 64 * 32 + 32 + 32 * 10 + 10
    assert count(Linear().build((1, 8, 8), 10)) == 650


def test_the_papers_cnn_has_a_relu_after_each_convolution_and_the_released_one_none():
    kinds = [type(layer) for layer in PaperCNN().build((3, 32, 32), 10)]
    assert kinds == [
        nn.Conv2d, nn.ReLU, nn.Conv2d, nn.ReLU, nn.MaxPool2d, nn.Conv2d, nn.ReLU, nn.Conv2d, nn.ReLU, nn.MaxPool2d,
        nn.Flatten, nn.Linear, nn.ReLU, nn.Linear,
    ]  # fmt: skip
    assert nn.ReLU not in [type(layer) for layer in ReleasedCNN().build((3, 32, 32), 10)]


def test_group_norm_adds_its_parameters_and_no_buffers():
    plain, normed = (VGG11(group_norm=norm).build((3, 32, 32), 10) for norm in (False, True))
    assert count(normed) - count(plain) == 2 * (64 + 128 + 2 * 256 + 4 * 512)
    assert list(normed.buffers()) == []


def test_initial_values_depend_on_the_seed_only():
    torch.manual_seed(1)
    one, state = build(MLP(), (1, 8, 8), 10, seed=3), torch.get_rng_state()
    torch.manual_seed(2)
    two, other = build(MLP(), (1, 8, 8), 10, seed=3), build(MLP(), (1, 8, 8), 10, seed=4)
    torch.manual_seed(1)
    assert torch.equal(torch.get_rng_state(), state), "the caller's random state is left alone"
    assert all(torch.equal(a, b) for a, b in zip(one.parameters(), two.parameters(), strict=True))
    assert not torch.equal(next(one.parameters()), next(other.parameters()))


@pytest.mark.parametrize("model", [PaperCNN(), ReleasedCNN(), VGG11()])
def test_a_network_for_images_refuses_plain_features(model):
    with pytest.raises(ValueError, match="takes images"):
        model.build((20,), 10)


def test_a_layer_without_units_is_refused():
    with pytest.raises(ValueError, match="at least one unit"):
        MLP((8, 0))
