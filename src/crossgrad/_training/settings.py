"""How long, how fast and how exactly to train."""

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import torch

from crossgrad._gradients.regularised import ClippedNorm, WeightDecay
from crossgrad._gradients.strategy import Gradients
from crossgrad._training.divergence import DivergenceRule
from crossgrad._training.kept_models import EarlyStopping
from crossgrad._training.numbers import check_number, check_switch
from crossgrad._training.schedule import Exponential, Schedule
from crossgrad.algorithms.api import CrossGradient
from crossgrad.guards import PrivacyGuard, RobustRule
from crossgrad.records.settled import SettledRule


@dataclass(frozen=True)
class TrainingSettings:
    """Settings of a training: its length, step size, batches, evaluations and numerical options.

    Args:
        schedule: the step size as a function of the local epoch and of the share of the run that is done.
        batch_size: samples per agent and step.
        steps: the length of the run in steps; give either this or `epochs`.
        epochs: the length of the run in passes over the local data, all agents together.
        evaluate_every: steps between two evaluations; None: chosen so that there are `evaluations` of them.
        evaluations: how many evaluations there are besides the one before the first step.
        seed: the seed of all randomness.
        dtype: the type of models and floating-point data.
        device: the device as PyTorch names it, such as "cpu" or "cuda:1".
        deterministic: whether to compute one gradient at a time, so that any number of processes gives the same bits.
        divergence: when a run counts as diverged and ends; None: it never ends early because of its loss.
        gradients: whether gradients are computed in a loop, in one pass for all agents, or by compiled code.
        weight_decay: adds the gradient of (weight_decay / 2) |x|^2, as torch.optim.SGD does.
        clip_norm: the largest norm of a gradient; longer ones are scaled down. None: no limit.
        micro_batch: samples of one pass; a batch's gradient is accumulated over several passes. None: one pass.
        autocast: whether passes, those of evaluations too, use bfloat16 where PyTorch deems it safe; parameters and
            messages keep their dtype.
        early_stopping: when the loss on validation data ends the run; it needs validation data.
        settled: when the averaged model's accuracy on the test data has settled, so that the run ends; None: never.
        robust: the rule by which agents combine their neighbours' models in place of averaging them; None: average.
        privacy: clips and adds noise to every gradient; None: gradients as they are.
        personal: names, with * and ?, of parameters, buffers or modules that stay with their agent.
        frozen: names, with * and ?, of parameters or modules that are not trained, and never sent.
    """

    schedule: Schedule = Exponential()
    batch_size: int = 32
    steps: int | None = None
    epochs: float | None = None
    evaluate_every: int | None = None
    evaluations: int = 20
    seed: int = 0
    dtype: torch.dtype = torch.float32
    device: str = "cpu"
    deterministic: bool = False
    divergence: DivergenceRule | None = DivergenceRule()
    gradients: Gradients = Gradients.AUTO
    weight_decay: float = 0.0
    clip_norm: float | None = None
    micro_batch: int | None = None
    autocast: bool = False
    early_stopping: EarlyStopping | None = None
    robust: RobustRule | None = None
    personal: tuple[str, ...] = ()
    frozen: tuple[str, ...] = ()
    privacy: PrivacyGuard | None = None
    settled: SettledRule | None = None

    def __post_init__(self) -> None:
        if (self.steps is None) == (self.epochs is None):
            raise ValueError(
                f"the length of a run must be given either in steps or in epochs of the local data; found steps = "
                f"{self.steps} and epochs = {self.epochs}."
            )
        for name in ("batch_size", "steps", "evaluate_every", "evaluations", "micro_batch"):
            value = getattr(self, name)
            if isinstance(value, np.integer):
                value = int(value)
                object.__setattr__(self, name, value)
            if name in ("batch_size", "evaluations") and value is None:
                raise ValueError(f"{name} must be a whole number of at least 1; found None.")
            if value is not None and (not isinstance(value, int) or isinstance(value, bool)):
                raise ValueError(f"{name} must be a whole number; found {value!r}.")
            if value is not None and value < 1:
                raise ValueError(f"{name} must be at least 1; found {value}.")
        for name in ("epochs", "weight_decay", "clip_norm"):
            check_number(name, getattr(self, name), optional=name != "weight_decay")
        for name in ("autocast", "deterministic"):
            check_switch(name, getattr(self, name))
        if self.epochs is not None and not 0 < self.epochs < math.inf:
            raise ValueError(f"epochs must be above 0 and finite; found {self.epochs}.")
        if not isinstance(self.seed, int | np.integer) or self.seed < 0:
            raise ValueError(f"seed must be a whole number of at least 0; found {self.seed!r}.")
        if not isinstance(self.dtype, torch.dtype) or not self.dtype.is_floating_point:
            raise ValueError(f"dtype must be a floating-point type such as torch.float32; found {self.dtype!r}.")
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
        if self.privacy is not None and (self.micro_batch is not None or self.autocast):
            raise ValueError(
                "a privacy guard takes single samples in full precision; found micro_batch or autocast. Leave them out."
            )
        if self.one_by_one and self.gradients in (Gradients.BATCHED, Gradients.COMPILED):
            raise ValueError(
                f"micro_batch, autocast and privacy take one gradient at a time, so gradients must be 'auto' or "
                f"'loop'; found {self.gradients.value!r}. Change one of the two."
            )

    @property
    def one_by_one(self) -> bool:
        """Whether these settings need one gradient at a time."""
        return self.deterministic or self.micro_batch is not None or self.autocast or self.privacy is not None

    def wrap(self, gradient: CrossGradient) -> CrossGradient:
        """Return the gradient with weight decay and clipping, in this order, where they are set."""
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
            raise ValueError(
                f"device must be one that PyTorch sees; found {self.device!r} with {seen} GPUs. Use 'cpu'."
            )
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
