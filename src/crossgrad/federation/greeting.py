"""The first frames of a connection: both ends prove who they are, and that they are in the same federation.

TLS has checked the certificates already. Here each end also signs both ends' fresh random numbers, so that the dialling
end, to which gRPC does not show the other's certificate, can check it for revocation too, and no greeting can be
replayed. An end that has a later, signed version of the federation's file sends that instead.
"""

import secrets
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from crossgrad import __version__
from crossgrad.federation import frames, handing
from crossgrad.federation.file import LOOP, Federation
from crossgrad.federation.frames import FrameError
from crossgrad.federation.identity import Identity
from crossgrad.federation.signatures import IdentityError
from crossgrad.federation.versions import Signed

PROTOCOL = 1
MAX_PARTS = 4  # of a file that are named in a refusal
MAX_REASON_LETTERS = 300


class RefusedError(Exception):
    """This connection is refused; both ends get the text."""


class TurnedAwayError(RefusedError):
    """The other end has refused this one, and has said why."""


class LaterError(RefusedError):
    """The other end has sent a later version of the federation's file."""

    def __init__(self, peer: str, signed: Signed) -> None:
        super().__init__(f"{peer} has handed over a later version of the federation's file.")
        self.signed = signed


@dataclass
class Greeting:
    """One end of the greeting between two sites."""

    federation: Federation
    identity: Identity
    peer: str
    signed: Signed | None = None  # this end's file, if it is signed
    nonce: str = field(default_factory=lambda: secrets.token_hex(16))
    refused: RefusedError | None = field(default=None, init=False)  # why the dialling end refuses the other

    def open(self) -> bytes:
        """The first frame, sent by the dialling end."""
        return frames.hello(self._about())

    def answers(self, requests: Iterator[bytes]) -> Iterator[bytes]:
        """The listening end: check what the other end runs, prove who this end is, and check the other's proof."""
        opened = read(next(requests, b""), self.peer)
        self._check_software(opened)
        if (signed := self._for(opened)) is not None:
            yield handing.frame_of(signed)
            raise RefusedError(f"{self.peer} has an earlier version of the federation's file, and gets ours.")
        if opened.get("signed") is True and _version(opened) > self.federation.version:
            yield frames.hello(self._about())
            raise self._handed(read(next(requests, b""), self.peer))
        self._check(opened)
        yield frames.hello(self._about() | self._proof(opened["nonce"], self.nonce))
        last = read(next(requests, b""), self.peer)
        if "refused" in last:
            raise TurnedAwayError(f"{self.peer} refused: {str(last['refused'])[:MAX_REASON_LETTERS]}")
        self._verify(last, opened["nonce"], self.nonce)

    def close(self, answered: dict[str, Any]) -> tuple[bytes, bool]:
        """The dialling end: check the answer, and return the last frame and whether the connection is accepted.

        If it is `refused` here, the frame tells the other end why.
        """
        if handing.is_handed(answered):
            raise self._handed(answered)
        try:
            self._check_software(answered)
            if (signed := self._for(answered)) is not None:
                return handing.frame_of(signed), False
            self._check(answered)
            self._verify(answered, self.nonce, answered["nonce"])
        except RefusedError as refused:
            self.refused = refused
            return frames.hello({"refused": str(refused)[:MAX_REASON_LETTERS]}), False
        return frames.hello(self._proof(self.nonce, answered["nonce"])), True

    def _for(self, said: dict[str, Any]) -> Signed | None:
        """The frame with our file, if the other end has an earlier version."""
        return self.signed if 0 < _version(said) < self.federation.version else None

    def _handed(self, said: dict[str, Any]) -> RefusedError:
        try:
            return LaterError(self.peer, handing.handed(said))
        except FrameError as error:
            return RefusedError(f"{self.peer}: {error}")

    def _about(self) -> dict[str, Any]:
        return {
            "protocol": PROTOCOL,
            "crossgrad": __version__,
            "federation": self.federation.digest,
            "parts": self.federation.digests,
            "version": self.federation.version,
            "signed": self.signed is not None,
            "site": self.identity.name,
            "nonce": self.nonce,
        }

    def _check_software(self, said: dict[str, Any]) -> None:
        me, peer = self.identity.name, self.peer
        if said.get("protocol") != PROTOCOL or said.get("crossgrad") != __version__:
            raise RefusedError(
                f"{me} and {peer} must run the same version of crossgrad; {me} has {__version__}, {peer} has "
                f"{str(said.get('crossgrad'))[:20]}. Install the same."
            )

    def _check(self, said: dict[str, Any]) -> None:
        me, peer = self.identity.name, self.peer
        if said.get("site") != peer:
            raise RefusedError(
                f"the greeting must have the name in the certificate, {peer}; it says {said.get('site')!s:.70}."
            )
        if said.get("federation") != self.federation.digest:
            if (differing := self._differing(said)) == LOOP:
                raise RefusedError(
                    f"{me} and {peer} must train the same model by the same algorithm; theirs differ. Compare the "
                    "shape of the samples, and your loops if they are your own."
                )
            raise RefusedError(
                f"{me} and {peer} must have the same federation.toml; they differ in {differing}. Compare the files."
            )
        if not isinstance(said.get("nonce"), str) or len(said["nonce"]) != len(self.nonce):
            raise RefusedError(f"a greeting of {peer} was expected; what came cannot be read.")

    def _differing(self, said: dict[str, Any]) -> str:
        """The names of the parts of the file that differ."""
        own, theirs = self.federation.digests, said.get("parts")
        if not isinstance(theirs, dict):
            return "some setting"
        differing = [part for part in own if theirs.get(part) != own[part]]
        if len(differing) > 1 and LOOP in differing:
            differing.remove(LOOP)  # it follows from the others
        return ", ".join(differing[:MAX_PARTS]) + (" and more" if len(differing) > MAX_PARTS else "") or "some setting"

    def _text(self, signer: str, first: str, second: str) -> bytes:
        return f"crossgrad greeting {PROTOCOL} {self.federation.digest} {signer} {first} {second}".encode()

    def _proof(self, first: str, second: str) -> dict[str, str]:
        signature = self.identity.sign(self._text(self.identity.name, first, second))
        return {"certificate": self.identity.certificate_pem.decode(), "signature": signature.hex()}

    def _verify(self, said: dict[str, Any], first: str, second: str) -> None:
        try:
            certificate, signature = said["certificate"].encode(), bytes.fromhex(said["signature"])
            self.identity.verify(self.peer, certificate, self._text(self.peer, first, second), signature)
        except IdentityError as error:
            raise RefusedError(str(error)) from None
        except (KeyError, ValueError, TypeError, AttributeError):
            raise RefusedError(f"a greeting of {self.peer} was expected; what came cannot be read.") from None


def _version(said: dict[str, Any]) -> int:
    found = said.get("version")
    return found if isinstance(found, int) else 0


def read(frame: bytes, peer: str) -> dict[str, Any]:
    """Read a greeting. Raises RefusedError for anything else."""
    try:
        return frames.read_hello(frame)
    except FrameError as error:
        raise RefusedError(f"{peer}: {error}") from None
