"""What packing and unpacking cost: an agent on a ring encodes one message and decodes two, beside its gradient."""

import time
from collections.abc import Callable

import keeping
import torch
from torch.nn.functional import cross_entropy

from crossgrad.codecs import Codec, Exact, Quantised, RandomK, ScaledSign, TopK
from crossgrad.models.zoo import MODELS

CODECS: list[Codec] = [
    Exact(), ScaledSign(), Quantised(8), Quantised(4), Quantised(3), Quantised(2), TopK(0.1), TopK(0.01), RandomK(0.1),
]  # fmt: skip
BATCH, NEIGHBOURS, REPEATS = 128, 2, 5
TARGET_PERCENT = 3


def seconds(work: Callable[[], object]) -> float:
    """The least of this process's own time, so that others on the machine do not count."""
    found = []
    for _ in range(REPEATS):
        began = time.process_time()
        work()
        found.append(time.process_time() - began)
    return min(found)


def main() -> None:
    torch.set_num_threads(1)
    module = MODELS["cnn"]().build((3, 32, 32), 10)
    size = sum(p.numel() for p in module.parameters())
    inputs, labels = torch.randn(BATCH, 3, 32, 32), torch.arange(BATCH) % 10

    def gradient() -> None:
        module.zero_grad()
        cross_entropy(module(inputs), labels).backward()

    step, rows, found = seconds(gradient), [], {}
    p = torch.randn(1, size)
    for codec in CODECS:
        wire = codec.encode(p, [size])
        cost = seconds(lambda c=codec: c.encode(p, [size]))
        cost += NEIGHBOURS * seconds(lambda c=codec, w=wire: c.decode(w, [size]))
        share, sent = 100 * cost / step, sum(part.nbytes for part in wire)
        found[repr(codec)] = {"percent": share, "bytes": sent}
        rows.append([f"`{codec!r}`", f"{32 * sent / (4 * size):.2f}", f"{1e3 * cost:.2f}", f"{share:.1f}"])
    head = ["codec", "bits per number", "ms per agent and step", "% of a gradient"]
    text = f"Packing and unpacking beside the gradient of a CNN with {size:,} parameters, 32x32, batch {BATCH} "
    text += f"({1e3 * step:.0f} ms); wanted: at most {TARGET_PERCENT} %. {keeping.machine()}.\n\n"
    keeping.keep("codecs", {"step": step, "codecs": found}, text + keeping.table(head, rows))


if __name__ == "__main__":
    main()
