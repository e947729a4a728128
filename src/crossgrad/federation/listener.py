"""The receiver of a site's connections and messages."""

from collections.abc import Callable
from typing import Any, Protocol

from crossgrad.federation.messages import Message
from crossgrad.federation.versions import Signed

MAX_SUBJECTS = 1000  # of which notices are written; an intruder may come from ever new addresses


def printable(sentence: str) -> str:
    """A sentence that may quote another site, without what moves a cursor or begins a line of its own."""
    return "".join(letter if letter.isprintable() else "?" for letter in sentence)


class LinkListener(Protocol):
    """Receives what happens on the links; its methods are called from the links' threads."""

    def connected(self, peer: int) -> None: ...

    def disconnected(self, peer: int, left: bool) -> None: ...

    def received(self, peer: int, message: Message, payload: bytearray) -> None: ...

    def handed(self, peer: int, signed: Signed) -> None: ...

    def say(self, sentence: str) -> None: ...

    def where(self) -> dict[str, Any]: ...


class Guarded:
    """Passes messages on while a condition holds.

    Args:
        listener: who gets the messages.
        accepts: whether a message that has just arrived may be passed on.
    """

    def __init__(self, listener: LinkListener, accepts: Callable[[], bool]) -> None:
        self.listener, self.accepts = listener, accepts

    def received(self, peer: int, message: Message, payload: bytearray) -> None:
        if self.accepts():
            self.listener.received(peer, message, payload)

    def handed(self, peer: int, signed: Signed) -> None:
        self.listener.handed(peer, signed)


class Notices:
    """Sentences for the site's log, of which none is repeated while nothing has changed.

    Args:
        say: writes a sentence.
    """

    def __init__(self, say: Callable[[str], None]) -> None:
        self._say = say
        self._latest: dict[str, str] = {}  # by what it is about

    def add(self, about: str, sentence: str) -> None:
        """Write a sentence, unless it was the latest about the same."""
        sentence = printable(sentence)
        if self._latest.get(about) != sentence and len(self._latest) < MAX_SUBJECTS:
            self._latest[about] = sentence
            self._say(sentence)

    def replaced(self, name: str) -> None:
        """Write, once, that a site has connected again while it was connected."""
        self.add(
            f"{name} replaced",
            f"{name} has connected again while its earlier connection was open, which is closed now. If its links "
            "break again and again, look whether two agents run in its name.",
        )

    def clear(self, about: str) -> None:
        """Forget the latest sentence, so that the same one is written again."""
        self._latest.pop(about, None)
