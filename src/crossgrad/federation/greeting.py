"""The first frames of a connection: both ends prove who they are, and that they are in the same federation.

TLS has checked the certificates already. Here each end also signs both ends' fresh random numbers, so that the dialling
end, to which gRPC does not show the other's certificate, can check it for revocation too, and no greeting can be
played back.
"""

import secrets
from dataclasses import dataclass, field
from typing import Any

from crossgrad import __version__
from crossgrad.federation import frames
from crossgrad.federation.file import Federation
from crossgrad.federation.frames import FrameError
from crossgrad.federation.identity import Identity, IdentityError

PROTOCOL = 1
MAX_PARTS = 4  # of a file that are named in a refusal


class RefusedError(Exception):
    """This connection is refused; the text goes to both ends."""


@dataclass
class Greeting:
    """One end's part in a greeting with one other site."""

    federation: Federation
    identity: Identity
    peer: str
    nonce: str = field(default_factory=lambda: secrets.token_hex(16))

    def open(self) -> bytes:
        """The dialling end speaks first."""
        return frames.hello(self._about())

    def answer(self, opened: dict[str, Any]) -> bytes:
        """The listening end checks what the other runs, and proves who it is."""
        self._check(opened)
        return frames.hello(self._about() | self._proof(opened["nonce"], self.nonce))

    def close(self, answered: dict[str, Any]) -> bytes:
        """The dialling end checks the same, and proves who it is."""
        self._check(answered)
        self._verify(answered, self.nonce, answered["nonce"])
        return frames.hello(self._proof(self.nonce, answered["nonce"]))

    def finish(self, closed: dict[str, Any], opened: dict[str, Any]) -> None:
        """The listening end checks the proof."""
        self._verify(closed, opened["nonce"], self.nonce)

    def _about(self) -> dict[str, Any]:
        return {
            "protocol": PROTOCOL,
            "crossgrad": __version__,
            "federation": self.federation.digest,
            "parts": self.federation.digests,
            "version": self.federation.version,
            "site": self.identity.name,
            "nonce": self.nonce,
        }

    def _check(self, said: dict[str, Any]) -> None:
        me, peer = self.identity.name, self.peer
        if said.get("protocol") != PROTOCOL or said.get("crossgrad") != __version__:
            raise RefusedError(
                f"{me} and {peer} must run the same version of crossgrad; {me} has {__version__}, {peer} has "
                f"{str(said.get('crossgrad'))[:20]}. Install the same."
            )
        if said.get("site") != peer:
            raise RefusedError(
                f"{peer} is the name in the certificate, but the greeting says {said.get('site')!s:.70}."
            )
        if said.get("federation") != self.federation.digest:
            raise RefusedError(
                f"{me} and {peer} must have the same federation.toml; they differ in {self._differing(said)}. Compare "
                "the files."
            )
        if not isinstance(said.get("nonce"), str) or len(said["nonce"]) != len(self.nonce):
            raise RefusedError(f"the greeting of {peer} cannot be read.")

    def _differing(self, said: dict[str, Any]) -> str:
        """The parts of the file that differ, in words."""
        own, theirs = self.federation.digests, said.get("parts")
        if not isinstance(theirs, dict):
            return "some setting"
        differing = [part for part in own if theirs.get(part) != own[part]]
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
        except (KeyError, ValueError, AttributeError):
            raise RefusedError(f"the greeting of {self.peer} cannot be read.") from None


def read(frame: bytes, peer: str) -> dict[str, Any]:
    """What a greeting says; what is none is refused."""
    try:
        return frames.read_hello(frame)
    except FrameError as error:
        raise RefusedError(f"{peer}: {error}") from None
