"""Models that a site without one asks its neighbours for, and that it sends to those who ask."""

import threading
import time
from collections.abc import Callable

from crossgrad.federation.journal import Adopted, Journal, Offered
from crossgrad.federation.membership import Member
from crossgrad.federation.messages import Message, ModelFollows, RequestModel

Send = Callable[[int, Message, bytes], None]
Say = Callable[[str], None]
Take = Callable[[bytearray], None]


class ModelRequests:
    """The requests of one site, and of its neighbours.

    Args:
        member: the site's state machine.
        journal: of the site.
        changed: guards both, and is notified of whatever arrives.
        send: sends a message to a neighbour.
        patience: seconds that a neighbour has for its answer.
    """

    def __init__(
        self, member: Member, journal: Journal, changed: threading.Condition, send: Send, patience: float
    ) -> None:
        self._member, self._journal, self._changed = member, journal, changed
        self._send, self._patience = send, patience
        self.model: Callable[[], bytes] = bytes  # this site's, as it is between two steps
        self._wanting: set[int] = set()
        self._asked: int | None = None  # the neighbour whose model this site waits for
        self._given: tuple[ModelFollows, bytearray] | None = None

    def received(self, peer: int, message: Message, payload: bytearray) -> bool:
        """Take note of a request or of a model; False for any other message. A model must have been asked for."""
        if isinstance(message, RequestModel):
            self._wanting.add(peer)
        elif isinstance(message, ModelFollows):
            self._given = (message, payload) if peer == self._asked else self._given
        else:
            return False
        return True

    def serve(self) -> None:
        """Send this site's model to those who have none. Only between two steps, or before the numbers of one."""
        wanting, self._wanting = self._wanting, set()
        if wanting:
            self._journal.add(Offered(self._member.epoch, self._member.step))
            for peer in wanting:
                self._send(peer, ModelFollows(0, self._member.epoch, self._member.step), self.model())

    def adopt(self, take: Take, say: Say, name: Callable[[int], str]) -> None:
        """Where others are at work already: begin with the model of one of them.

        Args:
            take: uses a model, or raises ValueError where it is not one of this run; the next neighbour is asked then.
            say: writes a sentence.
            name: of a neighbour.
        """
        with self._changed:
            at_work = [peer for peer in self._member.active() if self._member.edges[peer].first]
        for peer in at_work:
            if (given := self._model_of(peer)) is None:
                continue
            state, payload = given
            try:
                take(payload)
            except ValueError as error:
                say(f"does not take over the model of {name(peer)}: {error}")
                continue
            with self._changed:
                self._journal.add(Adopted(self._member.epoch, self._member.step, peer, state.epoch, state.step))
            say(f"takes over the model of {name(peer)} at step {state.step}.")
            return

    def _model_of(self, peer: int) -> tuple[ModelFollows, bytearray] | None:
        """The model that a neighbour sends when it is asked to; None if it is lost meanwhile, or takes too long."""
        with self._changed:
            self._asked, self._given = peer, None
            self._send(peer, RequestModel(), b"")
            until = time.monotonic() + self._patience
            while self._given is None and peer in self._member.active() and time.monotonic() < until:
                self._changed.wait(0.5)
            given, self._asked, self._given = self._given, None, None
            return given
