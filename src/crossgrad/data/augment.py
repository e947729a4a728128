"""Augmentation: a transform of the inputs that is drawn anew for every batch."""

from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor
from torch.nn.functional import pad

from crossgrad._numerics.global_generator import all_seeded
from crossgrad._registry.entries import as_class_or_function
from crossgrad._registry.registry import Registry
from crossgrad.data.nested import Nested


class Augment(Protocol):
    """A random transform of a batch's inputs.

    It is called once for every mini-batch of an agent, with a generator that is seeded by (seed, agent, batch). So an
    agent's loss is the same function throughout a step, and a resumed run draws the same numbers. During the call the
    global generators of `torch`, `numpy.random` and `random` are seeded in the same way, for transforms of other
    libraries that draw from those. It may run in a worker process, so it must be picklable: a frozen dataclass or a
    module-level function.
    """

    def __call__(self, inputs: Nested, generator: torch.Generator) -> Nested:
        """The transformed inputs.

        Args:
            inputs: of a batch, samples along axis 0; not to be changed in place.
            generator: what to draw from.
        """


@dataclass(frozen=True)
class CropFlip:
    """Random crops of padded images, and mirror images with probability 1/2.

    Each image is padded by `padding` zeros on every side and cropped back to its size at a random place, then mirrored
    from left to right with probability 1/2: the usual augmentation of CIFAR-10.

    Args:
        padding: zeros added on every side before cropping, in pixels; 0 or more.
        flip: whether to mirror images left to right, each with probability 1/2.

    Reference:
        He, Zhang, Ren, Sun: Deep Residual Learning for Image Recognition. 2015, arXiv:1512.03385 (section 4.2).

    >>> images = torch.arange(8.0).reshape(1, 1, 2, 4)
    >>> CropFlip(padding=0)(images, torch.Generator().manual_seed(1)).shape
    torch.Size([1, 1, 2, 4])
    """

    padding: int = 4
    flip: bool = True

    def __post_init__(self) -> None:
        if self.padding < 0:
            raise ValueError(f"crop-flip: padding must be 0 or more pixels; found {self.padding}.")

    def __call__(self, inputs: Tensor, generator: torch.Generator) -> Tensor:
        if not isinstance(inputs, Tensor) or inputs.dim() != 4:
            found = tuple(inputs.shape) if isinstance(inputs, Tensor) else type(inputs).__name__
            raise ValueError(f"crop-flip needs images (n, channels, height, width); found {found}.")
        n, _, height, width = inputs.shape
        top, left = torch.randint(2 * self.padding + 1, (2, n), generator=generator)
        rows_nH = top[:, None] + torch.arange(height)
        columns_nW = left[:, None] + torch.arange(width)
        if self.flip:
            mirrored = torch.rand(n, generator=generator) < 0.5
            columns_nW = torch.where(mirrored[:, None], columns_nW.flip(1), columns_nW)
        nhwc = inputs.stride(1) == 1
        padded = pad(inputs.permute(0, 2, 3, 1), (0, 0, *[self.padding] * 4))  # n, height, width, channels
        n_n11 = torch.arange(n)[:, None, None]
        picked = padded[n_n11, rows_nH[:, :, None], columns_nW[:, None, :]].permute(0, 3, 1, 2)
        return picked if nhwc else picked.contiguous()


def augmented(augment: Augment, inputs: Nested, seed: int) -> Nested:
    """Transform a batch's inputs, with whatever the augmentation may draw from seeded by this number."""
    with all_seeded(seed):
        return augment(inputs, torch.Generator().manual_seed(seed))


AUGMENTATIONS: Registry[type[Augment]] = Registry(
    "augmentation",
    {"crop-flip": CropFlip},
    lambda name, thing: as_class_or_function("augmentation", name, thing, "__call__", ("inputs", "generator")),
)
