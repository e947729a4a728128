"""When one pass for many gradients pays: the time of a plain loop over that of the pass, by size and number.

    python benchmarks/choice.py

`batched.MAX_BATCHED_PARAMETERS` and `batched.MIN_BATCHED_AGENTS` follow from it.
"""

import statistics
import time

import keeping
import torch
from torch.nn.functional import cross_entropy

from crossgrad import models
from crossgrad._cli.freed_memory import keep_freed_memory
from crossgrad._gradients.batched import batched_pass
from crossgrad._gradients.strategy import Gradients
from crossgrad.models.flat import FlatModel
from crossgrad.tasks import Classification

CASES = [(8, 32), (8, 128), (28, 16), (8, 300), (28, 32), (28, 64), (28, 120)]  # pixels a side, hidden units
COUNTS = (2, 3, 4, 8, 30, 100)
BATCH, ROUNDS = 16, 12


def main() -> None:
    keep_freed_memory()
    torch.set_num_threads(1)
    found = {}
    for side, hidden in CASES:
        model = FlatModel(models.build(models.MLP((hidden,)), (1, side, side), 10, 0), False)
        name = f"MLP {side * side}-{hidden}-10, {model.start.numel():,} parameters"
        found[name] = {count: speed_up(model, side, count) for count in COUNTS}
    rows = [[name, *(f"{ratio:.2f}" for ratio in ratios.values())] for name, ratios in found.items()]
    text = f"Time of a loop over that of one pass, batches of {BATCH}, one thread. {keeping.machine()}\n\n"
    keeping.keep("choice", found, text + keeping.table(["gradients", *map(str, COUNTS)], rows))


def speed_up(model: FlatModel, side: int, count: int) -> float:
    """The median over rounds in which both take turns, in CPU seconds."""
    inputs = torch.randn(count, BATCH, 1, side, side)
    labels = torch.randint(0, 10, (count, BATCH))
    many = batched_pass(Gradients.BATCHED, model, Classification(10), inputs[0, :2], labels[0, :2])
    assert many is not None
    x, g = model.start.repeat(count, 1), torch.zeros(count, model.start.numel())

    def one_by_one() -> None:
        g.zero_()
        for k in range(count):
            model.load(x[k], g[k])
            cross_entropy(model.module(inputs[k]), labels[k]).backward()
        model.unload()

    ratios = []
    for _ in range(ROUNDS):
        began = time.process_time()
        one_by_one()
        between = time.process_time()
        many(x, inputs, labels)
        ratios.append((between - began) / (time.process_time() - between))
    return statistics.median(ratios)


if __name__ == "__main__":
    main()
