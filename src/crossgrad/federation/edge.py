"""One link as one of its ends knows it."""

from dataclasses import dataclass, field
from enum import Enum, auto
from typing import NamedTuple

from crossgrad.federation.messages import Data, Join


class Status(Enum):
    """Whether a link takes part in steps."""

    DOWN = auto()  # not connected
    IDLE = auto()  # connected
    ASKED = auto()  # the follower has asked to join
    OFFERED = auto()  # the leader has named a step
    ACTIVE = auto()  # agreed: it takes part from the step `first` on


class Moment(NamedTuple):
    """An exchange of a step."""

    step: int
    exchange: int


@dataclass
class Edge:
    """The link to one neighbour."""

    peer: int
    leads: bool  # this end decides whether an exchange counts
    status: Status = Status.DOWN
    session: int = 0
    first: int = 0  # step from which on it takes part; of an offer, the step that was named
    moves: bool = False  # this end changes its step number to `first`
    agreed: int = 0  # order of agreements
    asked: Join | None = None  # waits for the leader's answer
    entered: set[Moment] = field(default_factory=set)  # exchanges that this end is in
    arrived: dict[Moment, Data] = field(default_factory=dict)
    decided: set[Moment] = field(default_factory=set)  # by the leader, as the follower knows
    counted: dict[Moment, Data] = field(default_factory=dict)  # exchanges that count, of the present step

    @property
    def active(self) -> bool:
        return self.status is Status.ACTIVE

    def idle(self) -> None:
        """It takes part no longer."""
        if self.status is not Status.DOWN:
            self.status = Status.IDLE
        self.entered.clear()
        self.arrived.clear()
        self.decided.clear()

    def takes_part(self, step: int) -> bool:
        """Whether it takes part in this step; one that waits for this end to go back to an earlier step does not."""
        return self.active and (self.first == step or (self.first < step and not self.moves))

    def waits(self, moment: Moment) -> bool:
        """Whether it is still open if this exchange counts."""
        return self.active and moment in self.entered and moment not in self.counted
