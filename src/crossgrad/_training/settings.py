"""How long, how fast and how exactly to train."""

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import torch

from crossgrad._gradients.regularised import ClippedNorm, WeightDecay
from crossgrad._gradients.strategy import Gradients
from crossgrad._training.divergence import DivergenceRule
from crossgrad._training.kept_models import EarlyStopping
from crossgrad._training.schedule import Exponential, Schedule
from crossgrad.algorithms.api import CrossGradient


@dataclass(frozen=True)
class TrainingSettings:
    """How long, how fast and how exactly to train.

    Args:
        schedule: of the step size.
        batch_size: samples per agent and step.
        steps: either steps or epochs.
        epochs: of the local data.
        evaluate_every: steps; None: so that there are as many as `evaluations`.
        evaluations: in all, besides the one at the start.
        seed: of everything random.
        dtype: of models and floating-point data.
        device: as PyTorch names it.
        deterministic: one gradient at a time: the same bits in any number of processes.
        divergence: None: no loss ends the run.
        gradients: in a loop, in one pass, or compiled.
        weight_decay: adds the gradient of (weight_decay / 2) |x|^2, as torch.optim.SGD does.
        clip_norm: the largest norm of a gradient; longer ones are scaled down.
        micro_batch: samples of one pass; a batch's gradient is accumulated over several passes.
        autocast: passes in bfloat16 where PyTorch deems it safe; parameters and messages keep their dtype.
        early_stopping: needs validation data.
    """

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
    weight_decay: float = 0.0  # adds the gradient of (weight_decay / 2) |x|^2, as torch.optim.SGD does
    clip_norm: float | None = None  # the largest norm of a gradient; longer ones are scaled down
    micro_batch: int | None = None  # samples of one pass; a batch's gradient is accumulated over several passes
    autocast: bool = False  # passes in bfloat16 where PyTorch deems it safe; parameters and messages keep their dtype
    early_stopping: EarlyStopping | None = None  # needs validation data

    def __post_init__(self) -> None:
        if (self.steps is None) == (self.epochs is None):
            raise ValueError(
                f"say how long to train, either in steps or in epochs of the local data; found steps = {self.steps} "
                f"and epochs = {self.epochs}."
            )
        for name in ("batch_size", "steps", "evaluate_every", "evaluations", "micro_batch"):
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

        if not 0 <= self.weight_decay < math.inf:
            raise ValueError(f"weight_decay must be at least 0 and finite; found {self.weight_decay}.")
        if self.clip_norm is not None and not 0 < self.clip_norm < math.inf:
            raise ValueError(f"clip_norm must be above 0 and finite; found {self.clip_norm}. Leave it out to not clip.")
        if self.one_by_one and self.gradients in (Gradients.BATCHED, Gradients.COMPILED):
            raise ValueError(
                f"micro_batch and autocast take one gradient at a time, so gradients must be 'auto' or 'loop'; found "
                f"{self.gradients.value!r}. Change one of the two."
            )

    @property
    def one_by_one(self) -> bool:
        """Whether gradients cannot be taken in one batched pass."""
        return self.deterministic or self.micro_batch is not None or self.autocast

    def wrap(self, gradient: CrossGradient) -> CrossGradient:
        """Return the gradient with weight decay and clipping, in this order, as far as they are asked for."""
        if self.weight_decay:
            gradient = WeightDecay(gradient, self.weight_decay)
        return gradient if self.clip_norm is None else ClippedNorm(gradient, self.clip_norm)

    def place(self) -> torch.device:
        """Resolve the device.

        Raises:
            ValueError: this machine does not have it.
        """
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
