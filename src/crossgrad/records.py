"""What is measured at one moment of a run, and when a run counts as diverged."""

from dataclasses import asdict, dataclass, field
from math import isfinite, log
from typing import Any


@dataclass(frozen=True)
class Record:
    """One evaluation. Accuracies are shares (0 to 1) of the whole test set."""

    step: int
    epoch: float  # of the local data
    lr: float
    train_loss: float | None  # the agents' own models on their own batches, mean since the last record
    loss: float  # of the averaged model, over all agents' training data (a sample of it where there is much)
    test_loss: float | None  # of the averaged model
    accuracy: float | None  # of the averaged model
    agent_accuracy: tuple[float, ...]  # of each agent's own model
    consensus: float  # root mean square distance of the agents' models from their average
    bytes_sent: int
    bytes_by_kind: dict[str, int]
    bytes_by_agent: tuple[int, ...]
    gradients: int  # gradient evaluations of all agents, cross-gradients included
    seconds: float
    status: str = "ok"  # or nonfinite, exploded, collapsed
    diagnostics: dict[str, float] = field(default_factory=dict)

    @property
    def mean_agent(self) -> float | None:
        """Mean accuracy of the agents' own models."""
        return sum(self.agent_accuracy) / len(self.agent_accuracy) if self.agent_accuracy else None

    @property
    def worst_agent(self) -> float | None:
        """The worst agent's accuracy."""
        return min(self.agent_accuracy) if self.agent_accuracy else None

    def as_json(self) -> dict[str, Any]:
        """Plain values; what is not finite becomes null, as JSON has no word for it."""
        plain = asdict(self) | {"mean_agent": self.mean_agent, "worst_agent": self.worst_agent}
        return {name: _finite(value) for name, value in plain.items()}


def _finite(value: Any) -> Any:
    if isinstance(value, float):
        return value if isfinite(value) else None
    if isinstance(value, dict):
        return {name: _finite(part) for name, part in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(part) for part in value]
    return value


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
