"""The format of a link's messages: small control frames, and numbers in pieces.

The first byte of a frame says what it is. A message of control is seven whole numbers; one of data is followed by as
many bytes as it announces, in pieces of at most 256 KB. Nothing is unpickled, and announced sizes are limited.
"""

import json
import struct
from typing import Any

from crossgrad.federation.messages import (
    Activate,
    Activated,
    Counted,
    Data,
    DecideNow,
    Join,
    Leave,
    Message,
    ModelFollows,
    RequestModel,
)

PIECE_BYTES = 256 << 10
MAX_HELLO_BYTES = 1 << 19  # a greeting may contain a federation's file
PING, BYE, HELLO, CONTROL, PIECE = range(5)
MESSAGE_TYPES: tuple[type[Message], ...] = (
    Join,
    Activate,
    Activated,
    Data,
    Counted,
    DecideNow,
    Leave,
    RequestModel,
    ModelFollows,
)
WITH_NUMBERS = (Data, ModelFollows)
CONTROL_FORMAT = struct.Struct("<BB6q")


class FrameError(ValueError):
    """What arrived is not a frame, or not one that is allowed at this point."""


def hello(content: dict[str, Any]) -> bytes:
    return bytes([HELLO]) + json.dumps(content).encode()


def read_hello(frame: bytes) -> dict[str, Any]:
    """The content of a greeting."""
    if not frame or frame[0] != HELLO or len(frame) > MAX_HELLO_BYTES:
        raise FrameError("a greeting was expected at the beginning of a link; found something else.")
    try:
        content = json.loads(frame[1:])
    except (ValueError, RecursionError):
        raise FrameError("a greeting was expected; what came cannot be read.") from None
    if not isinstance(content, dict):
        raise FrameError("a greeting was expected; what came cannot be read.")
    return content


def control(message: Message, payload_bytes: int = 0) -> bytes:
    """The frame of a control message; messages with data announce how many bytes follow."""
    numbers = [int(value) for value in message] + ([payload_bytes] if isinstance(message, WITH_NUMBERS) else [])
    return CONTROL_FORMAT.pack(CONTROL, MESSAGE_TYPES.index(type(message)), *numbers, *[0] * (6 - len(numbers)))


def read_control(frame: bytes) -> tuple[Message, int]:
    """The message, and how many bytes of data follow it."""
    try:
        _, kind, *numbers = CONTROL_FORMAT.unpack(frame)
        made = MESSAGE_TYPES[kind]
    except (struct.error, IndexError):
        raise FrameError("a message was expected; what came cannot be read.") from None
    size = len(made._fields)
    if min(numbers) < 0:
        raise FrameError("a message of numbers from 0 on was expected; found one below 0.")
    message = made(*numbers[:size])
    if isinstance(message, Activate):
        message = message._replace(follower_moves=bool(message.follower_moves))
    return message, numbers[size] if isinstance(message, WITH_NUMBERS) else 0
