"""Messages between processes, each checked when it arrives."""

from collections.abc import Sequence
from typing import NamedTuple

import torch
import torch.distributed as dist
from torch import Tensor

from crossgrad._network import wire
from crossgrad._network.wire import Label, LostError


class Operation(NamedTuple):
    """A message to be sent or received, and what it must be once it has arrived."""

    operation: dist.P2POp
    label: Label | None = None  # of what is received
    like: Sequence[Tensor] = ()


class Pending:
    """A message on its way."""

    def __init__(self, works: Sequence[dist.Work], parcels: Sequence[Operation]) -> None:
        self._works, self._parcels = works, parcels

    def wait(self) -> None:
        """Return when it has been sent, or received and checked; gloo itself would hang if asked twice."""
        works, self._works = self._works, ()
        try:
            for work in works:
                work.wait()
        except RuntimeError:
            raise LostError from None
        parcels, self._parcels = self._parcels, ()
        for operation, label, like in parcels:
            if label is not None:
                wire.check(operation.tensor, label, like, operation.peer)


class Transport:
    """Messages between processes."""

    def __init__(self, rank: int, processes: int) -> None:
        self.rank, self.processes = rank, processes
        self.batched = dist.get_backend() == "nccl"  # NCCL starts all sends and receives of a moment at once
        self.bytes_handed_over = 0
        self._spaces: dict[str, Tensor] = {}

    def start(self, parcels: Sequence[Operation]) -> list[Pending]:
        """Start sending and receiving; the tensors must live until the works are done."""
        if not parcels:
            return []
        operations = [parcel.operation for parcel in parcels]
        self.bytes_handed_over += sum(each.tensor.nbytes for each in operations if each.op is dist.isend)
        try:
            if self.batched:
                return [Pending(dist.batch_isend_irecv(operations), parcels)]
            works = [each.op(each.tensor, each.peer, group=each.group, tag=each.tag) for each in operations]
        except RuntimeError:
            raise LostError from None
        return [Pending([work], [parcel]) for work, parcel in zip(works, parcels, strict=True) if work is not None]

    def space(self, name: str, rows: int, width: int, device: torch.device) -> Tensor:
        """Bytes for messages, the same in every step: new pages would cost more than the copy."""
        held = self._spaces.get(name)
        if held is None or held.shape != (rows, width):
            held = self._spaces[name] = torch.zeros(rows, width, dtype=torch.uint8, device=device)
        return held

    def send(self, message: Tensor, rank: int, tag: int) -> Operation:
        return Operation(dist.P2POp(dist.isend, message, rank, tag=tag))

    def receive(self, message: Tensor, rank: int, tag: int, label: Label, like: Sequence[Tensor]) -> Operation:
        return Operation(dist.P2POp(dist.irecv, message, rank, tag=tag), label, like)
