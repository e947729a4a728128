"""What all processes exchange at evaluations, as checked messages: sizes before data, each with its sender's name.

n: rows of this process, C: columns, D: parameters.
"""

from collections.abc import Sequence

import torch
from torch import Tensor

from crossgrad._network import wire
from crossgrad._network.transport import Transport
from crossgrad._network.wire import Label, PeerError

FIRST_TAG = 1 << 30  # above the tags of the messages between agents
MAX_ROWS = 1 << 24  # of one process, in a table that is gathered
ROUNDING = 1e-3  # the share by which a sum of float32 or bfloat16 may exceed the sum of its terms' bounds


class Exchange(Label):
    """The label of a message to all other processes; `agent` is the sender's rank, `step` counts the exchanges."""

    __slots__ = ()

    def __str__(self) -> str:
        return f"the {self.kind} of exchange {self.step} between all processes"


class Collectives:
    """Collective operations made of messages from process to process.

    Args:
        transport: what carries the messages.
        device: where the transport takes tensors from.
    """

    def __init__(self, transport: Transport, device: torch.device) -> None:
        self.transport, self.device = transport, device
        self.rank, self.processes = transport.rank, transport.processes
        self._number = 0  # of exchanges so far

    def gather(self, table_nC: Tensor, rows: Sequence[int] | None = None) -> Tensor:
        """The rows of all processes, in the order of the ranks.

        Args:
            table_nC: this process's.
            rows: how many each process must send; None where any number up to MAX_ROWS is right.

        Raises:
            PeerError: a process sent something else; it is named.
        """
        self._number += 1
        own = torch.tensor([len(table_nC), _width(table_nC), table_nC.element_size()])
        sizes = self._to_all("sizes", own, [torch.zeros(3, dtype=torch.int64)] * self.processes)
        for rank, (count, width, element) in enumerate(each.tolist() for each in sizes):
            least, most = (0, MAX_ROWS) if rows is None else (rows[rank], rows[rank])
            if [width, element] != own.tolist()[1:] or not least <= count <= most:
                raise PeerError(
                    f"rank {rank} announced {count} rows of {width} numbers of {element} bytes in exchange "
                    f"{self._number} between all processes; {'at most ' * (rows is None)}{most} rows of {own[1]} "
                    f"numbers of {own[2]} bytes would be right. They are not received."
                )
        bits, row_bytes = _bits(table_nC), _width(table_nC) * table_nC.element_size()
        like = [torch.zeros(int(each[0]) * row_bytes, dtype=torch.uint8) for each in sizes]
        tables = self._to_all("rows", bits, like)
        all_rows = [bits.view(table_nC.dtype).view(-1, *table_nC.shape[1:]) for bits in tables if bits.numel()]
        return torch.cat(all_rows).to(table_nC.device) if all_rows else table_nC[:0]

    def sum_so_far(self, like_D: Tensor, bounds: Sequence[float]) -> Tensor:
        """What the process before this one sent by `hand_on`, the sum of its rows and those before it; zeros on rank 0.

        Args:
            like_D: a tensor of the sum's shape and type.
            bounds: for each process, a bound on the sum of its rows' magnitudes.
        """
        if self.rank == 0:
            return torch.zeros_like(like_D)
        sender, like = self.rank - 1, [_bits(like_D)]
        message = self._blank(like)
        label = Exchange("sum", self._number, sender)
        pending = self.transport.receive(message, sender, FIRST_TAG + 2, label, like)
        self.transport.start()
        pending.wait()
        total = wire.parts_of(message, like)[0].clone().view(like_D.dtype).view(like_D.shape).to(like_D.device)
        check_sum(total, sum(bounds[: self.rank]), f"rank {sender}", f"ranks 0 to {sender}")
        return total

    def hand_on(self, total_D: Tensor) -> None:
        """Send the sum to the next process, if there is one."""
        if self.rank + 1 < self.processes:
            message = self._packed("sum", _bits(total_D))
            pending = self.transport.send(message, self.rank + 1, FIRST_TAG + 2)
            self.transport.start()
            pending.wait()

    def _to_all(self, kind: str, own: Tensor, like: Sequence[Tensor]) -> list[Tensor]:
        """Send `own` to all others, and return what all sent; `like` has the shapes to expect."""
        tag = FIRST_TAG + (kind == "rows")
        others = [rank for rank in range(self.processes) if rank != self.rank]
        inbox = {rank: self._blank([like[rank]]) for rank in others}
        pending = [
            self.transport.receive(inbox[rank], rank, tag, Exchange(kind, self._number, rank), [like[rank]])
            for rank in others
        ]
        message = self._packed(kind, own)
        pending += [self.transport.send(message, rank, tag) for rank in others]
        self.transport.start()
        for each in pending:
            each.wait()
        parts = {rank: wire.parts_of(inbox[rank], [like[rank]])[0].cpu() for rank in others}
        return [own.cpu() if rank == self.rank else parts[rank] for rank in range(self.processes)]

    def _packed(self, kind: str, part: Tensor) -> Tensor:
        message = self._blank([part])
        wire.pack_message(message, Exchange(kind, self._number, self.rank), [part])
        return message

    def _blank(self, like: Sequence[Tensor]) -> Tensor:
        return torch.zeros(wire.message_bytes(like), dtype=torch.uint8, device=self.device)


def check_sum(total_D: Tensor, bound: float, sender: str, summed: str) -> None:
    """Raise PeerError if a sum has numbers that exceed the bound of the rows it was made of.

    Models that overflowed have no bound.
    """
    found = magnitude(total_D)
    limits = torch.finfo(total_D.dtype)
    if bound <= limits.max and not found <= bound * (1 + ROUNDING) + limits.tiny:
        raise PeerError(
            f"{sender} sent a sum of models with a number of {found:.3g}, but those of {summed} cannot add up to more "
            f"than {bound:.3g}; it is not used."
        )


def magnitude(rows: Tensor) -> float:
    """The largest magnitude; infinite where a number is not finite."""
    if not rows.numel():
        return 0.0
    least, largest = (float(value) for value in torch.aminmax(rows))
    found = max(-least, largest)
    return found if found < torch.inf else torch.inf


def _bits(tensor: Tensor) -> Tensor:
    """The bytes of a tensor. Messages of numbers must be finite, and NaN stands for a number that is not known."""
    return tensor.detach().contiguous().view(-1).view(torch.uint8)


def _width(table_nC: Tensor) -> int:
    """Numbers in a row."""
    return int(table_nC[0].numel()) if len(table_nC) else int(torch.empty(table_nC.shape[1:]).numel())
