"""One site's part in the federation's steps: the membership protocol driven by its links.

The main thread trains; links call in from threads of their own. One condition guards everything here.
"""

import math
import threading
import time
from collections.abc import Callable
from typing import Any

from crossgrad.federation.arrivals import Arrivals
from crossgrad.federation.bounds import Budget, check_ahead, check_links, check_step
from crossgrad.federation.claims import Claims
from crossgrad.federation.exchanges import Live, Sender
from crossgrad.federation.file import Federation
from crossgrad.federation.journal import Began, Journal, Lost
from crossgrad.federation.membership import Member
from crossgrad.federation.messages import Data, Message
from crossgrad.federation.model_requests import ModelRequests, Say
from crossgrad.federation.versions import Later, Signed

JOURNAL_RETRY_SECONDS = 1.0  # between two attempts to write the journal
SECONDS_WITHOUT_A_WORD = 5.0  # at the start, while neighbours are waited for


class Participation:
    """The state machine of one site, its payloads and its journal."""

    def __init__(
        self, federation: Federation, agent: int, journal: Journal, step: int, epoch: int, say: Say, last_step: int
    ) -> None:
        self.federation, self.agent, self.journal, self.timing = federation, agent, journal, federation.timing
        self.last_step = last_step
        self._budgets = {peer: Budget() for peer in federation.neighbours(agent)}
        self.claims = Claims(last_step, say, self._name)
        self.member = Member(agent, federation.neighbours(agent), step, epoch, self.claims)
        self.links: Sender | None = None
        self.say = say
        self.stopping: Callable[[], bool] = lambda: False
        self._changed = threading.Condition()
        self.arrivals = Arrivals(self.member)
        self.requests = ModelRequests(self.member, journal, self._changed, self._send, self.timing.lost_after)
        self._outgoing: dict[tuple[int, int], bytes] = {}  # by neighbour and exchange
        self._live: Live | None = None
        self._lost: set[int] = set()
        self._alone = False
        self._in_numbers = False  # the step's numbers are under way, and the model is about to change
        self._computed_from = self._waited = 0.0  # when the step began, and how long it has waited since
        self.later: Later | None = None  # is told of later versions of the federation's file

    def connected(self, peer: int) -> None:
        with self._changed:
            self.member.connected(peer)
            self.claims.connected(peer)
            self._flush()
        self.say(f"{self._name(peer)} is connected.")

    def disconnected(self, peer: int, left: bool) -> None:
        with self._changed:
            self.member.disconnected(peer)
            self.arrivals.drop_lost(peer)
            self._flush()
        self.say(f"{self._name(peer)} {'has left' if left else 'is lost'}.")

    def received(self, peer: int, message: Message, payload: bytearray) -> None:
        """Take note of a message.

        Raises:
            FrameError: no honest neighbour sends this; the connection must end.
        """
        check_step(message, self.last_step)
        check_links(message, int(self.federation.graph.degrees[peer]))
        with self._changed:
            if self.arrivals.expects(peer, message):
                self.arrivals.add(peer, message, payload)
            else:
                self._budgets[peer].spend()
            if not self.requests.received(peer, message, payload):
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

        Where some are at work already, this site joins them at once; one that comes back does not wait for those gone.
        """
        if self.member.step >= self.last_step:  # this site comes back to write its end only
            return
        fresh = self.member.step == 0
        until = time.monotonic() + (self.timing.gather if fresh else min(self.timing.gather, self.timing.lost_after))
        told = time.monotonic() + SECONDS_WITHOUT_A_WORD
        with self._changed:
            while not self.stopping() and not self._changes() and time.monotonic() < until:
                self._begin(gathering=True)
                active = self.member.active()
                everybody = len(active) == len(self.member.edges) and not self.member.held
                under_way = any(self.member.edges[peer].first > 0 for peer in active)
                if everybody or under_way:
                    return
                self._changed.wait(0.5)
                if time.monotonic() > told:
                    told = math.inf
                    self.say(f"waits for {', '.join(self._missing())}, for {until - time.monotonic():.0f} s at most.")
            self.member.give_up()
            self._flush()
            missing = self._missing()
        if missing and not self._changes() and not self.stopping():
            self.say(f"goes on without {', '.join(missing)}.")

    def _missing(self) -> list[str]:
        return [self._name(peer) for peer in self.member.edges if peer not in self.member.active()]

    def _changes(self) -> bool:
        """Whether a later version of the federation's file has arrived."""
        return self.later is not None and self.later.look() is not None

    def adopt(self, take: Callable[[bytearray], None]) -> None:
        """Where others are at work already: begin with the model of one of them (`ModelRequests.adopt`)."""
        self.requests.adopt(take, self.say, self._name)

    def begin(self) -> Live:
        """Begin the next step, with those neighbours that take part."""
        self._wait_for_space()
        with self._changed:
            member = self.member
            self._agree_on_step()
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
            self._computed_from, self._waited = time.monotonic(), 0.0
        self._notice_solitude()
        return self._live

    def _wait_for_space(self) -> None:
        """Step aside while the journal cannot be written, such as on a full disk."""
        said = False
        while not self.stopping():
            try:
                self.journal.catch_up()
                return
            except OSError as error:
                if not said:
                    said = True
                    why = f"{error.filename}: {error.strerror or error}"
                    self.say(f"{why}. This site pauses until it can write, and the others go on. Make space.")
                self.step_aside()
                time.sleep(JOURNAL_RETRY_SECONDS)

    def _begin(self, gathering: bool = False) -> None:
        """Between two steps: take up links again, and go to the step that was agreed on."""
        before = self.member.step
        self.member.begin(gathering)
        self._flush()
        if self.member.step != before and self.member.followed is not None:
            self.say(
                f"goes from step {before} to step {self.member.step}, where {self._name(self.member.followed)} is."
            )

    def _agree_on_step(self) -> None:
        """Settle which step comes next; while this site waits for answers, it may agree to go to another one."""
        again = True
        while again:
            self._begin()
            self.requests.serve()
            self._wait(lambda: bool(self.member.held))
            again = self.member.moves

    def finish(self) -> None:
        with self._changed:
            self.claims.taken(self.member.step, time.monotonic() - self._computed_from - self._waited)
            self.member.finish()
            self._in_numbers = False
            self.arrivals.drop_past()

    def step_aside(self) -> None:
        """Between two steps: let the neighbours go on without this site, which cannot."""
        with self._changed:
            self.member.step_aside()
            self._flush()

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
                return self.arrivals.take(peer, data)
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
        arrived = began = time.monotonic()
        while pending():
            if not self._in_numbers:
                self.requests.serve()
            left = None if self.timing.deadline is None else began + self.timing.deadline - time.monotonic()
            if left is not None and left <= 0:
                self.member.give_up()
                self._flush()
                began = time.monotonic()  # a follower asks again, should the answer not come
            elif not self._changed.wait(min(left or 1.0, 1.0)) and self.stopping():
                self.member.give_up()
                self._flush()
        self._waited += time.monotonic() - arrived

    def _flush(self) -> None:
        """Send what the state machine wants to say, and wake who waits."""
        outbox, self.member.outbox = self.member.outbox, []
        for peer, message in outbox:
            numbered = isinstance(message, Data) and message.exchange
            payload = self._outgoing.get((peer, message.exchange), b"") if numbered else b""  # type: ignore[union-attr]
            self._send(peer, message, payload)
        self._changed.notify_all()

    def _send(self, peer: int, message: Message, payload: bytes) -> None:
        if self.links is not None:
            self.links.send(peer, message, payload)

    def _notice_solitude(self) -> None:
        assert self._live is not None
        alone = bool(self.member.edges) and not self._live.partners
        if alone != self._alone:
            self.say("goes on alone." if alone else "is not alone any more.")
        self._alone = alone

    def _name(self, peer: int) -> str:
        return self.federation.sites[peer].name
