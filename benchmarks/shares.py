"""How long the parts of a step take."""

import time
from collections.abc import Callable

from crossgrad._gradients import oracle
from crossgrad._network import cross_gradients, network
from crossgrad._training import trainer
from crossgrad.algorithms import aggregation, cga

PARTS = ("gradients", "data", "QP and Gram", "codec", "mixing", "rest")


class Shares:
    """Seconds spent in each part of the steps; what is called within another part counts for itself only.

    `visitor` is called before every gradient of a loop; its time counts for no part, and is not the step's.
    """

    def __init__(self) -> None:
        self.seconds, self.inner, self.away = dict.fromkeys(PARTS, 0.0), [0.0], 0.0
        self.visitor: Callable[[], None] | None = None
        for part, owner, name in (
            ("gradients", oracle.Oracle, "_backward"),
            ("gradients", oracle.Oracle, "_batched"),
            ("data", oracle.Oracle, "_draw"),
            ("QP and Gram", aggregation.Projection, "__call__"),
            ("codec", cga, "send"),
            ("codec", cross_gradients, "send"),
            ("mixing", network.AgentNetwork, "average_"),
            ("rest", trainer.Training, "step"),
        ):
            setattr(owner, name, self._timed(part, getattr(owner, name)))

    def _timed(self, part: str, function: Callable) -> Callable:
        def timed(*arguments, **named):
            if part == "gradients" and self.visitor is not None:
                self._visit()
            began = time.perf_counter()
            self.inner.append(0.0)
            try:
                return function(*arguments, **named)
            finally:
                took = time.perf_counter() - began
                self.seconds[part] += took - self.inner.pop()
                self.inner[-1] += took

        return timed

    def _visit(self) -> None:
        began = time.perf_counter()
        self.visitor()
        took = time.perf_counter() - began
        self.inner[-1] += took
        self.away += took

    def step(self, training: trainer.Training) -> float:
        """Take a step; its seconds."""
        self.away, began = 0.0, time.perf_counter()
        training.step()
        return time.perf_counter() - began - self.away

    def take(self) -> dict[str, float]:
        """The shares since they were last taken."""
        total = sum(self.seconds.values()) or 1.0
        shares = {part: seconds / total for part, seconds in self.seconds.items()}
        self.seconds = dict.fromkeys(PARTS, 0.0)
        return shares
