"""A site's training: the same loop as in a simulation, with the steps that were agreed on with the neighbours."""

import hashlib
from typing import Any, ClassVar, Protocol

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

    constants: ClassVar[tuple[str, ...]] = (*Training.constants, "steps")

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self.steps: Steps | None = None
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


def digest_of(x_D: Tensor) -> str:
    """A digest of a model's bits."""
    return hashlib.sha256(x_D.detach().cpu().contiguous().numpy().tobytes()).hexdigest()
