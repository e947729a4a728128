"""How much of a step with the paper's CNN goes into packing and unpacking compressed models. `make bench` runs it.

EDM on a ring of five agents, one round a step: every model is encoded once and decoded once where all agents share a
process. Shares of the seconds that the processor spends on a step, in one thread; both are measured in the
same steps, so that a busy machine changes them little.
"""

import statistics
import time

import keeping
import torch
from growth import samples

from crossgrad import models
from crossgrad._cli.freed_memory import keep_freed_memory
from crossgrad._training.settings import TrainingSettings
from crossgrad._training.trainer import Training
from crossgrad.algorithms import EDM, Gossip
from crossgrad.codecs import Quantised, RandomK, ScaledSign, TopK
from crossgrad.graphs import ring

CODECS = {
    "8 bits": Quantised(8),
    "4 bits": Quantised(4),
    "3 bits": Quantised(3),
    "2 bits": Quantised(2),
    "sign": ScaledSign(),
    "top 10 %": TopK(0.1),
    "random 10 %": RandomK(0.1),
}
AGENTS, STEPS = 5, 5


class Timed:
    """A codec whose seconds are added up."""

    def __init__(self, codec) -> None:
        self.codec, self.feedback, self.kind, self.seconds = codec, codec.feedback, codec.kind, 0.0

    def encode(self, *arguments):
        return self._timed(self.codec.encode, *arguments)

    def decode(self, *arguments):
        return self._timed(self.codec.decode, *arguments)

    def _timed(self, function, *arguments):
        began = time.thread_time()
        try:
            return function(*arguments)
        finally:
            self.seconds += time.thread_time() - began


def measure(name: str, shape: tuple[int, ...], batch: int) -> dict:
    """The share of a step, and the milliseconds per model of a million parameters."""
    codec = Timed(CODECS[name])
    module = models.build(models.PaperCNN(), shape, 10, seed=0)
    own = [samples(2 * batch, shape) for _ in range(AGENTS)]
    method = Gossip(codec, gamma=0.5).around(EDM(0.9))
    run = Training(module, own, method, ring(AGENTS), TrainingSettings(batch_size=batch, steps=99))
    run.step()
    shares, seconds = [], []
    for _ in range(STEPS):
        codec.seconds, began = 0.0, time.thread_time()
        run.step()
        shares.append(codec.seconds / (time.thread_time() - began))
        seconds.append(codec.seconds)
    parameters = run.state.x.shape[1]
    each = 1e3 * statistics.median(seconds) / AGENTS / (parameters / 1e6)
    return {"codec": name, "shape": shape, "batch": batch, "share": statistics.median(shares), "ms per million": each}


def main() -> None:
    torch.set_num_threads(1)
    keep_freed_memory()  # as every run does
    rows = [measure(name, (1, 28, 28), 128) for name in CODECS]
    others = (((3, 32, 32), 128), ((1, 28, 28), 32), ((3, 32, 32), 32))  # the smaller the batch, the larger the share
    rows += [measure("4 bits", shape, batch) for shape, batch in others]
    head = ["images", "batch", "codec", "% of a step", "ms per million parameters"]
    lines = [
        [f"{row['shape'][1]}x{row['shape'][2]}", row["batch"], row["codec"], f"{100 * row['share']:.2f}",
         f"{row['ms per million']:.1f}"]
        for row in rows
    ]  # fmt: skip
    keeping.keep("compression", {"machine": keeping.machine(), "rows": rows}, keeping.table(head, lines))


if __name__ == "__main__":
    main()
