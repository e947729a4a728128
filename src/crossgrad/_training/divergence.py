"""When a run counts as diverged."""

from dataclasses import dataclass
from math import isfinite

from crossgrad._storage.stateful import Stateful

NO_STEP = -1
DOUBTFUL_STEPS = 100  # after which a loss should be below that of the start


@dataclass(frozen=True)
class DivergenceRule:
    """Decides when a run has diverged, by the averaged model's loss over all training data compared with its start.

    An agent's local loss says little, and it is not known which loss a run should reach, so a run ends early only in
    clear cases: `nonfinite`, as soon as a loss is not finite; `exploded`, if the loss is above `factor` times that of
    the start, and at least 1 above it, at `patience` evaluations in a row that span `share` of the run.
    """

    factor: float = 2.0
    patience: int = 3  # evaluations in a row
    share: float = 0.05  # of all steps

    def __post_init__(self) -> None:
        if not self.factor > 1 or self.patience < 1 or not 0 <= self.share <= 1:
            raise ValueError(f"a divergence rule needs factor > 1, patience >= 1 and a share of 0 to 1; found {self}.")

    def is_far_above(self, loss: float, start: float) -> bool:
        """Whether a loss is so far above that of the start that a good run would not stay there."""
        return loss > max(self.factor * start, start + 1)


class DivergenceJudge(Stateful):
    """Applies a divergence rule to the evaluations of a run. Without a rule, no loss ends a run."""

    constants = ("rule",)

    def __init__(self, rule: DivergenceRule | None) -> None:
        self.rule = rule
        self.status, self.reason = "ok", ""  # or why the run ended early, in a word and in a sentence
        self.evaluations = self.last_step = 0
        self.start_loss = self.last_loss = 0.0  # known after the first evaluation
        self.far_since, self.far_count = NO_STEP, 0  # evaluations in a row with a loss far above the start

    def update(
        self, loss: float, step: int, total_steps: int, first_bad: tuple[int, int] | None, on_data_of: int | None = None
    ) -> bool:
        """Take note of one evaluation; return whether its models are good.

        Args:
            loss: the averaged model's loss.
            step: the step after which it was evaluated.
            total_steps: length of the run.
            first_bad: the agent whose loss was not finite first, and the step at which it happened.
            on_data_of: the first agent on whose data the averaged model's loss is not finite.
        """
        if self.rule is None:
            return isfinite(loss)
        if first_bad is not None:
            self._end("nonfinite", step, f"the loss of agent {first_bad[0]} was not finite at step {first_bad[1]}")
        elif not isfinite(loss):
            where = "" if on_data_of is None else f" on the data of agent {on_data_of}"
            self._end("nonfinite", step, f"the averaged model's loss{where} is {loss:.3g}")
        if self.status != "ok":
            return False
        self.start_loss = loss if self.evaluations == 0 else self.start_loss
        self.evaluations, self.last_step, self.last_loss = self.evaluations + 1, step, loss
        if not self.rule.is_far_above(loss, self.start_loss):
            self.far_since, self.far_count = NO_STEP, 0
            return True
        self.far_since = step if self.far_count == 0 else self.far_since
        self.far_count += 1
        if self.far_count >= self.rule.patience and step - self.far_since >= self.rule.share * total_steps:
            self._end("exploded", step, f"the averaged model's loss is {loss:.3g}; it began at {self.start_loss:.3g}")
        return False

    @property
    def doubt(self) -> str:
        """What is odd about a run that did not diverge, in a sentence; empty if nothing is."""
        if self.status != "ok" or self.last_step < DOUBTFUL_STEPS or self.last_loss < self.start_loss:
            return ""
        return (
            f"after {self.last_step} steps the averaged model's loss on the training data is {self.last_loss:.4g}, not "
            f"below the {self.start_loss:.4g} that it began with; try another step size, or train longer"
        )

    def _end(self, status: str, step: int, why: str) -> None:
        self.status, self.reason = status, f"{status} at step {step}: {why}"
