"""How far ahead a neighbour may say that it is.

Who joins names its step, and who has no more neighbours than it goes there. An honest neighbour has taken those steps;
a hostile one could name the last step, and end the training of others early. Two limits hold, however far apart honest
sites have been: nobody is taken to the end of the run, and nobody further than a machine `TIMES_AS_FAST` as its own
could have come since this site began. A site that has just started has nothing to compare with, and believes.
"""

import time
from collections import deque
from collections.abc import Callable
from typing import Protocol

TIMES_AS_FAST = 10.0  # a machine that is so many times as fast as this one is believed
MEASURED_STEPS = 10  # of this process, after which it knows its own speed
REST_SECONDS = 5.0  # between two requests to join a neighbour that was not believed
NO_LAST_STEP = 1 << 40  # where only a loop knows its end


def seconds_with_sleep() -> float:
    """A clock that goes on while the machine sleeps, where there is one."""
    clock = getattr(time, "CLOCK_BOOTTIME", None)
    return time.monotonic() if clock is None else time.clock_gettime(clock)


class Limits(Protocol):
    """Decides whether a site goes to the step that a neighbour names."""

    def allows(self, peer: int, step: int) -> bool:
        """Whether the neighbour may be at this step."""

    def rests(self, peer: int) -> bool:
        """Whether it is too early to ask a neighbour again that was not believed."""


class NoLimits:
    """Believes everything."""

    def allows(self, peer: int, step: int) -> bool:
        return True

    def rests(self, peer: int) -> bool:
        return False


TRUST = NoLimits()


class Claims:
    """The limits of one site.

    Args:
        last_step: of the run.
        say: writes a sentence.
        name: of a neighbour.
        clock: seconds.
    """

    def __init__(
        self,
        last_step: int,
        say: Callable[[str], None],
        name: Callable[[int], str],
        clock: Callable[[], float] = seconds_with_sleep,
    ) -> None:
        self.last_step, self._say, self._name, self._clock = last_step, say, name, clock
        self._latest: deque[float] = deque(maxlen=MEASURED_STEPS)  # seconds that steps took to compute
        self._seconds: float | None = None  # of a step, where this site was fastest
        self._began: tuple[int, float] | None = None  # the first step of this process, and when it was taken
        self._asked: dict[int, float] = {}  # neighbours that were not believed, and when
        self._said: set[int] = set()  # about whom it was said

    def taken(self, step: int, seconds: float) -> None:
        """Note that this site took a step, and how long it computed."""
        self._began = self._began or (step, self._clock())
        self._latest.append(seconds)
        if len(self._latest) == MEASURED_STEPS:
            mean = sum(self._latest) / MEASURED_STEPS
            self._seconds = mean if self._seconds is None else min(self._seconds, mean)

    @property
    def furthest(self) -> int:
        """The furthest step at which a neighbour may be now."""
        end = self.last_step - 1
        if self._began is None or self._seconds is None:
            return end
        first, at = self._began
        return min(end, first + int(TIMES_AS_FAST * (1 + (self._clock() - at) / max(self._seconds, 1e-6))))

    def connected(self, peer: int) -> None:
        """Say it again if a neighbour that has just connected is not believed."""
        self._said.discard(peer)

    def allows(self, peer: int, step: int) -> bool:
        furthest = self.furthest
        if step <= furthest:
            return True
        self._asked[peer] = self._clock()
        if peer not in self._said:
            self._said.add(peer)
            self._say(self._sentence(self._name(peer), step, furthest))
        return False

    def _sentence(self, name: str, step: int, furthest: int) -> str:
        if step >= self.last_step:
            return f"does not go to step {step}, the end of the run, where {name} is: it takes its own steps."
        return (
            f"does not go to step {step}, where {name} says that it is: by now, step {furthest} can be believed. If it "
            "is right, start this site again."
        )

    def rests(self, peer: int) -> bool:
        return self._clock() - self._asked.get(peer, -REST_SECONDS) < REST_SECONDS
