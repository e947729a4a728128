"""Numbers that have arrived from neighbours, until the exchange to which they belong takes them."""

from crossgrad.federation.link_end import Moment
from crossgrad.federation.membership import Member
from crossgrad.federation.messages import Counted, Data, Message

Arrival = tuple[int, int, int, int]  # neighbour, session, step, exchange


class Arrivals:
    """What one site has received, and what it still expects.

    Args:
        member: the site's state machine.
    """

    def __init__(self, member: Member) -> None:
        self._member = member
        self.payloads: dict[Arrival, bytearray] = {}

    def expects(self, peer: int, message: Message) -> bool:
        """Whether a message belongs to an exchange that is open or about to begin, and is the first of its kind."""
        edge = self._member.edges[peer]
        if not isinstance(message, Data | Counted) or not edge.active or message.session != edge.session:
            return False
        if isinstance(message, Counted) and edge.leads:
            return False
        known = edge.arrived if isinstance(message, Data) else edge.decided
        fits = edge.moves or message.step >= self._member.step
        return fits and Moment(message.step, message.exchange) not in known

    def add(self, peer: int, message: Message, payload: bytearray) -> None:
        """Keep the numbers of a message that was expected, if it has any."""
        if isinstance(message, Data) and message.exchange:
            self.payloads[peer, message.session, message.step, message.exchange] = payload

    def take(self, peer: int, message: Data) -> bytearray:
        """The numbers of an exchange that counts."""
        return self.payloads.pop((peer, message.session, message.step, message.exchange))

    def drop_lost(self, peer: int) -> None:
        """Forget what a lost neighbour sent, except for exchanges that count."""
        self._drop([key for key in self.payloads if key[0] == peer and not self._is_counted(key)])

    def drop_past(self) -> None:
        """Forget what belongs to steps that are over."""
        self._drop([key for key in self.payloads if not self._is_to_come(key)])

    def _drop(self, keys: list[Arrival]) -> None:
        for key in keys:
            del self.payloads[key]

    def _is_counted(self, key: Arrival) -> bool:
        peer, session, step, exchange = key
        data = self._member.counted(peer, exchange) if step == self._member.step else None
        return data is not None and data.session == session

    def _is_to_come(self, key: Arrival) -> bool:
        edge = self._member.edges[key[0]]
        return edge.active and edge.session == key[1] and (edge.moves or key[2] >= self._member.step)
