"""How long, how fast and how exactly to train."""

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import torch

from crossgrad._gradients.strategy import Gradients
from crossgrad._training.divergence import DivergenceRule
from crossgrad._training.schedule import Exponential, Schedule


@dataclass(frozen=True)
class TrainingSettings:
    """How long, how fast and how exactly to train."""

    schedule: Schedule = Exponential()
    batch_size: int = 32
    steps: int | None = None  # either steps or epochs
    epochs: float | None = None  # of the local data
    evaluate_every: int | None = None  # steps; None: so that there are as many as `evaluations`
    evaluations: int = 20  # in all, besides the one at the start
    seed: int = 0
    dtype: torch.dtype = torch.float32
    device: str = "cpu"
    deterministic: bool = False  # one gradient at a time: the same bits in any number of processes
    divergence: DivergenceRule | None = DivergenceRule()  # None: no loss ends the run
    gradients: Gradients = Gradients.AUTO

    def __post_init__(self) -> None:
        if (self.steps is None) == (self.epochs is None):
            raise ValueError(
                f"say how long to train, either in steps or in epochs of the local data; found steps = {self.steps} "
                f"and epochs = {self.epochs}."
            )
        for name in ("batch_size", "steps", "evaluate_every", "evaluations"):
            value = getattr(self, name)
            if value is not None and value < 1:
                raise ValueError(f"{name} must be at least 1; found {value}.")
        if self.epochs is not None and not 0 < self.epochs < math.inf:
            raise ValueError(f"epochs must be above 0 and finite; found {self.epochs}.")
        if self.seed < 0:
            raise ValueError(f"the seed must be at least 0; found {self.seed}.")
        if not re.fullmatch(r"cpu|cuda(:\d{1,3})?", self.device):
            raise ValueError(f"device must be 'cpu', 'cuda' or 'cuda:0' and so on; found {self.device!r}.")
        if self.deterministic and self.gradients in (Gradients.BATCHED, Gradients.COMPILED):
            raise ValueError(
                f"deterministic runs take one gradient at a time, so gradients must be 'auto' or 'loop'; found "
                f"{self.gradients.value!r}. Change one of the two."
            )

    def place(self) -> torch.device:
        """The device, if there is such a one here."""
        device = torch.device(self.device)
        if device.type == "cuda" and (device.index or 0) >= torch.cuda.device_count():
            seen = torch.cuda.device_count()
            raise ValueError(f"device is {self.device!r}, but this PyTorch sees {seen} GPUs. Use another, or 'cpu'.")
        return device


class Length(NamedTuple):
    """How long a run takes."""

    epochs_per_step: float  # of the local data
    steps: int
    evaluate_every: int  # steps


def length_of(settings: TrainingSettings, sizes: Sequence[int], algorithm: object) -> Length:
    """How long a run takes, given how many samples each agent holds; an algorithm may have a pace of its own."""
    pace: float = algorithm.pace(len(sizes)) if hasattr(algorithm, "pace") else 1.0
    epochs_per_step = pace * sum(min(settings.batch_size, size) for size in sizes) / sum(sizes)
    steps = settings.steps or math.ceil((settings.epochs or 0) / epochs_per_step - 1e-9)
    return Length(epochs_per_step, steps, settings.evaluate_every or math.ceil(steps / settings.evaluations))
