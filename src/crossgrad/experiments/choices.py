"""The parts of an experiment that are plain values: which data, how long and how exactly to train."""

from dataclasses import dataclass, field
from typing import Any, Literal

from crossgrad.data import Augment, Split, load
from crossgrad.data.datasets import load_own
from crossgrad.records.settled import SettledRule

MAX_THREADS = 1024
MAX_EPOCHS = 1e9


@dataclass(frozen=True)
class DataChoice:
    """The data set, and how it is changed before training."""

    name: str = "digits"
    root: str | None = None
    shrink: int | None = None  # every square of `shrink` x `shrink` pixels becomes one pixel, their mean
    augment: Augment | None = None  # a random transform of the images of every mini-batch
    own_test: float | None = None  # share of each agent's samples that it is tested on, and does not train on

    source: Any = field(default=None, metadata={"in_files": False})  # a registered data set with its options

    def load(self) -> Split:
        """The training and the test part."""
        if self.source is not None:
            return load_own(self.name, self.source, self.root, self.shrink)
        return load(self.name, self.root, self.shrink)


@dataclass(frozen=True)
class TrainingChoice:
    """Options of training, as in TrainingSettings."""

    batch_size: int = 32
    steps: int | None = None
    epochs: float | None = None  # of the local data
    evaluate_every: int | None = None  # in steps; None: chosen so that there are `evaluations` of them
    evaluations: int = 20  # besides the one before the first step
    dtype: Literal["float32", "float64"] = "float32"
    device: str = "cpu"
    deterministic: bool = False  # the same bits in any number of processes, at the price of speed for small models
    threads: int | None = None  # of PyTorch; None: its own choice
    stop_if_diverged: bool | None = None  # None: yes; see DivergenceRule
    gradients: Literal["auto", "loop", "batched", "compiled"] = "auto"  # see settings.Gradients
    # As in TrainingSettings. None, not their defaults, so that files of before them have the same text.
    weight_decay: float | None = None
    clip_norm: float | None = None
    micro_batch: int | None = None  # samples
    autocast: bool | None = None
    validation: float | None = None  # share of each agent's samples that is held out; the best models on it are kept
    start: str | None = None  # a safetensors file with the parameters to begin with
    personal: tuple[str, ...] | None = None  # names of parameters, buffers or modules that stay with their agent
    frozen: tuple[str, ...] | None = None  # names of parameters or modules that are not trained, and never sent
    patience: int | None = None  # evaluations without a lower validation loss after which the run ends
    settled_points: float | None = None  # the run ends when the test accuracy moved less in `settled_epochs`
    settled_epochs: float | None = None  # of the local data; None: 3

    def __post_init__(self) -> None:
        if self.threads is not None and not 1 <= self.threads <= MAX_THREADS:
            raise ValueError(f"threads must be 1 to {MAX_THREADS}; found {self.threads}.")
        if self.patience is not None and self.validation is None:
            raise ValueError("patience needs a validation share; found none. Add one, such as validation = 0.1.")
        if self.settled_epochs is not None and self.settled_points is None:
            raise ValueError("settled_epochs needs settled_points; found none. Add them, such as settled_points = 0.2.")
        if self.epochs is not None and self.epochs > MAX_EPOCHS:
            raise ValueError(f"epochs must be at most {MAX_EPOCHS:g}; found {self.epochs:g}.")

    @property
    def settled(self) -> SettledRule | None:
        """When the run ends because its test accuracy has settled; None: never."""
        if self.settled_points is None:
            return None
        return SettledRule(self.settled_points, 3.0 if self.settled_epochs is None else self.settled_epochs)
