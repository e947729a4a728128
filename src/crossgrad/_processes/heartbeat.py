"""Heartbeats through the store: a process whose counter has not changed for `patience` seconds is reported as lost.

gloo by itself waits for half an hour and cannot be interrupted. A process that is killed breaks its connections at
once; one that hangs as a whole does not, but its counter stops. The counter is raised by a thread of its own, which
goes on where the main thread hangs. So a second thread watches the steps of its process (`step_watch.py`), and whether
the store still answers the first.
"""

import os
import signal
import sys
import threading
import time
from typing import Any, NoReturn, Protocol

from crossgrad._processes.step_watch import StepWatch

BEAT_SECONDS = 0.5  # between two heartbeats
SETTLE_SECONDS = 4 * BEAT_SECONDS  # after which lost processes are distinguished from those that noticed the loss
LOST_STATUS = 3  # exit status of a process that ends because another was lost
LEAVING = b"leaving"  # in place of a counter: the process has ended on purpose


class AgentsOfRanks(Protocol):
    """Knows which agents a process holds."""

    def holding(self, rank: int) -> str:
        """The agents of a rank, such as "agents 3 to 5", for an error message."""


def end(rank: int, why: str) -> NoReturn:
    """Print the reason to stderr and exit with LOST_STATUS at once: cleaning up would wait for lost processes."""
    sys.stdout.flush()
    sys.stderr.write(f"crossgrad: rank {rank} ends: {why}\n")
    sys.stderr.flush()
    os._exit(LOST_STATUS)


class Heartbeat:
    """Sends this process's heartbeats from a thread, and ends the process if another's have stopped.

    Args:
        store: shared by all processes; a connection of its own, as the thread must not wait while another is in use.
        rank: the number of this process.
        processes: how many there are.
        patience: seconds without a new heartbeat after which a process counts as lost.
        watch: of this process's steps.
    """

    def __init__(self, store: Any, rank: int, processes: int, patience: float, watch: StepWatch | None = None) -> None:
        self.store, self.rank, self.patience = store, rank, patience
        self.watch = watch or StepWatch(patience)
        self.keys = [f"beat {other}" for other in range(processes)]
        self.beats = 0
        self.unanswered = 0  # looks of the guard since the last heartbeat
        self.last: dict[int, tuple[bytes, float]] = {}  # each rank's newest heartbeat, and when it was first seen
        self.stopped = threading.Event()
        self.agents: AgentsOfRanks | None = None  # not known before all processes have joined
        self._write(b"0")

    def start(self) -> None:
        """Start the thread. Processes that have not joined yet are not reported."""
        self.thread = threading.Thread(target=self._run, daemon=True)
        self.guard = threading.Thread(target=self._guard, daemon=True)
        self.thread.start()
        self.guard.start()

    def leave(self) -> None:
        """Stop, and inform the others that this process is not lost."""
        self.stop()
        self._write(LEAVING)

    def leave_together(self) -> None:
        """End of the run: leave, and as the owner of the store wait until all others have left it too."""
        self.leave()
        began = time.monotonic()
        while self._owns_store() and time.monotonic() - began < self.patience and self._read():
            if all(beat == LEAVING for beat, _ in self.last.values()):
                return
            time.sleep(BEAT_SECONDS / 10)

    def say_leaving(self) -> None:
        """Inform the others from any thread, and leave them the time to read it."""
        self._write(LEAVING)
        self._keep_store_alive()

    def stop(self) -> None:
        """Stop the thread."""
        self.stopped.set()
        self.thread.join()
        self.guard.join()

    def lost(self) -> str:
        """After a connection broke: name the lost processes, once the others have had time to notice them too."""
        if threading.current_thread() is threading.main_thread():
            signal.signal(signal.SIGTERM, signal.SIG_IGN)  # torchrun sends it at once; the reason must be said first
        self.leave()
        began = time.monotonic()
        there = True
        while time.monotonic() - began < SETTLE_SECONDS and (there := self._read()):
            time.sleep(BEAT_SECONDS / 2)
        if not there and os.environ.get("TORCHELASTIC_USE_AGENT_STORE") != "True":
            return self._names([0])  # whose store it was: nothing more is known of the others
        gone = [other for other, (beat, when) in self.last.items() if beat != LEAVING and when < began + BEAT_SECONDS]
        self._keep_store_alive()
        return self._names([other for other in gone if other != self.rank])

    def _run(self) -> None:
        looked = time.monotonic()
        while not self.stopped.wait(BEAT_SECONDS):
            stood_still, looked = time.monotonic() - looked > self.patience / 2, time.monotonic()
            self.beats, self.unanswered = self.beats + 1, 0
            if not (self._write(str(self.beats).encode()) and self._read()):
                end(self.rank, f"{self._holder()} been lost.")
            now = time.monotonic()
            if stood_still:  # by Ctrl-Z, perhaps as all others: what they did meanwhile is not known
                self.last = {other: (beat, now) for other, (beat, _) in self.last.items()}
            silent = [o for o, (beat, when) in self.last.items() if beat != LEAVING and now - when > self.patience]
            if silent:
                self.stopped.set()  # the guard must not mistake what follows for a store that does not answer
                self.say_leaving()
                end(self.rank, f"{self._names(silent)} not been heard of for {self.patience:g} seconds.")

    def _guard(self) -> None:
        looked = time.monotonic()
        while not self.stopped.wait(BEAT_SECONDS):
            if time.monotonic() - looked > self.patience / 2:  # this process was stopped as a whole
                self.watch.begin_anew()
            looked = time.monotonic()
            if hangs := self.watch.hanging():
                end(self.rank, hangs)
            self.unanswered += 1  # counted, so that time in which this process was stopped is left out
            if self.unanswered * BEAT_SECONDS > self.patience:
                end(self.rank, f"{self._holder()} not been heard of for {self.patience:g} seconds.")

    def _holder(self) -> str:
        """Who holds the store, with "has"."""
        of_rank_0 = os.environ.get("TORCHELASTIC_USE_AGENT_STORE") != "True"
        return self._names([0]) if of_rank_0 else "the process that started the run has"

    def _keep_store_alive(self) -> None:
        """If the store ends with this process, wait until the others have read it."""
        if self._owns_store():
            time.sleep(SETTLE_SECONDS)

    def _owns_store(self) -> bool:
        """Whether the store ends with this process."""
        return self.rank == 0 and os.environ.get("TORCHELASTIC_USE_AGENT_STORE") != "True"

    def _write(self, beat: bytes) -> bool:
        """Write this process's heartbeat; whether the store is still there."""
        try:
            self.store.set(self.keys[self.rank], beat.decode())
        except RuntimeError:
            return False
        return True

    def _read(self) -> bool:
        """Read all heartbeats; whether the store is still there."""
        try:
            missing = [key for other, key in enumerate(self.keys) if other not in self.last]
            here = [key for key in self.keys if key not in missing or self.store.check([key])]
            beats = zip(map(self.keys.index, here), self.store.multi_get(here), strict=True)
        except RuntimeError:
            return False
        now = time.monotonic()
        for other, beat in beats:
            if other not in self.last or self.last[other][0] != beat:
                self.last[other] = (beat, now)
        return True

    def _names(self, others: list[int]) -> str:
        if not others:
            return "a process has"
        names = [f"rank {other}" + (f" ({self.agents.holding(other)})" if self.agents else "") for other in others]
        return ", ".join(names) + (" has" if len(others) == 1 else " have")
