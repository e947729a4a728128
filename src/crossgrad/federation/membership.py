"""Which neighbours take part in which step: one agent's side of the agreement with each of its neighbours.

This is a pure state machine. It is informed of connections and messages, puts its own messages into `outbox`, and
never waits: tests drive thousands of schedules through it, and a site drives it from its links.

Both ends of a link agree for every exchange whether it counts. The leader decides once it has the follower's data, and
the follower waits for the decision. As long as a connection lasts, however slow it is, both therefore count the same.
If it breaks while the decision is on its way, the leader counts the exchange and the follower does not. No protocol can
exclude that (the two generals' problem: J. Gray, "Notes on data base operating systems", 1978). What each end counted
is in its journal, and a replay repeats it.

An agent that was away joins at an agreed step. The end with fewer active links goes to the other's step, so that an
agent that returns, or ran ahead alone, follows the others. Going to another step begins a new epoch. How far ahead a
neighbour is believed to be is limited (claims.py); while it is not believed, the link does not take part.
"""

from collections.abc import Sequence

from crossgrad.federation.claims import TRUST, Limits
from crossgrad.federation.link_end import LinkEnd, LinkStatus, Moment
from crossgrad.federation.messages import Activate, Activated, Counted, Data, DecideNow, Join, Leave, Message

SLACK = 2  # steps up to which an agent goes on normally to reach an agreed step, instead of moving to it


