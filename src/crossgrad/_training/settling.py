"""Ends a run once the averaged model's accuracy on the test data has settled."""

from crossgrad._storage.stateful import Stateful
from crossgrad.records.settled import SettledRule


class SettledJudge(Stateful):
    """Follows the averaged model's accuracy from evaluation to evaluation."""

    constants = ("rule",)

    def __init__(self, rule: SettledRule) -> None:
        self.rule = rule
        self.epochs: list[float] = []  # of the evaluations after the first step
        self.accuracies: list[float] = []  # of the averaged model at each

    @property
    def stopped(self) -> bool:
        """Whether the run is to end."""
        return self.rule.holds(list(zip(self.epochs, self.accuracies, strict=True)))

    def update(self, epoch: float, accuracy: float | None) -> None:
        """Take note of an evaluation."""
        if epoch > 0 and accuracy is not None:
            self.epochs.append(epoch)
            self.accuracies.append(accuracy)
