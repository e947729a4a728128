"""What a message between processes looks like: a header that says what it is, then numbers.

A message is used only after it was checked: one of another kind, agent, step or size than expected, or with numbers
that are not finite, is refused with the name of its sender.
"""

from collections.abc import Sequence
from functools import lru_cache
from hashlib import blake2b
from math import inf
from struct import Struct
from typing import NamedTuple

import torch
from torch import Tensor

MAGIC = 0x6372_6F73_7367_7232  # "crossgr2": the format and its version
FIELDS = ("format", "kind", "step", "agent", "receiver", "round", "bytes")
HEADER_BYTES = 8 * 8  # a multiple of every element's size, so that the numbers after it are aligned
TAIL_BYTES = 8  # hold a number that changes with the step: gloo does not report a message that was too short
_SECONDS, _BITS = Struct("<d"), Struct("<q")
ALL_RECEIVERS = -1  # in place of a receiver: the message goes to all neighbours


class PeerError(Exception):
    """Another process did not do what was expected; the runtime decides whether this one can go on."""


class LostError(PeerError):
    """A connection broke: some process is gone."""


class Label(NamedTuple):
    """What a message is: numbers of `kind` from `agent`, in one step, to one receiver or to all."""

    kind: str
    step: int
    agent: int
    receiver: int = ALL_RECEIVERS
    round: int = 0  # of those of this kind in the step
    time: float = 0.0  # simulated, at which it began; the receiver does not know it before

    def __str__(self) -> str:
        return f"the {self.kind} of agent {self.agent} in step {self.step}"


@lru_cache(maxsize=256)
def kind_code(kind: str) -> int:
    """The number of a kind of message in a header: a hash of its name, so that no list of kinds is needed."""
    return int.from_bytes(blake2b(kind.encode(), digest_size=8).digest(), "little") >> 1


def message_bytes(like: Sequence[Tensor]) -> int:
    """Bytes of a message that holds these tensors."""
    return HEADER_BYTES + sum(_padded(part) for part in like) + TAIL_BYTES


def pack_message(message: Tensor, label: Label, parts: Sequence[Tensor]) -> None:
    """Write a message into its bytes.

    Raises:
        PeerError: if a number is not finite.
    """
    for part in parts:
        if not is_finite(part):
            raise PeerError(f"{label} is not finite, so it is not sent.")
    message[:HEADER_BYTES].view(torch.int64).copy_(_message_header(label, message))
    message[-TAIL_BYTES:].view(torch.int64).fill_(MAGIC + label.step)
    start = HEADER_BYTES
    for part in parts:
        message[start : start + part.nbytes].view(part.dtype).copy_(part.reshape(-1))
        start += _padded(part)


def parts_of(message: Tensor, like: Sequence[Tensor]) -> list[Tensor]:
    """Views of a message's numbers, in the shapes of these tensors."""
    views, start = [], HEADER_BYTES
    for part in like:
        views.append(message[start : start + part.nbytes].view(part.dtype).view(part.shape))
        start += _padded(part)
    return views


def rows_of(messages_mB: Tensor, like: Sequence[Tensor]) -> list[Tensor]:
    """As `parts_of` for several messages at once: one view with a row per message for each part."""
    views, start = [], HEADER_BYTES
    for part in like:
        rows = messages_mB[:, start : start + part.nbytes].view(part.dtype)
        views.append(rows.view(len(messages_mB), *part.shape))
        start += _padded(part)
    return views


def check_message(message: Tensor, label: Label, like: Sequence[Tensor], rank: int) -> None:
    """Raise unless the message is the one expected.

    Raises:
        PeerError: with the rank that sent it and what is wrong.
    """
    expected, found = _message_header(label, message).tolist(), message[:HEADER_BYTES].view(torch.int64).tolist()
    for name, right, wrong in zip(FIELDS, expected, found, strict=False):
        if right != wrong:
            raise PeerError(
                f"rank {rank} was to send {label}, but what arrived has {name} {wrong} instead of {right}; "
                "it is not used."
            )
    if not 0 <= time_of(message) < inf:
        raise PeerError(f"rank {rank} sent {label} with a simulated time of {time_of(message)}; it is not used.")
    if int(message[-TAIL_BYTES:].view(torch.int64)) != MAGIC + label.step:
        raise PeerError(f"rank {rank} sent only a part of {label}; it is not used.")
    for part in parts_of(message, like):
        if not is_finite(part):
            raise PeerError(f"rank {rank} sent {label} with numbers that are not finite; it is not used.")


def _message_header(label: Label, message: Tensor) -> Tensor:
    fields = [MAGIC, kind_code(label.kind), label.step, label.agent, label.receiver, label.round, len(message)]
    fields.append(_BITS.unpack(_SECONDS.pack(label.time))[0])
    return torch.tensor(fields, dtype=torch.int64, device=message.device)


def time_of(message: Tensor) -> float:
    """The simulated time at which a message began."""
    bits = int(message[HEADER_BYTES - 8 : HEADER_BYTES].view(torch.int64))
    seconds: float = _SECONDS.unpack(_BITS.pack(bits))[0]
    return seconds


def _padded(part: Tensor) -> int:
    return -(-part.nbytes // 8) * 8


def is_finite(part: Tensor) -> bool:
    """Whether all numbers are finite; whole numbers are."""
    if not part.is_floating_point() or not part.numel():
        return True
    least, largest = torch.aminmax(part)  # both are NaN where any number is
    return bool(least.isfinite() & largest.isfinite())
