"""A warning on stderr if a step takes so long that another process may have left its loop."""

import math
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

SLOW_STEP_SECONDS = 20.0  # after which a waiting step is reported


class SlowStep:
    """Writes a line to stderr if a step takes so long that another process may have left its loop."""

    def __init__(self) -> None:
        self.since, self.step, self.reported = math.inf, 0, False  # when the step began; inf between steps
        self.thread: threading.Thread | None = None

    @contextmanager
    def watching(self, step: int) -> Iterator[None]:
        """Watch one step."""
        self.step, self.since = step, time.monotonic()
        if self.thread is None:
            self.thread = threading.Thread(target=self._watch, daemon=True)
            self.thread.start()
        try:
            yield
        finally:
            self.since = math.inf

    def _watch(self) -> None:
        while not self.reported:
            time.sleep(SLOW_STEP_SECONDS / 4)
            if time.monotonic() - self.since > SLOW_STEP_SECONDS:
                self.reported = True
                sys.stderr.write(
                    f"Step {self.step} has been waiting for {SLOW_STEP_SECONDS:.0f} seconds. All processes must take "
                    "equally many steps: where loops may differ in length, use `for batch in group.in_step(loader)`.\n"
                )
