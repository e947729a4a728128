"""Frames that carry a later version of the federation's file to a neighbour, in place of a greeting."""

from typing import Any

from crossgrad.federation import frames
from crossgrad.federation.frames import FrameError
from crossgrad.federation.versions import Signed


def frame_of(signed: Signed) -> bytes:
    """The frame that carries a file."""
    return frames.hello({"later": signed.text, "signature": signed.signature.hex()})


def is_handed(said: dict[str, Any]) -> bool:
    """Whether this is a file instead of a greeting."""
    return "later" in said


def handed(said: dict[str, Any]) -> Signed:
    """The file in the frame; its signature has yet to be checked."""
    try:
        return Signed(str(said["later"]), bytes.fromhex(said["signature"]))
    except (KeyError, ValueError, TypeError):
        raise FrameError("a later version of the federation's file was expected; what came cannot be read.") from None
