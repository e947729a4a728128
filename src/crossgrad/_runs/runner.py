"""A run from its first step to its end: records, checkpoints, stopping on signals, waiting for a full disk."""

import atexit
import signal
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from types import FrameType
from typing import Any, NamedTuple, Protocol

from crossgrad._processes.group import Group
from crossgrad._runs.agents_file import check_graph, describe_agents, write_agents_file
from crossgrad._runs.checkpoint import Checkpoints
from crossgrad._runs.folder import RunFolder
from crossgrad._training.trainer import Training
from crossgrad.records.record import Record

AGREE_SECONDS = 1.0  # between two exchanges in which all processes agree on saving and stopping
MAX_STEPS_ALONE = 100_000  # between two such exchanges
CHECKPOINT_TIME_SHARE = 0.02  # of a run's time that checkpoints may take
REPEAT_SECONDS = {signal.SIGINT: 1.0} | {  # a signal repeated within this time is the same request to stop
    getattr(signal, name): 5.0 for name in ("SIGTERM", "SIGHUP") if hasattr(signal, name)
}
RETRY_SECONDS = 2.0  # between two attempts to write to a full disk


class Listener(Protocol):
    """Receives the progress of a run."""

    def step(self) -> None:
        """A step was taken."""

    def record(self, record: Record) -> None:
        """An evaluation was made."""

    def paused(self, problem: str) -> None:
        """Writing failed, for instance on a full disk; it is tried again until it succeeds."""


class SilentListener:
    """Reports nothing: the records are on disk."""

    def step(self) -> None: ...

    def record(self, record: Record) -> None: ...

    def paused(self, problem: str) -> None: ...


class Stop:
    """First SIGINT, SIGTERM or SIGHUP: stop after the current step. Second: raise KeyboardInterrupt, once.

    A terminal, a batch system and a launcher may each send the same signal to all processes: what arrives within
    `REPEAT_SECONDS` of the first is the same request to stop.

    Args:
        ends_process: whether the process ends after a stop, so that signals that arrive after this block are ignored.
    """

    SIGNALS = tuple(getattr(signal, name) for name in ("SIGINT", "SIGTERM", "SIGHUP") if hasattr(signal, name))

    def __init__(self, ends_process: bool = False) -> None:
        self.ends_process = ends_process
        self.signal: int | None = None
        self._since = 0.0  # when the first signal came

    def __enter__(self) -> "Stop":
        # Only default handlers are replaced: a background process may have been started with some signals ignored.
        usual = (signal.default_int_handler, signal.SIG_DFL, _ignore)
        self.before: dict[int, Any] = {s: signal.getsignal(s) for s in self.SIGNALS if signal.getsignal(s) in usual}
        for number in self.before:
            signal.signal(number, self._note)
        return self

    def __exit__(self, *_: object) -> None:
        over = self.ends_process and self.signal is not None
        for number, handler in self.before.items():
            signal.signal(number, _ignore if over else handler)
        if over:
            atexit.register(_ignore_for_good, tuple(self.before))

    @property
    def wanted(self) -> bool:
        """Whether a signal has asked the run to stop after this step."""
        return self.signal is not None

    def _note(self, number: int, _: FrameType | None) -> None:
        if self.signal is None:
            self.signal, self._since = number, time.monotonic()
        elif time.monotonic() - self._since > REPEAT_SECONDS[number]:
            for each in self.before:
                signal.signal(each, _ignore)
            raise KeyboardInterrupt


def _ignore(number: int, frame: FrameType | None) -> None:
    """A signal handler that does nothing. Unlike SIG_IGN, it is not inherited by programs that this process starts."""


def _ignore_for_good(numbers: Iterable[int]) -> None:
    """Ignore signals while Python ends, which removes its own handlers, so that the status stays that of the stop."""
    for number in numbers:
        if signal.getsignal(number) is _ignore:
            signal.signal(number, signal.SIG_IGN)


class Decision(NamedTuple):
    """What all processes do after this step."""

    save: bool
    stop: bool


class Agreement:
    """About once a second all processes agree: rank 0 decides when to save, and any of them when to stop."""

    def __init__(self, group: Group, save_every: float, step: int) -> None:
        self.group, self.save_every = group, save_every
        self.saved = self.agreed = time.monotonic()  # times of the last checkpoint and of the last agreement
        self.last_step = self.next_step = step
        self.cost = 0.0  # seconds that the last checkpoint took

    def __call__(self, step: int, stop: bool) -> Decision:
        """Return what to do after this step; processes communicate only when the next agreement is due."""
        if self.group.processes > 1 and step < self.next_step:
            return Decision(save=False, stop=False)
        now = time.monotonic()
        save = now - self.saved >= max(self.save_every, self.cost / CHECKPOINT_TIME_SHARE if self.save_every else 0.0)
        pace = (step - self.last_step) / max(now - self.agreed, 1e-3) * min(AGREE_SECONDS, self.save_every)
        votes = self.group.votes(stop, save, min(max(1.0, pace), MAX_STEPS_ALONE))
        self.agreed, self.last_step, self.next_step = now, step, step + int(votes[0, 2].clamp(1, MAX_STEPS_ALONE))
        return Decision(save=bool(votes[0, 1]), stop=bool(votes[:, 0].any()))


