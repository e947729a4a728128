"""The data of an experiment, dealt out to its agents."""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from crossgrad.data import Samples
from crossgrad.tasks import Task


class AgentsData(NamedTuple):
    """What each agent trains on and what is held out of it, and the task that all of it is for.

    Args:
        task: what is learnt, with all metrics.
        train: each agent's training samples, without those held out.
        validation: what is held out of each agent's samples for validation; None if nothing is.
        own_test: what is held out of each agent's samples to test on; None if nothing is.
        pooled_validation: all agents' validation samples together; None if there are none.
    """

    task: Task
    train: Sequence[Samples]
    validation: Sequence[Samples] | None
    own_test: Sequence[Samples] | None
    pooled_validation: Samples | None = None

    def all_parts(self) -> Iterator[Samples]:
        """All agents' samples, held out or not, once for each time that they are in memory."""
        for parts in (self.train, self.validation, self.own_test):
            yield from parts or ()
        if self.pooled_validation is not None:
            yield self.pooled_validation
