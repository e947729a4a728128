"""The transport of torchrun's processes: point-to-point messages of gloo (CPU) or NCCL (GPU).

A connection that breaks ends the run: `LostError`, which the runtime turns into the end of the process.
"""

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from contextlib import AbstractContextManager, nullcontext
from functools import partial

import torch.distributed as dist
from torch import Tensor

from crossgrad._network import wire
from crossgrad._network.transport import Pending, in_order
from crossgrad._network.wire import Label, LostError

MAX_WAITING_THREADS = 8  # with more messages than this, they are waited for in the order of the agents

Waiting = Callable[[], AbstractContextManager[None]]  # entered while a message is waited for


class GlooMessage:
    """One message of torch.distributed; `operation` is there until it has been started."""

    def __init__(
        self, operation: dist.P2POp, check: Callable[[], None] | None, waiting: Waiting, what: str = ""
    ) -> None:
        self.operation, self._check, self._waiting = operation, check, waiting
        self.what = what  # the message that is awaited, in words; empty once it is here
        self.works: Sequence[dist.Work] = ()

    def wait(self) -> bool:
        works, self.works = self.works, ()  # gloo hangs if it is waited for twice
        try:
            with self._waiting():
                for work in works:
                    work.wait()
        except RuntimeError:
            raise LostError from None
        self.what = ""
        check, self._check = self._check, None
        if check is not None:
            check()
        return True


class GlooTransport:
    """Every message starts as soon as it is posted.

    Args:
        rank: the number of this process.
        processes: how many there are.
        waiting: entered while a message is waited for, perhaps in several threads at once.
    """

    def __init__(self, rank: int, processes: int, waiting: Waiting = nullcontext) -> None:
        self.rank, self.processes, self._waiting = rank, processes, waiting
        self._receives: deque[GlooMessage] = deque()  # the newest ones, in the order in which they were posted

    def send(self, message: Tensor, rank: int, tag: int) -> Pending:
        return self._post(GlooMessage(dist.P2POp(dist.isend, message, rank, tag=tag), None, self._waiting))

    def receive(self, message: Tensor, rank: int, tag: int, label: Label, like: Sequence[Tensor]) -> Pending:
        check = partial(wire.check_message, message, label, like, rank)
        while self._receives and not self._receives[0].what:
            self._receives.popleft()
        operation, what = dist.P2POp(dist.irecv, message, rank, tag=tag), f"{label} from rank {rank}"
        posted = GlooMessage(operation, check, self._waiting, what)
        self._receives.append(posted)
        return self._post(posted)

    def awaited(self) -> list[str]:
        """The messages that have not arrived yet, in words."""
        return [message.what for message in self._receives if message.what]

    def start(self) -> None:
        """No-op: everything has been started."""

    def completed(self, pending: Sequence[Pending]) -> Iterator[int]:
        if not 1 < len(pending) <= MAX_WAITING_THREADS:
            yield from in_order(pending)
            return
        with ThreadPoolExecutor(len(pending)) as threads:
            waiting = {threads.submit(each.wait): number for number, each in enumerate(pending)}
            for done in as_completed(waiting):
                done.result()
                yield waiting[done]

    def _post(self, message: GlooMessage) -> GlooMessage:
        op = message.operation
        try:
            work = op.op(op.tensor, op.peer, group=op.group, tag=op.tag)
        except RuntimeError:
            raise LostError from None
        message.works = [] if work is None else [work]
        return message


class NcclTransport(GlooTransport):
    """Messages of NCCL. All sends and receives of an exchange are started together: one by one they could block."""

    def __init__(self, rank: int, processes: int, waiting: Waiting = nullcontext) -> None:
        super().__init__(rank, processes, waiting)
        self._posted: list[GlooMessage] = []

    def start(self) -> None:
        posted, self._posted = self._posted, []
        if not posted:
            return
        try:
            works = dist.batch_isend_irecv([message.operation for message in posted])
        except RuntimeError:
            raise LostError from None
        for message in posted:
            message.works = works

    def completed(self, pending: Sequence[Pending]) -> Iterator[int]:
        return in_order(pending)

    def _post(self, message: GlooMessage) -> GlooMessage:
        self._posted.append(message)
        return message
