"""One forward and backward pass with nothing around it: the yardstick of `gradients.py`.

Run as a script, this measures t1 for whoever asks on standard input: a pass in plain PyTorch as it comes, in a process
that is not tuned, with ReLU before pooling and channels first.
"""

import json
import os
import subprocess
import sys
import time
from functools import cache

import torch
from torch import nn
from torch.nn.functional import cross_entropy

from crossgrad import models

MODELS = {"cnn": models.PaperCNN(), "vgg11": models.VGG11(), "mlp": models.MLP((32,)), "small": models.ReleasedCNN()}


def bare(module: nn.Module, images: torch.Tensor) -> float:
    """Seconds of one pass."""
    labels = torch.arange(len(images)) % 10
    began = time.perf_counter()
    module.zero_grad()
    cross_entropy(module(images), labels).backward()
    return time.perf_counter() - began


def textbook(module: nn.Module) -> nn.Module:
    """The same layers with every ReLU before the pooling."""
    layers = list(module.children())
    for place in range(len(layers) - 1):
        if isinstance(layers[place], nn.MaxPool2d) and isinstance(layers[place + 1], nn.ReLU):
            layers[place : place + 2] = layers[place + 1], layers[place]
    return nn.Sequential(*layers)


class Plain:
    """The other process."""

    def __init__(self) -> None:
        environment = {name: value for name, value in os.environ.items() if not name.startswith(("MALLOC_", "GLIBC_"))}
        self.process = subprocess.Popen(
            [sys.executable, __file__], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment
        )

    def t1(self, model: str, shape: tuple[int, ...], batch: int, threads: int) -> float:
        """Seconds of one pass there."""
        self.process.stdin.write(json.dumps([model, shape, batch, threads]) + "\n")
        self.process.stdin.flush()
        return json.loads(self.process.stdout.readline())

    def end(self) -> None:
        self.process.stdin.close()
        self.process.wait()


def main() -> None:
    for line in sys.stdin:
        model, shape, batch, threads = json.loads(line)
        torch.set_num_threads(threads)
        print(json.dumps(bare(*ready(model, tuple(shape), batch))), flush=True)


@cache
def ready(model: str, shape: tuple[int, ...], batch: int) -> tuple[nn.Module, torch.Tensor]:
    """The module and its images, after one pass."""
    both = textbook(MODELS[model].build(shape, 10)), torch.randn(batch, *shape)
    bare(*both)
    return both


if __name__ == "__main__":
    main()
