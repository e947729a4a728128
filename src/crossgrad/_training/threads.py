"""The number of threads for a run: for a small model, synchronising threads takes longer than the pass itself."""

import math
import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import nn

from crossgrad._training.trainer import Training
from crossgrad.data.nested import leaves

LIGHT_FLOPS = 200_000_000  # of a forward pass over a batch, about 5 ms of one core
THREADS_VARIABLE = "OMP_NUM_THREADS"  # set by the user: it is left alone


def pass_flops(module: nn.Module, inputs: Any, batch_size: int) -> int:
    """Roughly the floating-point operations of a forward pass over a batch, from the sizes of layers and inputs.

    Two for each parameter and sample; of convolutions also for each pixel, and of other layers for each token where a
    sample is a sequence. Strides and pooling are left out, so that it is an upper bound for most models.

    Args:
        module: the model.
        inputs: of a few samples, as the model takes them.
        batch_size: samples of a batch.

    >>> pass_flops(nn.Linear(10, 5, bias=False), torch.zeros(3, 10), batch_size=4)
    400
    """
    convolved = {
        id(p)
        for layer in module.modules()
        if isinstance(layer, nn.Conv1d | nn.Conv2d | nn.Conv3d)
        for p in layer.parameters(recurse=False)
    }
    first = max(leaves(inputs), key=lambda part: part.dim())
    sample = tuple(first.shape[1:])
    pixels = math.prod(sample[1:])
    tokens = sample[0] if not convolved and (len(sample) > 1 or (sample and not first.is_floating_point())) else 1
    return 2 * batch_size * sum(p.numel() * (pixels if id(p) in convolved else tokens) for p in module.parameters())


@contextmanager
def suitable_threads(training: Training) -> Iterator[None]:
    """Use one thread of PyTorch within this block if a pass is light, unless OMP_NUM_THREADS is set.

    Threads wait for one another after every operation. Beside other programs, a light pass was many times slower with
    two threads than with one; a heavy one gains from them.
    """
    before = torch.get_num_threads()
    inputs, _ = training.agents[0].piece(0, 1)
    size = training.settings.micro_batch or training.settings.batch_size
    light = pass_flops(training.model.module, inputs, size) <= LIGHT_FLOPS
    if light and THREADS_VARIABLE not in os.environ:
        torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)
