"""The state of a link at one of its ends."""

from dataclasses import dataclass, field
from enum import Enum, auto
from typing import NamedTuple

from crossgrad.federation.messages import Data, Join


class LinkStatus(Enum):
    """How far the two ends of a link have agreed that it takes part in steps."""

    DOWN = auto()  # not connected
    IDLE = auto()  # connected
    ASKED = auto()  # the follower has asked to join
    OFFERED = auto()  # the leader has named a step
    ACTIVE = auto()  # agreed: it takes part from the step `first` on


class Moment(NamedTuple):
    """One exchange within a step."""

    step: int
    exchange: int


@dataclass
class LinkEnd:
    """The link to one neighbour."""

    peer: int
    leads: bool  # this end decides whether an exchange counts
    status: LinkStatus = LinkStatus.DOWN
    session: int = 0
    first: int = 0  # step from which on it takes part; of an offer, the step that was named
    moves: bool = False  # this end, and not the other, changes its step number to `first`
    agreed: int = 0  # the number of this agreement, in order
    asked: Join | None = None  # the follower's request, while it waits for an answer
    entered: set[Moment] = field(default_factory=set)  # exchanges that this end has begun
    arrived: dict[Moment, Data] = field(default_factory=dict)
    decided: set[Moment] = field(default_factory=set)  # exchanges that count, as the follower knows from the leader
    counted: dict[Moment, Data] = field(default_factory=dict)  # exchanges that count, of the present step

    @property
    def active(self) -> bool:
        return self.status is LinkStatus.ACTIVE

    def idle(self) -> None:
        """Note that the link no longer takes part."""
        if self.status is not LinkStatus.DOWN:
            self.status = LinkStatus.IDLE
        self.entered.clear()
        self.arrived.clear()
        self.decided.clear()

    def takes_part(self, step: int) -> bool:
        """Whether the link takes part in this step; not while this end has yet to go back to an earlier one."""
        return self.active and (self.first == step or (self.first < step and not self.moves))

    def waits(self, moment: Moment) -> bool:
        """Whether it is still undecided if this exchange counts."""
        return self.active and moment in self.entered and moment not in self.counted
