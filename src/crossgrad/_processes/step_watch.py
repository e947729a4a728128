"""A process that hangs in a step while its heartbeat goes on: it is noticed in the process itself.

Only the process knows whether it works or waits for others, so it watches itself: what counts is the time since the
thread that takes the steps began one, or got the last message in it. Time in which it waits for messages, all that it
does between steps (evaluations, checkpoints, a loop of the user's own) and compilation count as no work.
"""

import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType

LONGEST_TIMES = 10  # the longest stretch of work so far may be exceeded so many times
PATIENCE_TIMES = 2  # and a stretch may last as many times the patience with lost processes, whatever came before
COMPILING = (("_dynamo", "convert_frame.py"), ("_inductor", "compile_fx.py"))  # folder and file of PyTorch's compiler


class StepWatch:
    """Knows for how long a step has been at work without sending, receiving or waiting.

    Args:
        patience: seconds without a heartbeat after which another process counts as lost.
    """

    def __init__(self, patience: float) -> None:
        self.least = PATIENCE_TIMES * patience
        self._lock = threading.Lock()
        self._thread: int | None = None  # takes a step now
        self._since: float | None = None  # when its present stretch of work began
        self._waits = 0  # for messages, at this moment
        self._step, self._steps_ended, self._longest = 0, 0, 0.0

    @contextmanager
    def step(self, number: int) -> Iterator[None]:
        """Watch what is done in this block."""
        with self._lock:
            self._step, self._thread = number, threading.get_ident()
            self._since, self._waits = time.monotonic(), 0
        try:
            yield
        finally:
            with self._lock:
                self._note_stretch()
                self._thread = self._since = None
                self._steps_ended += 1

    @contextmanager
    def waiting(self) -> Iterator[None]:
        """What is done in this block waits for other processes."""
        with self._lock:
            self._note_stretch()
            self._waits += 1
        try:
            yield
        finally:
            with self._lock:
                self._waits -= 1
                self._since = time.monotonic()

    def begin_anew(self) -> None:
        """Forget the present stretch: the process as a whole was stopped."""
        with self._lock:
            self._since = time.monotonic()

    def hanging(self) -> str:
        """A sentence if the present stretch of work lasts far longer than any before; else an empty text.

        The first step has no limit: it may compile, or read data.
        """
        with self._lock:
            if self._thread is None or self._since is None or self._waits > 0 or not self._steps_ended:
                return ""
            lasts, limit = time.monotonic() - self._since, max(self.least, LONGEST_TIMES * self._longest)
            thread, step, longest = self._thread, self._step, self._longest
        frame = sys._current_frames().get(thread)
        if lasts < limit or frame is None or _compiles(frame):
            return ""
        return (
            f"it hangs in step {step}, since {lasts:.0f} seconds in {Path(frame.f_code.co_filename).name}, line "
            f"{frame.f_lineno}; no part of a step took longer than {longest:.2g} seconds before."
        )

    def _note_stretch(self) -> None:
        if self._thread is not None and self._since is not None and self._waits == 0:
            self._longest = max(self._longest, time.monotonic() - self._since)


def _compiles(frame: FrameType | None) -> bool:
    """Whether PyTorch's compiler is at work above this frame."""
    while frame is not None:
        if Path(frame.f_code.co_filename).parts[-2:] in COMPILING:
            return True
        frame = frame.f_back
    return False
