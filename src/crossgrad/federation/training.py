"""A site's training: the same loop as in a simulation, with the steps that were agreed on with the neighbours."""

import hashlib
from typing import Any, ClassVar, Protocol

import torch
from torch import Tensor

from crossgrad._training.trainer import Training
from crossgrad.federation.group import SiteGroup
from crossgrad.federation.participation import Live


class Steps(Protocol):
    """Who says which step comes next, and with whom."""

    def begin(self) -> Live: ...

    def finish(self) -> None: ...


class SiteTraining(Training):
    """The training of one agent among sites."""

    constants: ClassVar[tuple[str, ...]] = (*Training.constants, "steps", "trained")

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self.steps: Steps | None = None
        self.trained = ""  # digest of the model that training came to
        self.federation_epoch = 0  # grows whenever the step number does not simply go on

    def step(self) -> None:
        """Take the step that was agreed on; it may have another number than the one after the last."""
        assert self.steps is not None
        assert isinstance(self.group, SiteGroup)
        live = self.steps.begin()
        self.step_number, self.federation_epoch = live.step, live.epoch
        self.group.live = live
        self.group.transport.begin()
        super().step()
        self.steps.finish()

    def keep_last_good(self) -> None:
        self.trained = digest_of(self.state.x[0])  # what is kept of a run that diverged may be an older model
        super().keep_last_good()


def model_bytes(training: Training) -> bytes:
    """A site's model and its floating buffers."""
    parts = (training.state.x[0], training.buffers.floats_NF[0])
    return b"".join(part.detach().cpu().contiguous().numpy().tobytes() for part in parts)


def adopt_model(training: Training, content: bytes | bytearray) -> None:
    """Begin with a neighbour's model: everything else that an algorithm keeps begins anew.

    Raises:
        ValueError: it is not a model of this run, or has numbers that are not finite.
    """
    x, floats = training.state.x, training.buffers.floats_NF
    if len(content) != x[0].nbytes + floats[0].nbytes:
        raise ValueError(f"a neighbour's model has {len(content)} bytes; {x[0].nbytes + floats[0].nbytes} were due.")
    split = x[0].nbytes
    row = torch.frombuffer(bytearray(content[:split]), dtype=x.dtype)
    kept = torch.frombuffer(bytearray(content[split:]), dtype=floats.dtype) if floats[0].nbytes else floats[0]
    if not bool(row.isfinite().all() and kept.isfinite().all()):
        raise ValueError("a neighbour's model has numbers that are not finite.")
    training.buffers.floats_NF[0] = kept
    training.state = training.algorithm.init(row.to(x.device)[None].clone(), training._network())
    training.remember_good()


def digest_of(x_D: Tensor) -> str:
    """A digest of a model's bits."""
    return hashlib.sha256(x_D.detach().cpu().contiguous().numpy().tobytes()).hexdigest()
