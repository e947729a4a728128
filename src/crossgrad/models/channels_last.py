"""Whether a model's images and kernels should lie in memory with their channels last (NHWC)."""

import copy

import torch
from torch import Tensor, nn

from crossgrad._numerics.global_generator import seeded
from crossgrad.models.flat import FlatModel

TRIAL_IMAGES = 2  # images of the trial
MAX_RELATIVE_ERROR = 1e-3  # of the largest gradient: what a float32 pass in another order may differ by
WIDE_CHANNELS = 256  # channels from which on a convolution is slower so,
MIN_WIDE_BATCH = 32  # unless the batch has as many images: see benchmarks/layouts.py


def channels_last_pays(module: nn.Module, inputs: Tensor, batch: int) -> bool:
    """Whether this layout is faster for images like `inputs` (n, channels, height, width), with equal results.

    A rule, not a measurement, so that it is a function of the experiment: convolutions in float32 on a CPU, but for
    wide ones with small batches. It is tried on random images first, because it can change what a module does:
    `x.view(n, -1)` refuses such a tensor (`flatten` does not), and dropout on images draws another mask.
    """
    widths = [layer.in_channels for layer in module.modules() if isinstance(layer, nn.Conv2d | nn.ConvTranspose2d)]
    if not widths or (max(widths) >= WIDE_CHANNELS and batch < MIN_WIDE_BATCH):
        return False
    if (
        not isinstance(inputs, Tensor)
        or inputs.dim() != 4
        or inputs.dtype != torch.float32
        or inputs.device.type != "cpu"
    ):
        return False
    shape, chance = (TRIAL_IMAGES, *inputs.shape[1:]), torch.Generator().manual_seed(0)
    images = torch.randn(shape, generator=chance, dtype=torch.float32)
    try:
        plain, other = _gradient(module, images, False), _gradient(module, channels_last(images), True)
    except (RuntimeError, ValueError, TypeError, IndexError, AttributeError):
        return False
    return bool((plain - other).abs().max() <= MAX_RELATIVE_ERROR * plain.abs().max())


def channels_last(images: Tensor) -> Tensor:
    """A copy with the same shape, whose channels lie next to one another in memory."""
    return images.permute(0, 2, 3, 1).clone(memory_format=torch.contiguous_format).permute(0, 3, 1, 2)


def _gradient(module: nn.Module, images: Tensor, nhwc: bool) -> Tensor:
    """Of the sum of squares of the outputs, at the module's own parameters; the module is left as it was."""
    model = FlatModel(copy.deepcopy(module).train(), nhwc)
    g_D = torch.zeros_like(model.start)
    model.load(model.start, g_D)
    with seeded(0), torch.enable_grad():
        model.module(images).square().sum().backward()
    return torch.cat([grad.reshape(-1) for grad in model.views(g_D)])
