"""What a neighbour may send: an honest one stays far below these limits, and a hostile one cannot go beyond them.

The two ends of a link wait for one another in every exchange. An end has therefore few messages under way, and what
carries nothing new (signs of life, requests to join, what came too late) comes seldom.
"""

import time
from collections.abc import Callable

from crossgrad.federation.frames import FrameError
from crossgrad.federation.link_end import LinkEnd
from crossgrad.federation.messages import Data, Join, Message

MAX_AHEAD = 32  # messages of exchanges that the receiver is not in yet
MAX_QUEUED_FRAMES, MAX_QUEUED_MESSAGES = 1000, 16  # that wait to be sent; of the latter, each with a model's numbers
SELDOM_PER_SECOND, SELDOM_AT_ONCE = 100.0, 500.0


class Budget:
    """How many frames without anything new a neighbour has left; it is filled up again slowly.

    Args:
        clock: seconds.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock, self._left, self._at = clock, SELDOM_AT_ONCE, clock()

    def spend(self) -> None:
        """Count one such frame.

        Raises:
            FrameError: there were too many.
        """
        now = self._clock()
        self._left = min(SELDOM_AT_ONCE, self._left + SELDOM_PER_SECOND * (now - self._at)) - 1
        self._at = now
        if self._left < 0:
            raise FrameError(
                f"at most {SELDOM_PER_SECOND:.0f} frames a second with nothing new were expected; found more."
            )


def check_step(message: Message, last_step: int) -> None:
    """Raise FrameError for a step that this run does not have."""
    step = getattr(message, "step", 0)
    if step > last_step:
        raise FrameError(f"a step up to {last_step} was expected; found {step}.")


def check_links(message: Message, neighbours: int) -> None:
    """Raise FrameError for more links than the sender has neighbours; one that joins cannot use the link yet."""
    used = message.active + 1 if isinstance(message, Join) else message.degree if isinstance(message, Data) else 0
    if used > neighbours:
        raise FrameError(
            f"at most {neighbours} links in use were expected, one for each of its neighbours; found {used}."
        )


def check_ahead(edge: LinkEnd) -> None:
    """Raise FrameError if a neighbour has begun more exchanges than it can be in."""
    if max(len(edge.arrived.keys() - edge.entered), len(edge.decided - edge.entered)) > MAX_AHEAD:
        raise FrameError(
            f"at most {MAX_AHEAD} messages were expected before the first of them was answered; found more."
        )
