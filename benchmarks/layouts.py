"""When channels last pay: the time of a bare pass with them over that without, by model and batch.

    python benchmarks/layouts.py

`channels_last.WIDE_CHANNELS` and `channels_last.MIN_WIDE_BATCH` follow from it.
"""

import copy
import statistics

import keeping
import torch
from bare import MODELS, bare

from crossgrad import models
from crossgrad._cli.freed_memory import keep_freed_memory
from crossgrad.models.channels_last import channels_last

CASES = {"cnn 28x28": ("cnn", (1, 28, 28)), "cnn 32x32": ("cnn", (3, 32, 32)), "vgg11 32x32": ("vgg11", (3, 32, 32))}
BATCHES = (2, 4, 8, 16, 32, 64)
ROUNDS = 7


def main() -> None:
    keep_freed_memory()
    torch.set_num_threads(1)
    found = {name: {batch: ratio(*case, batch) for batch in BATCHES} for name, case in CASES.items()}
    rows = [[name, *(f"{one:.2f}" for one in ratios.values())] for name, ratios in found.items()]
    text = f"A pass with channels last over one with channels first, one thread. {keeping.machine()}\n\n"
    keeping.keep("layouts", found, text + keeping.table(["batch", *map(str, BATCHES)], rows))


def ratio(model: str, shape: tuple[int, int, int], batch: int) -> float:
    """The median over rounds in which both take turns."""
    images, module = torch.randn(batch, *shape), models.build(MODELS[model], shape, 10, seed=0)
    last = copy.deepcopy(module).to(memory_format=torch.channels_last), channels_last(images)
    ratios = [bare(*last) / bare(module, images) for _ in range(ROUNDS)]
    return statistics.median(ratios[1:])


if __name__ == "__main__":
    main()
