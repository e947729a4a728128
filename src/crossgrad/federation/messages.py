"""What the two ends of a link say to one another about who takes part in which step.

A link between two neighbours has a leader, the agent of the smaller number, and a follower. An exchange is one message
each way, numbered within its step: exchange 0 only says that an agent begins the step, the others carry numbers.
"""

from typing import NamedTuple


class Join(NamedTuple):
    """Follower to leader: let this link take part again."""

    session: int  # new with every request, so that answers to an older one are told apart
    step: int  # that the follower takes next
    active: int  # links of the follower that take part


class Act(NamedTuple):
    """Leader to follower: the link takes part from this step on."""

    session: int
    step: int
    follower_moves: bool  # the follower goes to that step; else the leader goes to the step that `Ack` names


class Ack(NamedTuple):
    """Follower to leader: agreed, from this step on."""

    session: int
    step: int


class Data(NamedTuple):
    """Either way: this end is in that exchange; what it sends follows, or there is nothing to send."""

    session: int
    epoch: int  # of the sender: it grows whenever the sender's step number does not simply go on
    step: int
    exchange: int
    degree: int  # links of the sender that take part in the step


class Count(NamedTuple):
    """Leader to follower: your data has arrived, and the exchange counts."""

    session: int
    step: int
    exchange: int


class Quit(NamedTuple):
    """Follower to leader: I want to wait no longer. The answer is `Count`, if that was decided already, or `Part`."""

    session: int
    step: int
    exchange: int


class Part(NamedTuple):
    """Either way: from here on the link does not take part, until it is joined again."""

    session: int


class Want(NamedTuple):
    """Either way: this site has no model of its own yet; send me yours."""

    session: int = 0


class State(NamedTuple):
    """The answer: the model and buffers before this step follow."""

    session: int
    epoch: int
    step: int


Message = Join | Act | Ack | Data | Count | Quit | Part | Want | State