@dataclass(eq=False)
class Run:
    """A training, the folder it is written to, and the listener to its progress.

    Args:
        training: ready for its next step.
        folder: where records, model and summary are written, by rank 0.
        checkpoints: written by every process.
        listener: called after every step and record.
        stop: whether a signal asks the run to stop.
        save_every: seconds between two checkpoints.
        keep_state: whether to leave a checkpoint when the run has ended.
        records: how many have been written so far.
        saved_step: the step of the newest checkpoint, if there is one.
    """

    training: Training
    folder: RunFolder
    checkpoints: Checkpoints
    listener: Listener
    stop: Stop
    save_every: float
    keep_state: bool = False
    records: int = 0
    saved_step: int | None = None

    @property
    def group(self) -> Group:
        return self.training.group

    def go_on(self) -> None:
        """Restore the newest checkpoint and drop the records after it; without a checkpoint, start from step 0."""
        checkpoint = self.checkpoints.go_on(self.group)
        self.records = 0 if checkpoint is None else checkpoint.records
        self.saved_step = None if checkpoint is None else checkpoint.step
        problem = ""
        if self.group.is_rank_0:
            try:
                self.folder.check_experiment()
                self.check_graph()
                self.folder.keep_records(self.records, "" if checkpoint is None else checkpoint.records_digest)
            except ValueError as error:
                problem = str(error)
        self.group.check_all(problem)

    def check_graph(self) -> None:
        """Raise ValueError if the graph is not the one that the run began with."""
        check_graph(self.folder.path, self.training)

    def carry_out(self) -> str:
        """Train to the end or until a signal; return how it ended: finished, diverged or interrupted."""
        training, agreement = self.training, Agreement(self.group, self.save_every, self.training.step_number)
        going = self._write_agents() and (self.records > 0 or self._record())
        while going and not training.finished:
            training.step()
            self.listener.step()
            training.callbacks.step(training)
            going = not training.due or self._record()
            if going and not training.finished:
                decision = agreement(training.step_number, self.stop.wanted)
                if decision.save or decision.stop:
                    going = self._save(agreement) and not decision.stop
        if not training.finished or (self.keep_state and not self._save(agreement)):
            return self._end("interrupted")
        training.keep_last_good()
        return self._end("finished" if training.status == "ok" else "diverged")

    def _write_agents(self) -> bool:
        agents = describe_agents(self.training)
        return self._written(lambda: write_agents_file(self.folder.path, agents) if self.group.is_rank_0 else None)

    def _record(self) -> bool:
        record = self.training.evaluate()
        written = self._written(lambda: self.folder.add(record) if self.group.is_rank_0 else None)
        self.records += written
        self.listener.record(record)
        if self.group.is_rank_0:
            self.training.callbacks.record(record)
        return written

    def _save(self, agreement: "Agreement") -> bool:
        """Write a checkpoint in every process; once all have it, delete older ones."""
        began = time.monotonic()
        digest = self.group.broadcast_text(self.folder.records_digest())
        if not self._written(lambda: self._write_checkpoint(digest)):
            return False
        self.saved_step = self.training.step_number
        self.checkpoints.forget(self.saved_step)
        agreement.saved = time.monotonic()
        agreement.cost = agreement.saved - began
        return True

    def _write_checkpoint(self, records_digest: str) -> None:
        if self.group.is_rank_0:
            self.folder.sync_records()  # records that the checkpoint counts must survive a loss of power
        self.checkpoints.save(self.records, records_digest)

    def _end(self, ended: str) -> str:
        """Write the averaged model and the summary; return how the run ended."""
        training, module = self.training, self.training.averaged_model()
        written = self._written(lambda: self.folder.finish(training, module, ended) if self.group.is_rank_0 else None)
        if not written or ended == "interrupted":
            return "interrupted"
        if not self.keep_state:
            self.checkpoints.forget_all()
        return ended

    def _written(self, action: Callable[[], None]) -> bool:
        """Call `action` in every process, again and again while one of them cannot write, such as on a full disk.

        Collective: every process must call it.

        Returns:
            True once all have written; False if a signal asked the run to stop before that.
        """
        done = False
        while True:
            problem = ""
            if not done:
                try:
                    action()
                    done = True
                except OSError as error:
                    problem = f"{error.filename or self.folder.path}: {error.strerror or error}"
            votes = self.group.votes(not done, self.stop.wanted)
            if not bool(votes[:, 0].any()):
                return True
            if bool(votes[:, 1].any()):
                return False
            said = self.group.gather_texts(problem)
            rank = next(rank for rank, text in enumerate(said) if text)
            self.listener.paused(f"{self.group.name_of(rank)}: {said[rank]}" if rank else said[rank])
            time.sleep(RETRY_SECONDS)
