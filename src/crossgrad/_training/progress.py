"""How far a run has come, and what its evaluations say about it."""

import math
from typing import Any

from crossgrad._storage.stateful import Stateful
from crossgrad._training.divergence import DivergenceJudge
from crossgrad._training.kept_models import KeptModels, ValidationJudge
from crossgrad._training.settings import TrainingSettings
from crossgrad._training.settling import SettledJudge


class Progress(Stateful):
    """Everything about a run that follows from its step number, its settings and its evaluations."""

    settings: TrainingSettings
    step_number: int
    total_steps: int
    evaluate_every: int  # steps
    epochs_per_step: float
    judge: DivergenceJudge
    good: KeptModels
    validation: Any  # None, or samples of each agent
    validation_judge: ValidationJudge
    settled_judge: SettledJudge

    @property
    def status(self) -> str:
        """ok, or how the run diverged: nonfinite or exploded."""
        return self.judge.status

    @property
    def reason(self) -> str:
        """Why the run ended early, in a sentence; empty if it did not."""
        return self.judge.reason

    @property
    def doubt(self) -> str:
        """What is odd about a run that did not diverge, in a sentence; empty if nothing is."""
        return self.judge.doubt

    @property
    def kept(self) -> str:
        """After divergence, a sentence that says which models are returned."""
        if self.good.step == 0:
            return "The initial models are kept: no later ones were good."
        return f"The models of step {self.good.step}, the last good ones, are kept."

    @property
    def finished(self) -> bool:
        """Whether the run has ended: all steps are done, or it was ended early."""
        stopped = self.validation is not None and self.validation_judge.stopped
        settled = self.settings.settled is not None and self.settled_judge.stopped
        return self.done >= 1.0 or self.status != "ok" or stopped or settled

    @property
    def done(self) -> float:
        """The share of the run that is done, 0 to 1."""
        return self.step_number / self.total_steps

    @property
    def epoch(self) -> float:
        """How often the agents' local data was gone through, on average."""
        return self.step_number * self.epochs_per_step

    @property
    def due(self) -> bool:
        """Whether an evaluation is due after this step."""
        return self.step_number % self.evaluate_every == 0 or self.finished

    @property
    def lr(self) -> float:
        """The step size of the next step."""
        found = self.settings.schedule(self.epoch, self.done)
        try:
            lr = float(found)
        except (TypeError, ValueError):
            raise ValueError(
                f"the step size must be a number; that of epoch {self.epoch:g} is {found!r:.60}. Change the schedule."
            ) from None
        if not 0 <= lr < math.inf:
            raise ValueError(
                f"the step size must be finite and not negative; that of epoch {self.epoch:g} is {lr}. "
                f"Change the schedule."
            )
        return lr

    @property
    def last_good_step(self) -> int:
        """The step of the models that the run returns: the last, unless it diverged or earlier models were better."""
        return self.step_number if self.status == "ok" and self.validation is None else self.good.step
