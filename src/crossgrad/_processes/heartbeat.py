"""Who is still there: every process says so every moment, and notices within a stated time who does not.

gloo by itself waits for half an hour, and cannot be woken. A process that is killed breaks its connections at once;
one that hangs does not, but it stops to say that it is there.
"""

import os
import signal
import sys
import threading
import time
from typing import Any, NoReturn, Protocol

BEAT = 0.5  # seconds
SETTLED = 4 * BEAT  # seconds after which those who are gone can be told from those who noticed it
LOST = 3  # status of a process that ends because another was lost
LEAVING = b"leaving"


class Roll(Protocol):
    """Knows which agents a process holds."""

    def holding(self, rank: int) -> str:
        """In words."""


def end(rank: int, why: str) -> NoReturn:
    """End this process at once: tidying up would wait for those who are gone."""
    sys.stdout.flush()
    sys.stderr.write(f"crossgrad: rank {rank} ends: {why}\n")
    sys.stderr.flush()
    os._exit(LOST)


class Watch:
    """Says in a thread of its own that this process is there, and ends it where another has been silent too long."""

    def __init__(self, store: Any, rank: int, processes: int, patience: float) -> None:
        self.store, self.rank, self.patience = store, rank, patience
        self.keys = [f"beat {other}" for other in range(processes)]
        self.beats = 0
        self.last: dict[int, tuple[bytes, float]] = {}  # what each said last, and when that was new
        self.over = threading.Event()
        self.roll: Roll | None = None  # not known before all have met
        self._say(b"0")

    def start(self) -> None:
        """Begin; those who have not come yet are not missed."""
        self.thread = threading.Thread(target=self._run, daemon=True)
        self.thread.start()

    def say_goodbye(self) -> None:
        """End of the run: nobody is to miss this process any more."""
        self.stop()
        self._say(LEAVING)

    def stop(self) -> None:
        """Say nothing more."""
        self.over.set()
        self.thread.join()

    def lost(self) -> str:
        """After a connection broke: who is gone, said only when the others have had time to notice it too."""
        if threading.current_thread() is threading.main_thread():
            signal.signal(
                signal.SIGTERM, signal.SIG_IGN
            )  # torchrun sends it at once, but waits; this must be said first
        self.say_goodbye()
        began = time.monotonic()
        while time.monotonic() - began < SETTLED and self._listen():
            time.sleep(BEAT / 2)
        gone = [other for other, (said, when) in self.last.items() if said != LEAVING and when < began + BEAT]
        self._linger()
        return self._names([other for other in gone if other != self.rank])

    def _run(self) -> None:
        while not self.over.wait(BEAT):
            self.beats += 1
            if not (self._say(str(self.beats).encode()) and self._listen()):
                end(self.rank, "the process that started the run, or rank 0, has been lost.")
            now = time.monotonic()
            silent = [o for o, (said, when) in self.last.items() if said != LEAVING and now - when > self.patience]
            if silent:
                self._say(LEAVING)
                self._linger()
                end(self.rank, f"{self._names(silent)} not been heard of for {self.patience:g} seconds.")

    def _linger(self) -> None:
        """Without torchrun, the others' store ends with the process of rank 0."""
        if self.rank == 0 and os.environ.get("TORCHELASTIC_USE_AGENT_STORE") != "True":
            time.sleep(SETTLED)

    def _say(self, what: bytes) -> bool:
        """Whether it could be said."""
        try:
            self.store.set(self.keys[self.rank], what.decode())
        except RuntimeError:
            return False
        return True

    def _listen(self) -> bool:
        """Whether there was anything to be heard."""
        try:
            missing = [key for other, key in enumerate(self.keys) if other not in self.last]
            here = [key for key in self.keys if key not in missing or self.store.check([key])]
            diagnostics = zip(map(self.keys.index, here), self.store.multi_get(here), strict=True)
        except RuntimeError:
            return False
        now = time.monotonic()
        for other, said in diagnostics:
            if other not in self.last or self.last[other][0] != said:
                self.last[other] = (said, now)
        return True

    def _names(self, others: list[int]) -> str:
        if not others:
            return "a process has"
        names = [f"rank {other}" + (f" ({self.roll.holding(other)})" if self.roll else "") for other in others]
        return ", ".join(names) + (" has" if len(others) == 1 else " have")
