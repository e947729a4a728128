"""When a run counts as diverged."""

from dataclasses import dataclass
from math import isfinite, log

from crossgrad._storage.stateful import Stateful


@dataclass(frozen=True)
class DivergenceRule:
    """When a run has diverged. It rarely shows as NaN, and an agent's local loss is no signal.

    `exploded`: the averaged model's loss over all data is above 2 ln C. `collapsed`: it is at least ln C, or the
    averaged model's accuracy is within 2 points of chance. Either must hold at `patience` evaluations in a row, the
    collapse after a warm-up, so that a slow start is not taken for the end. `nonfinite` counts at once.
    """

    warm_up: float = 0.5  # share of the run, and
    warm_up_steps: int = 100
    patience: int = 3  # evaluations in a row

    def suspicion(self, loss: float, accuracy: float | None, classes: int | None, done: float, step: int) -> str:
        """What this evaluation looks like: ok, nonfinite, exploded or collapsed."""
        if not isfinite(loss):
            return "nonfinite"
        if classes is None or classes < 2:
            return "ok"
        if loss > 2 * log(classes):
            return "exploded"
        chance = accuracy is not None and abs(accuracy - 1 / classes) <= 0.02
        warm = done >= self.warm_up and step >= self.warm_up_steps
        if warm and (loss >= log(classes) or chance):
            return "collapsed"
        return "ok"


class DivergenceJudge(Stateful):
    """What the evaluations of a run so far say about it."""

    constants = ("rule",)

    def __init__(self, rule: DivergenceRule) -> None:
        self.rule = rule
        self.status, self.reason = "ok", ""  # or why the run ended early, in a word and in a sentence
        self.suspicions: list[str] = []  # what the last `patience` evaluations looked like, the newest at the end

    def hear(self, suspicion: str) -> bool:
        """Take note of one evaluation's suspicion; whether it is enough to end the run."""
        self.suspicions = [*self.suspicions, suspicion][-self.rule.patience :]
        lasting = len(self.suspicions) == self.rule.patience and "ok" not in self.suspicions
        return suspicion == "nonfinite" or lasting

    def end(self, status: str, step: int, why: str) -> None:
        """End the run as diverged."""
        self.status, self.reason = status, f"{status} at step {step}: {why}"
