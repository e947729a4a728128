"""The steps of several journals, and a board through which agents that repeat them exchange messages."""

import threading
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from crossgrad.federation.journal import Began, Event, Lost, Started

NEVER = 1 << 30  # more exchanges than a step has
ADOPTION = -1  # in place of an exchange: a whole model

Key = tuple[int, int, int]  # agent, epoch, step


@dataclass(eq=False)
class Turn:
    """One step of an agent, as its journal describes it."""

    agent: int
    began: Began
    lost: dict[int, int] = field(default_factory=dict)  # neighbour: first exchange that does not count
    complete: bool = False  # the process did not end within this step

    @property
    def key(self) -> Key:
        return self.agent, self.began.epoch, self.began.step

    @property
    def partners(self) -> dict[int, Key]:
        """The turn of every partner."""
        return {peer: (peer, epoch, self.began.step) for peer, epoch, _ in self.began.partners}

    def counts(self, peer: int, exchange: int) -> bool:
        """Whether an exchange with this partner counted."""
        return exchange < self.lost.get(peer, NEVER)


def turns_of(journals: Mapping[int, Sequence[Event]]) -> dict[int, list[Turn | Event]]:
    """Every agent's steps, and the other events between them.

    A partner whose process ended before its own step began has no such step in its journal. It has sent no numbers, so
    it does not count.
    """
    parts = {agent: _parts(agent, events) for agent, events in journals.items()}
    turns, known = _turns_and_keys(parts)
    for turn in turns:
        turn.lost |= {peer: 1 for peer, key in turn.partners.items() if key not in known}
    return parts


def steps_missing(parts: Mapping[int, Sequence[Turn | Event]]) -> Counter[int]:
    """How many steps that its neighbours began with an agent its own journal does not have."""
    turns, known = _turns_and_keys(parts)
    return Counter(agent for agent, _, _ in {key for turn in turns for key in turn.partners.values()} - known)


def _turns_and_keys(parts: Mapping[int, Sequence[Turn | Event]]) -> tuple[list[Turn], set[Key]]:
    turns = [part for each in parts.values() for part in each if isinstance(part, Turn)]
    return turns, {turn.key for turn in turns}


def _parts(agent: int, events: Sequence[Event]) -> list[Turn | Event]:
    parts: list[Turn | Event] = []
    last: Turn | None = None
    for event in events:
        if isinstance(event, Lost):
            if last is None or last.key[1:] != (event.epoch, event.step):
                raise ValueError(
                    f"a journal must begin a step before it loses a link in it; that of agent {agent} does not begin "
                    f"step {event.step}. Restore it."
                )
            for peer in event.peers:
                last.lost.setdefault(peer, event.exchange)
            continue
        if last is not None:
            last.complete = not isinstance(event, Started)
        last = Turn(agent, event) if isinstance(event, Began) else None
        parts.append(last or event)
    return parts


class Abandoned(Exception):  # noqa: N818
    """The process of this turn ended before the message that it waited for was sent."""


