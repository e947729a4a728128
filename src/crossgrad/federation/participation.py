"""One site's part in the federation's steps: the membership protocol driven by its links.

The main thread trains; links call in from threads of their own. One condition guards everything here.
"""

import threading
import time
from collections.abc import Callable
from typing import Any

from crossgrad.federation.bounds import Budget, check_ahead, check_step
from crossgrad.federation.exchanges import Live, Sender
from crossgrad.federation.file import Federation
from crossgrad.federation.journal import Adopted, Began, Journal, Lost, Offered
from crossgrad.federation.link_end import Moment
from crossgrad.federation.membership import Member
from crossgrad.federation.messages import Counted, Data, Message, ModelFollows, RequestModel
from crossgrad.federation.versions import Later, Signed

NO_LAST_STEP = 1 << 40  # where only a loop knows its end


class Participation:
    """The state machine of one site, its payloads and its journal."""

    def __init__(
        self,
        federation: Federation,
        agent: int,
        journal: Journal,
        step: int,
        epoch: int,
        say: Callable[[str], None],
        last_step: int = NO_LAST_STEP,
    ) -> None:
        self.federation, self.agent, self.journal, self.timing = federation, agent, journal, federation.timing
        self.last_step = last_step
        self._budgets = {peer: Budget() for peer in federation.neighbours(agent)}
        self.member = Member(agent, federation.neighbours(agent), step, epoch)
        self.links: Sender | None = None
        self.say = say
        self.stopping: Callable[[], bool] = lambda: False
        self._changed = threading.Condition()
        self._outgoing: dict[tuple[int, int], bytes] = {}  # by neighbour and exchange
        self._arrived: dict[tuple[int, int, int, int], bytearray] = {}  # and by session and step
        self._live: Live | None = None
        self._lost: set[int] = set()
        self._alone = False
        self._in_numbers = False  # the step's numbers are under way, and the model is about to change
        self.model: Callable[[], bytes] = bytes  # this site's, as it is between two steps
        self._wanting: set[int] = set()
        self._asked: int | None = None  # the neighbour whose model this site waits for
        self._given: tuple[ModelFollows, bytearray] | None = None
        self.later: Later | None = None  # is told of later versions of the federation's file

    def connected(self, peer: int) -> None:
        with self._changed:
            self.member.connected(peer)
            self._flush()
        self.say(f"{self._name(peer)} is connected.")

    def disconnected(self, peer: int, left: bool) -> None:
        with self._changed:
            self.member.disconnected(peer)
            for key in [key for key in self._arrived if key[0] == peer and not self._is_counted(key)]:
                del self._arrived[key]
            self._flush()
        self.say(f"{self._name(peer)} {'has left' if left else 'is lost'}.")

    def received(self, peer: int, message: Message, payload: bytearray) -> None:
        """Take note of a message.

        Raises:
            FrameError: no honest neighbour sends this; the connection must end.
        """
        check_step(message, self.last_step)
        with self._changed:
            expected = self._is_expected(peer, message)
            if not expected:
                self._budgets[peer].spend()
            if isinstance(message, Data) and message.exchange and expected:
                self._arrived[peer, message.session, message.step, message.exchange] = payload
            if isinstance(message, RequestModel):
                self._wanting.add(peer)
            elif isinstance(message, ModelFollows):
                self._given = (message, payload) if peer == self._asked else self._given
            else:
                self.member.received(peer, message)
            self._flush()
            check_ahead(self.member.edges[peer])

    def handed(self, peer: int, signed: Signed) -> None:
        if self.later is not None:
            self.later.offer(signed, self._name(peer))

    def where(self) -> dict[str, Any]:
        """What anybody in the federation may know: the step, and who takes part with this site."""
        with self._changed:
            edges = self.member.edges
            status = {self._name(peer): edge.status.name.lower() for peer, edge in edges.items()}
            return {"step": self.member.step, "epoch": self.member.epoch, "links": status}

    def gather(self) -> None:
        """At the start: wait for all neighbours, up to the time that was agreed on.

        Where some of them are at work already, this site joins them at once; one that comes back does not wait for
        those who may be gone.
        """
        fresh = self.member.step == 0
        until = time.monotonic() + (self.timing.gather if fresh else min(self.timing.gather, self.timing.lost_after))
        with self._changed:
            while not self.stopping() and not self._changes() and time.monotonic() < until:
                self.member.begin(gathering=True)
                self._flush()
                active = self.member.active()
                everybody = len(active) == len(self.member.edges) and not self.member.held
                under_way = any(self.member.edges[peer].first > 0 for peer in active)
                if everybody or under_way:
                    return
                self._changed.wait(0.5)
            self.member.give_up()
            self._flush()
            missing = [self._name(peer) for peer in self.member.edges if peer not in self.member.active()]
        if missing and not self._changes():
            self.say(f"goes on without {', '.join(missing)}.")

    def _changes(self) -> bool:
        """Whether a later version of the federation's file has arrived."""
        return self.later is not None and self.later.look() is not None

    def adopt(self, take: Callable[[bytearray], None]) -> None:
        """Where others are at work already: begin with the model of one of them.

        Args:
            take: uses a model, or raises ValueError where it is not one of this run; the next neighbour is asked then.
        """
        with self._changed:
            at_work = [peer for peer in self.member.active() if self.member.edges[peer].first]
        for peer in at_work:
            if (given := self._model_of(peer)) is None:
                continue
            state, payload = given
            try:
                take(payload)
            except ValueError as error:
                self.say(f"does not take over the model of {self._name(peer)}: {error}")
                continue
            with self._changed:
                self.journal.add(Adopted(self.member.epoch, self.member.step, peer, state.epoch, state.step))
            self.say(f"takes over the model of {self._name(peer)} at step {state.step}.")
            return

    def _model_of(self, peer: int) -> tuple[ModelFollows, bytearray] | None:
        """The model that a neighbour sends when it is asked to; None if it is lost meanwhile, or takes too long."""
        with self._changed:
            self._asked, self._given = peer, None
            if self.links is not None:
                self.links.send(peer, RequestModel())
            until = time.monotonic() + self.timing.lost_after
            while self._given is None and peer in self.member.active() and time.monotonic() < until:
                self._changed.wait(0.5)
            given, self._asked, self._given = self._given, None, None
            return given

    def begin(self) -> Live:
        """Begin the next step, with those neighbours that take part."""
        with self._changed:
            member = self.member
            member.begin()
            self._flush()
            self._offer_model()
            self._wait(lambda: bool(member.held))
            partners = member.partners()
            for peer in partners:
                member.enter(peer, 0, len(partners))
            self._flush()
            self._wait(lambda: any(member.waits(peer, 0) for peer in partners))
            said = {peer: data for peer in partners if (data := member.counted(peer, 0)) is not None}
            began = tuple((peer, data.epoch, data.degree) for peer, data in said.items())
            self.journal.add(Began(member.epoch, member.step, len(partners), began))
            links = tuple((peer, data.degree) for peer, data in said.items())
            self._live = Live(member.epoch, member.step, len(partners), links)
            self._in_numbers = True
            self._lost = set()
        self._notice_solitude()
        return self._live

    def finish(self) -> None:
        """The step was taken."""
        with self._changed:
            self.member.finish()
            self._in_numbers = False
            self._arrived = {key: value for key, value in self._arrived.items() if self._is_wanted(key)}

    def open(self, peer: int, exchange: int, payload: bytes) -> None:
        with self._changed:
            assert self._live is not None
            self._outgoing[peer, exchange] = payload
            self.member.enter(peer, exchange, self._live.degree)
            self._flush()
            self._outgoing.clear()

    def settle(self, peer: int, exchange: int) -> bytearray | None:
        with self._changed:
            self._wait(lambda: self.member.waits(peer, exchange))
            data = self.member.counted(peer, exchange)
            if data is not None:
                return self._arrived.pop((peer, data.session, data.step, exchange))
            self._lose(peer, exchange)
            return None

    def refuse(self, peer: int, exchange: int, why: str) -> None:
        self.say(why)
        with self._changed:
            self._lose(peer, exchange)
        if self.links is not None:
            self.links.drop(peer)

    @property
    def active(self) -> list[int]:
        """Neighbours that take part at present."""
        with self._changed:
            return self.member.active()

    def _lose(self, peer: int, exchange: int) -> None:
        assert self._live is not None
        if peer not in self._lost and peer in dict(self._live.partners):
            self._lost.add(peer)
            self.journal.add(Lost(self._live.epoch, self._live.step, exchange, (peer,)))

    def _wait(self, pending: Callable[[], bool]) -> None:
        """Wait as long as something is open, but not past a deadline; then give up what can be given up."""
        began = time.monotonic()
        while pending():
            self._offer_model()
            left = None if self.timing.deadline is None else began + self.timing.deadline - time.monotonic()
            if left is not None and left <= 0:
                self.member.give_up()
                self._flush()
                began = time.monotonic()  # a follower asks again, should the answer not come
            elif not self._changed.wait(min(left or 1.0, 1.0)) and self.stopping():
                self.member.give_up()
                self._flush()

    def _offer_model(self) -> None:
        """Between two steps, or before the numbers of one: send this site's model to those who have none."""
        wanting, self._wanting = self._wanting, set()
        if self._in_numbers:
            self._wanting = wanting
        elif wanting and self.links is not None:
            self.journal.add(Offered(self.member.epoch, self.member.step))
            for peer in wanting:
                self.links.send(peer, ModelFollows(0, self.member.epoch, self.member.step), self.model())

    def _flush(self) -> None:
        """Send what the state machine wants to say, and wake who waits."""
        outbox, self.member.outbox = self.member.outbox, []
        if self.links is not None:
            for peer, message in outbox:
                numbers = isinstance(message, Data) and message.exchange
                payload = self._outgoing.get((peer, message.exchange), b"") if numbers else b""  # type: ignore[union-attr]
                self.links.send(peer, message, payload)
        self._changed.notify_all()

    def _is_expected(self, peer: int, message: Message) -> bool:
        """Whether a message belongs to an exchange that is open or about to begin, and is the first of its kind."""
        edge = self.member.edges[peer]
        if not isinstance(message, Data | Counted) or not edge.active or message.session != edge.session:
            return False
        if isinstance(message, Counted) and edge.leads:
            return False
        known = edge.arrived if isinstance(message, Data) else edge.decided
        fits = edge.moves or message.step >= self.member.step
        return fits and Moment(message.step, message.exchange) not in known

    def _is_counted(self, key: tuple[int, int, int, int]) -> bool:
        peer, session, step, exchange = key
        data = self.member.counted(peer, exchange) if step == self.member.step else None
        return data is not None and data.session == session

    def _is_wanted(self, key: tuple[int, int, int, int]) -> bool:
        edge = self.member.edges[key[0]]
        return edge.active and edge.session == key[1] and (edge.moves or key[2] >= self.member.step)

    def _notice_solitude(self) -> None:
        assert self._live is not None
        alone = bool(self.member.edges) and not self._live.partners
        if alone != self._alone:
            self.say("goes on alone." if alone else "is not alone any more.")
        self._alone = alone

    def _name(self, peer: int) -> str:
        return self.federation.sites[peer].name
