"""The messages by which the two ends of a link agree in which steps it takes part.

A link between two neighbours has a leader, the agent of the smaller number, and a follower. An exchange is one message
each way, numbered within its step: exchange 0 only says that an agent begins the step, the others carry numbers.
"""

from typing import NamedTuple


class Join(NamedTuple):
    """Follower to leader: let this link take part again."""

    session: int  # new with every request, so that answers to older ones can be distinguished
    step: int  # that the follower takes next
    active: int  # links of the follower that take part


class Activate(NamedTuple):
    """Leader to follower: the link takes part from this step on."""

    session: int
    step: int
    follower_moves: bool  # the follower goes to that step; else the leader goes to the step that `Activated` names


class Activated(NamedTuple):
    """Follower to leader: agreed, from this step on."""

    session: int
    step: int


class Data(NamedTuple):
    """Either way: this end has begun the exchange. Its payload follows, or is empty."""

    session: int
    epoch: int  # of the sender: it grows whenever the sender goes to another step than the next one
    step: int
    exchange: int
    degree: int  # links of the sender that take part in the step


class Counted(NamedTuple):
    """Leader to follower: your data has arrived, and the exchange counts."""

    session: int
    step: int
    exchange: int


class DecideNow(NamedTuple):
    """Follower to leader: a request to decide now. The answer is `Counted`, if that was decided already, or `Leave`."""

    session: int
    step: int
    exchange: int


class Leave(NamedTuple):
    """Either way: the link takes part no longer, until the follower joins again."""

    session: int


class RequestModel(NamedTuple):
    """Either way: this site has no model yet and asks for the other's."""

    session: int = 0


class ModelFollows(NamedTuple):
    """The answer to `RequestModel`: the model and buffers before this step follow."""

    session: int
    epoch: int
    step: int


Message = Join | Activate | Activated | Data | Counted | DecideNow | Leave | RequestModel | ModelFollows
