"""Global generators: that of PyTorch, which random layers draw from, and those of numpy and Python."""

import random
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np
import torch

_LOCK = threading.RLock()


@contextmanager
def seeded(seed: int, device: torch.device | None = None) -> Iterator[None]:
    """Seed the global generators in this block, and put them back as they were.

    One thread of crossgrad at a time is in such a block, so that trainings in several threads draw what each would
    draw alone. Another thread of the user's that draws from the global generator meanwhile cannot be kept out: it must
    use a `torch.Generator` of its own.

    Args:
        seed: of what is drawn in the block.
        device: a GPU whose generator is seeded too.
    """
    cuda = device if device is not None and device.type == "cuda" else None
    with _LOCK, torch.random.fork_rng(devices=[] if cuda is None else [cuda]):
        torch.default_generator.manual_seed(seed)
        if cuda is not None:
            torch.cuda.manual_seed(seed)
        yield


@contextmanager
def all_seeded(seed: int) -> Iterator[None]:
    """Seed the global generators of torch, numpy and random in this block, and restore them afterwards."""
    with seeded(seed):  # one thread at a time
        before = random.getstate(), np.random.get_state()
        random.seed(seed)
        np.random.seed(seed % 2**32)
        try:
            yield
        finally:
            random.setstate(before[0])
            np.random.set_state(before[1])
