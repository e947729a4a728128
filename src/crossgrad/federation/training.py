"""A site's training: the loop of a simulation, with steps that are agreed on with the neighbours."""

import hashlib
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, ClassVar, Protocol

import numpy as np
from torch import Tensor

from crossgrad._network.traffic import Traffic
from crossgrad._storage.stateful import StateDict
from crossgrad._training.trainer import Training
from crossgrad.federation.exchanges import Live
from crossgrad.federation.file import Federation
from crossgrad.federation.group import SiteGroup
from crossgrad.models.packed import pack_model, unpack_model


class Steps(Protocol):
    """Decides which step comes next, and with which neighbours."""

    def begin(self) -> Live: ...

    def finish(self) -> None: ...


class SiteTraffic(Traffic):
    """The bytes that a site has sent. They are saved as sums, as later versions of the file may add neighbours."""

    def state_dict(self) -> StateDict:
        return {"sent": {kind: sent.sum(1, keepdim=True) for kind, sent in super().state_dict()["sent"].items()}}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        own = np.flatnonzero(self.shard.holds(self.sender))[:1]
        self.by_edge = {}
        for kind, sent in state["sent"].items():
            self.add(kind, own, int(sent.sum()))


class SiteTraining(Training):
    """The training of one agent among sites."""

    constants: ClassVar[tuple[str, ...]] = (*Training.constants, "steps", "trained")

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self.context.traffic = SiteTraffic(self.context.union, self.context.shard, self.context.traffic.kinds)
        self.steps: Steps | None = None
        self.trained = ""  # digest of the last model of the training
        self.federation_epoch = 0  # grows whenever the step number changes otherwise than by one

    def step(self) -> None:
        """Take the step that was agreed on, which need not be the one after the last."""
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
    return pack_model(training.state.x[0], training.buffers, training.model.shared)


def adopt_model(training: Training, content: bytes | bytearray) -> None:
    """Take over a neighbour's model; all other state of the algorithm begins anew.

    Raises:
        ValueError: it is not a model of this run, or has numbers that are not finite.
    """
    x_D, floats_F = unpack_model(content, training.state.x[0], training.buffers, training.model.shared)
    training.buffers.floats_NF[0] = floats_F
    training.state = training.algorithm.init(x_D[None].clone(), training._network())
    training.keep_as_good()


def with_model(federation: Federation, training: Training) -> Federation:
    """What sites must have alike, with the model: its shapes follow from the site's data."""
    shapes = [(name, tuple(shape)) for name, shape in zip(training.model.names, training.model.shapes, strict=True)]
    return replace(federation, loop=hashlib.sha256(repr(shapes).encode()).hexdigest())


def digest_of(x_D: Tensor) -> str:
    """A digest of a model's bits."""
    return hashlib.sha256(x_D.detach().cpu().contiguous().numpy().tobytes()).hexdigest()
