"""A CNN step from a lazy data set with augmentation, against the same step from memory (target: at most 1.10 x).

    python benchmarks/lazy.py            5 agents on a ring, the paper's CNN, batches of 32 images, two workers

Needs two free cores: one that trains, and one for the two workers. Rounds of steps from memory and of lazy ones take
turns. The first steps of each round are not measured: workers read ahead while the other run trains.
"""

import argparse
import json
import statistics
import time
from pathlib import Path

import torch
from torch.utils.data import Dataset

from crossgrad import CGA, TrainingSettings, models, ring
from crossgrad._training.trainer import Training
from crossgrad.data import CropFlip, LazySamples, Samples
from crossgrad.data.loader import STEPS_AHEAD

AGENTS, IMAGES, BATCH = 5, 256, 32
TARGET = 1.10


class Images(Dataset):
    """Images of CIFAR-10's shape that are decoded when they are read, as from a file of bytes."""

    def __init__(self, seed: int) -> None:
        generator = torch.Generator().manual_seed(seed)
        self.pixels = torch.randint(256, (IMAGES, 3, 32, 32), dtype=torch.uint8, generator=generator)
        self.targets = torch.randint(10, (IMAGES,), generator=generator).tolist()

    def __len__(self) -> int:
        return IMAGES

    def __getitem__(self, index: int) -> tuple[torch.Tensor, int]:
        return self.pixels[index].float() / 255, self.targets[index]


def training(lazy: bool) -> Training:
    sources = [LazySamples(Images(agent), workers=2) for agent in range(AGENTS)]
    own = sources if lazy else [source.loaded() for source in sources]
    module = models.build(models.PaperCNN(), (3, 32, 32), 10, seed=0)
    settings = TrainingSettings(batch_size=BATCH, steps=1000)
    assert all(isinstance(samples, Samples) for samples in own)
    return Training(module, own, CGA(0.9), ring(AGENTS), settings, augment=CropFlip() if lazy else None)


def seconds_per_step(run: Training, steps: int) -> float:
    """The mean over several steps, after those whose batches the workers had made before."""
    for _ in range(STEPS_AHEAD + 1):
        run.step()
    began = time.perf_counter()
    for _ in range(steps):
        run.step()
    return (time.perf_counter() - began) / steps


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--steps", type=int, default=6, help="that are measured, in each of the rounds")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--out", type=Path, default=Path(__file__).parent / "results" / "lazy.json")
    options = parser.parse_args()
    torch.set_num_threads(1)
    runs = {"memory": training(lazy=False), "lazy": training(lazy=True)}
    seconds: dict[str, list[float]] = {name: [] for name in runs}
    for _ in range(options.rounds):  # in turns, so that whatever else the machine does meets both
        for name, run in runs.items():
            seconds[name].append(seconds_per_step(run, options.steps))
    middle = {name: statistics.median(values) for name, values in seconds.items()}
    ratios = [lazy / memory for memory, lazy in zip(seconds["memory"], seconds["lazy"], strict=True)]
    ratio = statistics.median(ratios)
    print(
        f"a step from memory {middle['memory']:.3f} s, lazily {middle['lazy']:.3f} s: {ratio:.3f} x (target {TARGET})"
    )
    options.out.parent.mkdir(parents=True, exist_ok=True)
    kept = {"seconds": seconds, "ratio": ratio, "target": TARGET}
    options.out.write_text(json.dumps(kept, indent=2) + "\n")


if __name__ == "__main__":
    main()
