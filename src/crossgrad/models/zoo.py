"""The models of the paper and two small ones, for inputs of 8x8, 28x28 and 32x32.

Each is a frozen dataclass whose `build` makes the `nn.Module`; any module of your own serves just as well. Where a
textbook has convolution, ReLU, max-pooling, here the pooling comes before the ReLU: gradients are the same to the bit,
outputs too but for the sign of a zero, and the ReLU has a quarter of the work.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from math import prod
from typing import Protocol

from torch import nn

from crossgrad._numerics.global_generator import seeded
from crossgrad._numerics.seeding import key
from crossgrad._registry.entries import as_class_or_function
from crossgrad._registry.registry import Registry

Shape = Sequence[int]  # channels, height, width


class Model(Protocol):
    """Options of a network, and `build`, which makes it."""

    def build(self, shape: Shape, classes: int) -> nn.Module:
        """The network for inputs of this shape, with PyTorch's own initial values."""


@dataclass(frozen=True)
class Linear:
    """Multinomial logistic regression: one linear layer."""

    def build(self, shape: Shape, classes: int) -> nn.Module:
        return nn.Sequential(nn.Flatten(), nn.Linear(prod(shape), classes))


@dataclass(frozen=True)
class MLP:
    """Fully connected layers with ReLU between them.

    Args:
        hidden: units of each hidden layer.
    """

    hidden: tuple[int, ...] = (32,)

    def __post_init__(self) -> None:
        if any(width < 1 for width in self.hidden):
            raise ValueError(f"the mlp's hidden layers need at least one unit each; found {list(self.hidden)}.")

    def build(self, shape: Shape, classes: int) -> nn.Module:
        widths = [prod(shape), *self.hidden]
        layers: list[nn.Module] = [nn.Flatten()]
        for i, o in pairwise(widths):
            layers += [nn.Linear(i, o), nn.ReLU()]
        return nn.Sequential(*layers, nn.Linear(widths[-1], classes))


@dataclass(frozen=True)
class PaperCNN:
    """The paper's CNN: conv32-conv32-pool-conv64-conv64-pool-dense512-dense10 with ReLU.

    >>> sum(p.numel() for p in PaperCNN().build((3, 32, 32), 10).parameters())
    2168362
    """

    def build(self, shape: Shape, classes: int) -> nn.Module:
        channels, height, width = _image(shape, 4)
        return nn.Sequential(
            *_conv(channels, 32), *_pooled(_conv(32, 32)),
            *_conv(32, 64), *_pooled(_conv(64, 64)),
            nn.Flatten(), nn.Linear(64 * (height // 4) * (width // 4), 512), nn.ReLU(), nn.Linear(512, classes),
        )  # fmt: skip


@dataclass(frozen=True)
class ReleasedCNN:
    """The CNN of the authors' released code: no activation, one dense layer.

    The released code has a dropout layer that is never switched on, so it is left out here.

    >>> sum(p.numel() for p in ReleasedCNN().build((3, 32, 32), 10).parameters())
    75818
    """

    def build(self, shape: Shape, classes: int) -> nn.Module:
        channels, height, width = _image(shape, 8)

        def conv(i: int, o: int) -> nn.Module:
            return nn.Conv2d(i, o, 3, padding=1)

        return nn.Sequential(
            conv(channels, 32), conv(32, 32), nn.MaxPool2d(2), conv(32, 64), nn.MaxPool2d(2), conv(64, 64),
            nn.MaxPool2d(2), nn.Flatten(), nn.Linear(64 * (height // 8) * (width // 8), classes),
        )  # fmt: skip


@dataclass(frozen=True)
class VGG11:
    """VGG11 with one dense layer: eight convolutions and five poolings, plain or with GroupNorm.

    Pooling layers whose output would be empty (the fifth at 28x28, the fourth and fifth at 8x8) are left out.

    Args:
        group_norm: whether every convolution is followed by GroupNorm.

    >>> sum(p.numel() for p in VGG11().build((3, 32, 32), 10).parameters())
    9225610
    """

    group_norm: bool = False

    def build(self, shape: Shape, classes: int) -> nn.Module:
        channels, height, width = _image(shape, 1)
        layers: list[nn.Module] = []
        for stage in ([64], [128], [256, 256], [512, 512], [512, 512]):
            for filters in stage:
                conv, relu = _conv(channels, filters)
                layers += [conv, nn.GroupNorm(32, filters), relu] if self.group_norm else [conv, relu]
                channels = filters
            if min(height, width) >= 2:
                layers = _pooled(layers)
                height, width = height // 2, width // 2
        return nn.Sequential(*layers, nn.Flatten(), nn.Linear(channels * height * width, classes))


def build(model: Model, shape: Shape, classes: int, seed: int) -> nn.Module:
    """The network with initial values drawn by `seed`, the caller's random state left as it was.

    Args:
        model: the recipe.
        shape: the shape of one input.
        classes: how many classes there are.
        seed: seed of the initial parameters.
    """
    with seeded(key(seed, "initial model")):
        return model.build(shape, classes)


def _conv(i: int, o: int) -> tuple[nn.Module, nn.Module]:
    return nn.Conv2d(i, o, 3, padding=1), nn.ReLU()


def _pooled(layers: Sequence[nn.Module]) -> list[nn.Module]:
    """The layers with a pooling before the ReLU that ends them."""
    return [*layers[:-1], nn.MaxPool2d(2), layers[-1]]


def _image(shape: Shape, least: int) -> tuple[int, int, int]:
    if len(shape) != 3 or min(shape[1:]) < least:
        raise ValueError(
            f"this network takes images (channels, height, width) of at least {least}x{least}; found inputs of shape "
            f"{tuple(shape)}. Use the mlp or linear model, or reshape the data."
        )
    return shape[0], shape[1], shape[2]


_BUILT_IN: dict[str, type[Model]] = {
    "linear": Linear,
    "mlp": MLP,
    "cnn": PaperCNN,
    "cnn-released": ReleasedCNN,
    "vgg11": VGG11,
}

MODELS: Registry[type[Model]] = Registry(
    "model", _BUILT_IN, lambda name, thing: as_class_or_function("model", name, thing, "build", ("shape", "classes"))
)
