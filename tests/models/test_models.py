"""Parameter counts of the paper, and every model on every size of input."""

import pytest
import torch
from torch import nn

from crossgrad.models.zoo import MLP, MODELS, VGG11, Linear, PaperCNN, ReleasedCNN, build

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
        nn.Conv2d, nn.ReLU, nn.Conv2d, nn.MaxPool2d, nn.ReLU, nn.Conv2d, nn.ReLU, nn.Conv2d, nn.MaxPool2d, nn.ReLU,
        nn.Flatten, nn.Linear, nn.ReLU, nn.Linear,
    ]  # fmt: skip
    assert nn.ReLU not in [type(layer) for layer in ReleasedCNN().build((3, 32, 32), 10)]


def textbook(module):
    """The same layers with every ReLU before the pooling."""
    layers = list(module)
    for place in range(len(layers) - 1):
        if isinstance(layers[place], nn.MaxPool2d) and isinstance(layers[place + 1], nn.ReLU):
            layers[place], layers[place + 1] = layers[place + 1], layers[place]
    return nn.Sequential(*layers)


def bits(tensor):
    """Numbers that tell -0.0 from 0.0, and are equal where both are NaN."""
    return tensor.contiguous().view(torch.int32)


@pytest.mark.parametrize("nhwc", [False, True])
@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("model", [PaperCNN(), VGG11(), VGG11(group_norm=True)], ids=str)
def test_pooling_before_relu_has_the_bits_of_the_textbooks_order(model, shape, nhwc):
    layout = torch.channels_last if nhwc else torch.contiguous_format
    ours = build(model, shape, 10, seed=0).to(memory_format=layout)
    images = torch.randn(4, *shape, generator=torch.Generator().manual_seed(1)).contiguous(memory_format=layout)
    results = []
    for module in (ours, textbook(ours)):
        module.zero_grad()
        loss = nn.functional.cross_entropy(module(images), torch.arange(4))
        loss.backward()
        results.append([loss.detach(), *(p.grad.clone() for p in module.parameters())])
    assert [type(layer) for layer in ours] != [type(layer) for layer in textbook(ours)]
    assert all(torch.equal(bits(a), bits(b)) for a, b in zip(*results, strict=True))


@pytest.mark.parametrize("nhwc", [False, True])
def test_pooling_before_relu_has_the_textbooks_bits_where_numbers_are_equal_negative_zero_or_not_numbers(nhwc):
    """Every window of 2x2 over these values. Gradients have the same bits; of the outputs only the sign of a zero
    differs, where the largest number is -0.0, which no sum or product of a network turns into another number."""
    values = torch.tensor([-2.0, -1.0, -0.0, 0.0, 1.0, 1.0, 3.0, torch.inf, -torch.inf, torch.nan])
    windows = torch.cartesian_prod(values, values, values, values).view(-1, 1, 2, 2).expand(-1, 8, 2, 2)
    windows = windows.contiguous(memory_format=torch.channels_last if nhwc else torch.contiguous_format)
    weights = torch.randn(len(windows), 8, 1, 1, generator=torch.Generator().manual_seed(0))
    results = []
    for order in ((nn.MaxPool2d(2), nn.ReLU()), (nn.ReLU(), nn.MaxPool2d(2))):
        x = windows.clone().requires_grad_()
        out = nn.Sequential(*order)(x)
        (g,) = torch.autograd.grad(out, x, weights.expand_as(out))
        results.append((out.detach(), g))
    (out, g), (textbook_out, textbook_g) = results
    assert torch.equal(bits(g), bits(textbook_g))
    assert torch.equal(bits(out + 0.0), bits(textbook_out + 0.0))  # -0.0 + 0.0 is 0.0
    differ = bits(out) != bits(textbook_out)
    assert bool((torch.amax(windows, dim=(2, 3), keepdim=True)[differ] == 0).all())


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
