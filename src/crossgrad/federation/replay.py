"""Replay: a federation's run is repeated in one process from its journals, and must end with the same bits.

This needs all sites' data, so it is for rehearsals and tests: in a real federation no one has that.
"""

import copy
import threading
from collections.abc import Mapping, Sequence
from contextlib import suppress
from types import MappingProxyType
from typing import Any, NamedTuple

from crossgrad.federation.exchanges import Live
from crossgrad.federation.file import Federation
from crossgrad.federation.journal import Adopted, Began, Ended, Event, Offered, Saved, Started
from crossgrad.federation.secret import use_secret
from crossgrad.federation.start import SiteData, start
from crossgrad.federation.training import SiteTraining, adopt_model, digest_of, model_bytes
from crossgrad.federation.turns import Abandoned, Board, Turn, steps_missing, turns_of


class Repeated(NamedTuple):
    """The result of repeating one site's journal."""

    agent: int
    steps: int  # that were repeated
    journal: str | None  # digest at the end of the journal; None if the site did not finish
    replay: str | None  # digest of the repeated model
    missing: int = 0  # steps that neighbours began with this site, and that its journal does not have

    @property
    def same(self) -> bool:
        return self.journal == self.replay


def replay(
    federation: Federation,
    journals: Mapping[int, Sequence[Event]],
    data: Sequence[SiteData],
    secrets: Mapping[int, int | None] = MappingProxyType({}),
    earlier: Sequence[Federation] = (),
) -> list[Repeated]:
    """Repeat all journals of a run.

    Args:
        federation: the last version that the run used.
        journals: every site's journal.
        data: every site's data.
        secrets: the secrets of sites whose gradients had noise.
        earlier: earlier versions that the run used.

    Raises:
        ValueError: the journals do not fit together.
    """
    parts = turns_of(journals)
    missing = steps_missing(parts)
    board, found, errors = Board(parts), dict[int, Repeated](), list[BaseException]()
    versions = {each.version: each for each in (*earlier, federation)}

    def repeat(agent: int) -> None:
        with board.turn:
            try:
                found[agent] = _Repeater(versions, agent, data[agent], board, secrets.get(agent)).repeat(parts[agent])
            except BaseException as error:  # it is raised in the caller's thread
                errors.append(error)
                board.stuck = board.stuck or "another site's journal could not be repeated."
            finally:
                board.leave()

    threads = [threading.Thread(target=repeat, args=(agent,)) for agent in journals]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if errors:
        raise errors[0]
    return [found[agent]._replace(missing=missing[agent]) for agent in sorted(found)]


class _Repeater:
    """One site's training, fed from the board."""

    def __init__(
        self, versions: Mapping[int, Federation], agent: int, data: SiteData, board: Board, secret: int | None
    ) -> None:
        self.versions, self.agent, self.data, self.board, self.secret = versions, agent, data, board, secret
        self.saved: dict[tuple[int, int], Any] = {}
        self.turn: Turn | None = None

    def _start(self, started: Started) -> None:
        """Repeat a process's start: the training by its version of the file, from its checkpoint if there was one."""
        if started.version not in self.versions:
            raise ValueError(
                f"version {started.version} of the federation's file must be in a site's folder, as agent "
                f"{self.agent} used "
                "it; it is missing. Name the folders of all sites."
            )
        self.training: SiteTraining = start(self.versions[started.version], self.agent, self.data)
        use_secret(self.training, self.secret)
        self.training.steps = self
        self.training.group.transport.exchanges = self  # type: ignore[attr-defined]
        if started.saved is not None:
            self.training.load_state_dict(copy.deepcopy(self.saved[started.saved]))
        self.training.step_number, self.training.federation_epoch = started.step, started.epoch

    def repeat(self, parts: Sequence[Turn | Event]) -> Repeated:
        taken, journal, result = 0, None, None
        for part in parts:
            match part:
                case Turn():
                    taken += 1
                    self._repeat_turn(part)
                case Started():
                    self._start(part)
                case Saved():
                    self.saved[part.epoch, part.step] = copy.deepcopy(self.training.state_dict())
                case Ended():
                    journal, result = part.digest, digest_of(self.training.state.x[0])
                case Offered():
                    self.board.offer((self.agent, part.epoch, part.step), model_bytes(self.training))
                case Adopted():
                    adopt_model(self.training, self.board.adopt(self.agent, part[2:]))
        return Repeated(self.agent, taken, journal, result)

    def _repeat_turn(self, turn: Turn) -> None:
        self.turn = turn
        with suppress(Abandoned):  # the process ended here; the next event is another start
            self.training.step()
        self.board.finish(turn)

    def begin(self) -> Live:
        assert self.turn is not None
        began: Began = self.turn.began
        return Live(began.epoch, began.step, began.degree, tuple((peer, links) for peer, _, links in began.partners))

    def finish(self) -> None:
        """No-op: the board is informed when the whole step has been repeated."""

    def open(self, peer: int, exchange: int, payload: bytes) -> None:
        assert self.turn is not None
        if peer in self.turn.partners:
            self.board.send(self.turn, peer, exchange, payload)

    def settle(self, peer: int, exchange: int) -> bytes | None:
        assert self.turn is not None
        if peer not in self.turn.partners or not self.turn.counts(peer, exchange):
            return None
        content: bytes = self.board.receive(self.turn, peer, exchange)
        return content

    def refuse(self, peer: int, exchange: int, why: str) -> None:
        raise ValueError(f"agent {self.agent} cannot repeat what it did: {why}")