class Member:
    """One agent among its neighbours."""

    def __init__(self, me: int, peers: Sequence[int], step: int = 0, epoch: int = 0, limits: Limits = TRUST) -> None:
        self.me, self.step, self.epoch, self.limits = me, step, epoch, limits
        self.edges = {peer: LinkEnd(peer, leads=me < peer) for peer in peers}
        self.stepping = False  # False: between two steps
        self.followed: int | None = None  # the neighbour to whose step this agent went last
        self.outbox: list[tuple[int, Message]] = []
        self._agreements = 0
        self._hurried = False  # the present step begins no more exchanges
        self._aside = False  # takes part in nothing until it begins again

    def connected(self, peer: int) -> None:
        """The link to this neighbour is connected; what was agreed on an earlier connection no longer holds."""
        self.disconnected(peer)
        self.edges[peer].status = LinkStatus.IDLE

    def disconnected(self, peer: int) -> None:
        edge = self.edges[peer]
        edge.idle()
        edge.status, edge.asked = LinkStatus.DOWN, None

    def received(self, peer: int, message: Message) -> None:
        """A message arrived on this link."""
        edge = self.edges[peer]
        if edge.status is LinkStatus.DOWN:
            return
        match message:
            case Join():
                self._asked(edge, message)
            case Activate():
                self._offered(edge, message)
            case Activated():
                self._accepted(edge, message)
            case Data():
                if edge.active and message.session == edge.session:
                    edge.arrived[Moment(message.step, message.exchange)] = message
            case Counted():
                if edge.active and not edge.leads and message.session == edge.session:
                    edge.decided.add(Moment(message.step, message.exchange))
            case DecideNow():
                self._quit(edge, message)
            case Leave():
                if message.session == edge.session and edge.status is not LinkStatus.ASKED:
                    edge.idle()
        self._settle(edge)

    def begin(self, gathering: bool = False) -> None:
        """Between two steps: move to an agreed step, ask to join, and answer those who asked.

        While an agent waits for its neighbours before its first step, its links take part from this very step on. They
        do not count where two ends compare their links: agents that have just started must not take others back to
        step 0.
        """
        self._aside = False
        self._move()
        active = 0 if gathering else len(self.active())
        for edge in self.edges.values():
            if edge.status is LinkStatus.IDLE and not edge.leads and not self.limits.rests(edge.peer):
                edge.session, edge.status = edge.session + 1, LinkStatus.ASKED
                self._queue(edge, Join(edge.session, self.step, active))
            elif edge.status is LinkStatus.IDLE and edge.asked is not None:
                self._offer(edge, edge.asked, active, gathering)

    def step_aside(self) -> None:
        """Between two steps: take part in nothing until the next step begins, so that nobody waits for this agent."""
        self._aside = True
        for edge in [e for e in self.edges.values() if e.status in (LinkStatus.OFFERED, LinkStatus.ACTIVE)]:
            self._part(edge)

    @property
    def held(self) -> list[int]:
        """Neighbours whose agreement must be waited for before the step can begin."""
        return [
            e.peer
            for e in self.edges.values()
            if e.status is LinkStatus.OFFERED and not e.moves and e.first <= self.step
        ]

    @property
    def moves(self) -> bool:
        """Whether this agent has agreed, since it began, to go to another step: then it must begin again."""
        return any(self._is_far(edge) for edge in self.edges.values())

    def active(self) -> list[int]:
        """Neighbours with whom it was agreed to take part, now or from a later step on."""
        return [edge.peer for edge in self.edges.values() if edge.active]

    def partners(self) -> list[int]:
        """Begin the step: the neighbours that take part in it."""
        self.stepping = True
        return [edge.peer for edge in self.edges.values() if edge.takes_part(self.step)]

    def enter(self, peer: int, exchange: int, degree: int) -> None:
        """Begin an exchange with this neighbour, unless it no longer takes part."""
        edge, moment = self.edges[peer], Moment(self.step, exchange)
        if edge.takes_part(self.step) and self._hurried:
            self._part(edge)
        elif edge.takes_part(self.step):
            edge.entered.add(moment)
            edge.moves = False
            self._queue(edge, Data(edge.session, self.epoch, self.step, exchange, degree))
            self._settle(edge)

    def waits(self, peer: int, exchange: int) -> bool:
        """Whether it is still undecided if this exchange counts."""
        return self.edges[peer].waits(Moment(self.step, exchange))

    def counted(self, peer: int, exchange: int) -> Data | None:
        """The neighbour's message at the beginning of an exchange; None if the exchange does not count."""
        return self.edges[peer].counted.get(Moment(self.step, exchange))

    def give_up(self) -> None:
        """Stop waiting: a leader decides that open exchanges do not count, a follower asks its leader for a decision.

        A follower still waits for the answer; it comes at once, unless the connection is lost.
        """
        for peer in [] if self.stepping else self.held:
            self._part(self.edges[peer])
        for edge in self.edges.values():
            waiting = sorted(moment for moment in edge.entered if edge.waits(moment))
            if waiting and edge.leads:
                self._part(edge)
            elif waiting:
                self._queue(edge, DecideNow(edge.session, *waiting[0]))

    def finish(self) -> None:
        """The step was taken."""
        self.step, self.stepping, self._hurried = self.step + 1, False, False
        for edge in self.edges.values():
            edge.entered.clear()
            edge.counted.clear()
            if edge.moves:  # messages that have arrived are for the step to which this end will go
                continue
            edge.arrived = {moment: data for moment, data in edge.arrived.items() if moment.step >= self.step}
            edge.decided = {moment for moment in edge.decided if moment.step >= self.step}

    def _asked(self, edge: LinkEnd, join: Join) -> None:
        if edge.leads:
            edge.idle()
            edge.asked = join

    def _offer(self, edge: LinkEnd, join: Join, active: int, gathering: bool) -> None:
        follower_moves = (join.active, join.step) <= (active, self.step)
        if not follower_moves and self._is_beyond(edge, join.step):
            return  # the request stays, as it may be believed later
        edge.asked, edge.session, edge.status, edge.moves = None, join.session, LinkStatus.OFFERED, not follower_moves
        edge.first = self.step + (0 if gathering else 1) if follower_moves else join.step
        self._queue(edge, Activate(edge.session, edge.first, follower_moves))

    def _offered(self, edge: LinkEnd, act: Activate) -> None:
        if edge.leads or edge.status is not LinkStatus.ASKED or act.session != edge.session:
            return
        if self._aside:
            self._part(edge)
            return
        next_step = self.step + 1 if self.stepping else self.step
        near = act.follower_moves and 0 <= next_step - act.step <= SLACK
        if act.follower_moves and not near and self._is_beyond(edge, act.step):
            self._part(edge)
            return
        first = next_step if near or not act.follower_moves else act.step
        self._agree(edge, first, act.follower_moves)
        self._queue(edge, Activated(edge.session, edge.first))

    def _accepted(self, edge: LinkEnd, answer: Activated) -> None:
        if not edge.leads or edge.status is not LinkStatus.OFFERED or answer.session != edge.session:
            return
        if edge.moves and self._is_beyond(edge, answer.step):
            self._part(edge)
        else:
            self._agree(edge, answer.step, edge.moves)

    def _is_beyond(self, edge: LinkEnd, step: int) -> bool:
        """Whether a step to which this end would go is further ahead than the neighbour is believed to be."""
        return step > self.step + SLACK and not self.limits.allows(edge.peer, step)

    def _agree(self, edge: LinkEnd, first: int, moves: bool) -> None:
        self._agreements += 1
        edge.status, edge.first, edge.moves, edge.agreed = LinkStatus.ACTIVE, first, moves, self._agreements
        if moves and self.stepping and first <= self.step:
            # The other end waits there, and this step's partners may wait for it: end the step without them.
            self._hurried = True
            self.give_up()

    def _move(self) -> None:
        """Go to the step agreed on first, if going on would not reach it; leave links whose step does not fit."""
        far = [edge for edge in self.edges.values() if self._is_far(edge)]
        for edge in self.edges.values():
            edge.moves = edge.moves and (edge in far or edge.status is LinkStatus.OFFERED)
        if not far:
            return
        target = min(far, key=lambda edge: edge.agreed)
        before, self.step, self.epoch, self.followed = self.step, target.first, self.epoch + 1, target.peer
        for edge in self.edges.values():
            fits = edge.first > before and 0 <= edge.first - self.step <= SLACK
            bound = edge.active or (edge.status is LinkStatus.OFFERED and not edge.moves)
            if edge is not target and bound and not fits:
                self._part(edge)
        target.moves = False

    def _is_far(self, edge: LinkEnd) -> bool:
        """Whether this end goes to the agreed step at once, as going on would not reach it."""
        return edge.active and edge.moves and not 0 <= edge.first - self.step <= SLACK

    def _quit(self, edge: LinkEnd, message: DecideNow) -> None:
        moment = Moment(message.step, message.exchange)
        if edge.leads and edge.active and message.session == edge.session and moment not in edge.counted:
            self._part(edge)

    def _part(self, edge: LinkEnd) -> None:
        self._queue(edge, Leave(edge.session))
        edge.idle()

    def _settle(self, edge: LinkEnd) -> None:
        """Count exchanges of this end as soon as they are decided."""
        for moment in sorted(edge.entered & edge.arrived.keys()):
            if edge.waits(moment) and (edge.leads or moment in edge.decided):
                edge.counted[moment] = edge.arrived[moment]
                if edge.leads:
                    self._queue(edge, Counted(edge.session, *moment))

    def _queue(self, edge: LinkEnd, message: Message) -> None:
        self.outbox.append((edge.peer, message))
