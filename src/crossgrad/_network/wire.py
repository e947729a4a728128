"""What a message between processes looks like: a header that says what it is, then numbers.

Nothing is believed before it was checked: a message of another kind, agent, step or size than expected, or with
numbers that are not finite, is refused with the name of its sender.
"""

from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from crossgrad._network.traffic import KINDS

MAGIC = 0x6372_6F73_7367_7231  # "crossgr1": the format and its version
FIELDS = ("format", "kind", "step", "agent", "receiver", "bytes")
HEADER = 8 * 8  # bytes; a multiple of every element's size, so that the numbers after it are aligned
TAIL = 8  # bytes at the end that change with the step: gloo does not say if a message was shorter than expected
EVERYBODY = -1  # as a receiver


class PeerError(Exception):
    """Another process did not do as expected; this one cannot go on."""


class LostError(PeerError):
    """A connection broke: some process is gone."""


class Label(NamedTuple):
    """What a message is: numbers of `kind` from `agent`, in one step, to one receiver or to all."""

    kind: str
    step: int
    agent: int
    receiver: int = EVERYBODY

    def __str__(self) -> str:
        return f"the {self.kind} of agent {self.agent} in step {self.step}"


def space(like: Sequence[Tensor]) -> int:
    """Bytes of a message that holds these tensors."""
    return HEADER + sum(_padded(part) for part in like) + TAIL


def pack(message: Tensor, label: Label, parts: Sequence[Tensor]) -> None:
    """Write a message into its bytes."""
    for part in parts:
        if not _finite(part):
            raise PeerError(f"{label} is not finite, so it is not sent; this process ends.")
    message[:HEADER].view(torch.int64).copy_(_header(label, message))
    message[-TAIL:].view(torch.int64).fill_(MAGIC + label.step)
    start = HEADER
    for part in parts:
        message[start : start + part.nbytes].view(part.dtype).copy_(part.reshape(-1))
        start += _padded(part)


def parts_of(message: Tensor, like: Sequence[Tensor]) -> list[Tensor]:
    """Views of a message's numbers, in the shapes of these tensors."""
    views, start = [], HEADER
    for part in like:
        views.append(message[start : start + part.nbytes].view(part.dtype).view(part.shape))
        start += _padded(part)
    return views


def check(message: Tensor, label: Label, like: Sequence[Tensor], rank: int) -> None:
    """Raise unless the message is the one expected."""
    expected, found = _header(label, message).tolist(), message[:HEADER].view(torch.int64).tolist()
    for name, right, wrong in zip(FIELDS, expected, found, strict=False):
        if right != wrong:
            raise PeerError(
                f"rank {rank} was to send {label}, but what arrived has {name} {wrong} instead of {right}; it is not "
                "used, and this process ends."
            )
    if int(message[-TAIL:].view(torch.int64)) != MAGIC + label.step:
        raise PeerError(f"rank {rank} sent only a part of {label}; it is not used, and this process ends.")
    for part in parts_of(message, like):
        if not _finite(part):
            raise PeerError(
                f"rank {rank} sent {label} with numbers that are not finite; it is not used, and this process ends."
            )


def _header(label: Label, message: Tensor) -> Tensor:
    kind = KINDS.index(label.kind)
    fields = [MAGIC, kind, label.step, label.agent, label.receiver, len(message), 0, 0]
    return torch.tensor(fields, dtype=torch.int64, device=message.device)


def _padded(part: Tensor) -> int:
    return -(-part.nbytes // 8) * 8


def _finite(part: Tensor) -> bool:
    if not part.is_floating_point() or not part.numel():
        return True
    least, largest = torch.aminmax(part)  # both are NaN where any number is
    return bool(least.isfinite() & largest.isfinite())