class Board:
    """Messages of agents that repeat their turns, each in a thread; one thread works at a time.

    A turn within which the process ended goes on until it waits for a message that no agent will send. By then it has
    sent everything that others used of it.
    """

    def __init__(self, parts: Mapping[int, Sequence[Turn | Event]]) -> None:
        turns = [part for each in parts.values() for part in each if isinstance(part, Turn)]
        self.position = {
            part.key: i for each in parts.values() for i, part in enumerate(each) if isinstance(part, Turn)
        }
        self.readers = Counter(key for turn in turns for peer, key in turn.partners.items() if turn.counts(peer, 1))
        self.messages: dict[Key, dict[tuple[int, int], Any]] = {}  # by receiver and exchange
        self.turn = threading.Condition()  # held by the thread that works
        self.working = len(parts)
        self.states: dict[Key, Any] = {}  # models that sites sent to others that had none
        self.waiting: dict[int, tuple[Turn, Key, int]] = {}
        self.abandoned: set[Key] = set()
        self.stuck = ""

    def send(self, turn: Turn, peer: int, exchange: int, message: Any) -> None:
        """Put a message of this turn to a partner on the board."""
        if self.readers[turn.key]:
            self.messages.setdefault(turn.key, {})[peer, exchange] = message
            self.turn.notify_all()

    def receive(self, turn: Turn, peer: int, exchange: int) -> Any:
        """Wait until the partner has repeated its message of an exchange, and return it."""
        key = turn.partners[peer]
        self.waiting[turn.agent] = turn, key, exchange
        while not self._is_there(turn, key, exchange):
            self._look_around()
            if turn.key in self.abandoned or self.stuck:
                break
            self.turn.wait()
        del self.waiting[turn.agent]
        if self.stuck:
            raise ValueError(self.stuck)
        if not self._is_there(turn, key, exchange):
            raise Abandoned
        return self.messages[key][turn.agent, exchange]

    def offer(self, key: Key, state: Any) -> None:
        """Put the model that an agent had before a step on the board."""
        self.states[key] = state
        self.turn.notify_all()

    def adopt(self, agent: int, key: Key) -> Any:
        """Wait until another agent has come to a step, and return the model that it had before it."""
        began = Began(0, key[2], 1, ((key[0], key[1], 0),))
        turn = Turn(agent, began, complete=True)
        self.waiting[agent] = turn, key, ADOPTION
        while key not in self.states and not self.stuck:
            self._look_around()
            if not self.stuck:
                self.turn.wait()
        del self.waiting[agent]
        if self.stuck:
            raise ValueError(self.stuck)
        return self.states[key]

    def finish(self, turn: Turn) -> None:
        """Note that this turn receives nothing more."""
        for peer, key in turn.partners.items():
            if turn.counts(peer, 1):
                self.readers[key] -= 1
                if not self.readers[key]:
                    self.messages.pop(key, None)

    def leave(self) -> None:
        """Note that this agent's journal has ended."""
        self.working -= 1
        self._look_around()

    def _look_around(self) -> None:
        """If all agents wait in vain, end the turns that were never completed."""
        served = any(self._is_there(*waits) for waits in self.waiting.values())
        if served or len(self.waiting) < self.working or not self.waiting:
            return
        ended = self._ended_first()
        if ended is None:
            turn, key, exchange = min(self.waiting.values(), key=lambda waits: waits[0].key[1:])
            self.stuck = (
                f"the journals do not fit together: agent {turn.agent} counted a message of agent {key[0]} in step "
                f"{key[2]} (exchange {exchange}, epoch {key[1]}), which that agent, by its journal, has not sent."
            )
        else:
            self.abandoned.add(ended)
        self.turn.notify_all()

    def _ended_first(self) -> Key | None:
        """The incomplete turn whose process ended first, where all agents wait in vain; None if there is none.

        Whoever waits for a later turn of an agent waits for the end of its present one. That chain is followed to its
        end, or to a circle, in which the turn before an awaited one goes first.
        """
        chain, agent = list[int](), min(self.waiting)
        while agent in self.waiting and agent not in chain:
            chain.append(agent)
            agent = self.waiting[agent][1][0]
        circle = chain[chain.index(agent) :] if agent in chain else chain[-1:]
        before_awaited = [key[0] for _, key, _ in (self.waiting[each] for each in circle) if self._comes_later(key)]
        for each in (*before_awaited, *circle):
            if each in self.waiting and not self.waiting[each][0].complete:
                return self.waiting[each][0].key
        return None

    def _comes_later(self, key: Key) -> bool:
        """Whether an agent that waits has yet to come to this turn."""
        now = self.waiting[key[0]][0].key if key[0] in self.waiting else None
        return now in self.position and self.position.get(key, -1) > self.position[now]

    def _is_there(self, turn: Turn, key: Key, exchange: int) -> bool:
        if exchange == ADOPTION:
            return key in self.states
        return (turn.agent, exchange) in self.messages.get(key, {})
