"""One connection between two sites: frames out of a queue, frames in to whoever takes part, and signs of life.

An end has at most a message per exchange under way, and begins no other before the other end has answered; where the
queue grows nevertheless, the other end does not read, and the connection ends. Pieces are cut when gRPC asks for the
next one, so that it sets the pace.
"""

import threading
import time
from collections import deque
from collections.abc import Iterator
from typing import Protocol

from crossgrad.federation import handing
from crossgrad.federation.bounds import MAX_QUEUED_FRAMES, MAX_QUEUED_MESSAGES, Budget
from crossgrad.federation.frames import (
    BYE,
    CONTROL,
    HELLO,
    PIECE,
    PIECE_BYTES,
    PING,
    FrameError,
    control,
    read_control,
    read_hello,
)
from crossgrad.federation.messages import Message
from crossgrad.federation.versions import Signed


class Receiver(Protocol):
    """Who is told what arrives."""

    def received(self, peer: int, message: Message, payload: bytearray) -> None:
        """A whole message, in the thread of the connection."""

    def handed(self, peer: int, signed: Signed) -> None:
        """A later version of the federation's file."""


class Stream:
    """The frames of one connection; either end of it."""

    def __init__(self, peer: int, beat: float, max_payload_bytes: int, budget: Budget | None = None) -> None:
        self.peer, self.beat, self.max_payload_bytes = peer, beat, max_payload_bytes
        self.budget = budget or Budget()
        self.heard = time.monotonic()
        self.left = False  # the other end said goodbye
        self.closed = False
        self.bytes_in = self.bytes_out = 0
        self._queue: deque[tuple[bytes, bytes]] = deque()
        self._changed = threading.Condition()

    def send(self, message: Message, payload: bytes = b"") -> None:
        """Put a message into the queue; on a closed connection it is lost."""
        self._put(control(message, len(payload)), payload)

    def say_goodbye(self) -> None:
        self._put(bytes([BYE]), b"")

    def hand_over(self, signed: Signed) -> None:
        self._put(handing.frame_of(signed), b"")

    def close(self) -> None:
        with self._changed:
            self.closed = True
            self._changed.notify_all()

    def drained(self, timeout: float) -> bool:
        """Wait until the queue is empty."""
        with self._changed:
            return self._changed.wait_for(lambda: self.closed or not self._queue, timeout)

    def outgoing(self) -> Iterator[bytes]:
        """The frames to send, as long as the connection lasts; a sign of life where there is nothing to say."""
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._queue or self.closed, self.beat)
                if self.closed:
                    return
                frame, payload = self._queue[0] if self._queue else (bytes([PING]), b"")
            yield self._sent(frame)
            for start in range(0, len(payload), PIECE_BYTES):
                if self.closed:
                    return
                yield self._sent(bytes([PIECE]) + payload[start : start + PIECE_BYTES])
            with self._changed:
                if frame[0] != PING:
                    self._queue.popleft()
                    self._changed.notify_all()

    def incoming(self, frames: Iterator[bytes], receiver: Receiver) -> None:
        """Hand on what arrives until the connection ends or the other end says goodbye."""
        pending: tuple[Message, bytearray, int] | None = None
        for frame in frames:
            if self.closed:
                return
            self.heard = time.monotonic()
            self.bytes_in += len(frame)
            if not frame or frame[0] == PING:
                self.budget.spend()
                continue
            if frame[0] == BYE:
                self.left = True
                return
            if frame[0] == CONTROL and pending is None:
                message, size = read_control(frame)
                if size > self.max_payload_bytes:
                    raise FrameError(
                        f"a message of at most {self.max_payload_bytes} bytes was expected; {size} were announced."
                    )
                if size:
                    pending = message, bytearray(size), 0
                else:
                    receiver.received(self.peer, message, bytearray())
            elif frame[0] == HELLO and pending is None:
                self.budget.spend()
                receiver.handed(self.peer, handing.handed(read_hello(frame)))
            elif frame[0] == PIECE and pending is not None:
                pending = self._add(pending, frame)
                if pending[2] == len(pending[1]):
                    receiver.received(self.peer, pending[0], pending[1])
                    pending = None
            else:
                raise FrameError(f"another frame was expected here; found one of kind {frame[0]}.")

    def _add(self, pending: tuple[Message, bytearray, int], frame: bytes) -> tuple[Message, bytearray, int]:
        message, content, filled = pending
        expected = min(PIECE_BYTES, len(content) - filled)
        if len(frame) - 1 != expected:
            raise FrameError(f"a piece of {expected} bytes was expected; found {len(frame) - 1}.")
        content[filled : filled + expected] = memoryview(frame)[1:]
        return message, content, filled + expected

    def _put(self, frame: bytes, payload: bytes) -> None:
        with self._changed:
            if not self.closed:
                self._queue.append((frame, payload))
                with_numbers = sum(1 for _, numbers in self._queue if numbers)
                self.closed = with_numbers > MAX_QUEUED_MESSAGES or len(self._queue) > MAX_QUEUED_FRAMES
                self._changed.notify_all()

    def _sent(self, frame: bytes) -> bytes:
        self.bytes_out += len(frame)
        return frame
