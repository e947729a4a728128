"""A CNN step from a lazy data set with augmentation, against the same step from memory (target: at most 1.10 x).

    python benchmarks/lazy.py            5 agents on a ring, the paper's CNN, batches of 32 images, two workers

Needs two free cores: one that trains, and one for the two workers.
"""

import argparse
import json
import time
from pathlib import Path

import torch
from torch.utils.data import Dataset

from crossgrad import CGA, TrainingSettings, models, ring
from crossgrad._training.trainer import Training
from crossgrad.data import CropFlip, LazySamples, Samples

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


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--steps", type=int, default=8)
    parser.add_argument("--out", type=Path, default=Path(__file__).parent / "results" / "lazy.json")
    options = parser.parse_args()
    torch.set_num_threads(1)
    runs = {"memory": training(lazy=False), "lazy": training(lazy=True)}
    seconds: dict[str, list[float]] = {name: [] for name in runs}
    for run in runs.values():
        run.step()
    for _ in range(options.steps):  # in turns, so that whatever else the machine does meets both
        for name, run in runs.items():
            began = time.perf_counter()
            run.step()
            seconds[name].append(time.perf_counter() - began)
    best = {name: min(values) for name, values in seconds.items()}
    ratio = best["lazy"] / best["memory"]
    print(f"a step from memory {best['memory']:.3f} s, lazily {best['lazy']:.3f} s: {ratio:.3f} x (target {TARGET})")
    options.out.parent.mkdir(parents=True, exist_ok=True)
    options.out.write_text(json.dumps({"seconds": best, "ratio": ratio, "target": TARGET}, indent=2) + "\n")


if __name__ == "__main__":
    main()
