"""A group of threads in one process, in place of several processes: for tests and trials."""

import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

import torch
from torch import Tensor

from crossgrad._network.in_memory import InMemoryTransport, Mailboxes
from crossgrad._network.shard import Shard
from crossgrad._processes.group import Group, add_rows

T = TypeVar("T")


class ThreadBarrier:
    """A collective operation of threads: each passes a tensor and gets those of all."""

    def __init__(self, processes: int, patience: float) -> None:
        self._barrier, self._tensors = threading.Barrier(processes, timeout=patience), [torch.empty(0)] * processes

    def all(self, rank: int, own: Tensor) -> list[Tensor]:
        """The tensors of all ranks, in their order."""
        self._tensors[rank] = own
        self._barrier.wait()
        gathered = [each.clone() for each in self._tensors]
        self._barrier.wait()
        return gathered


class ThreadGroup(Group):
    """One of several threads that hold a block of agents each, as processes of torchrun do."""

    def __init__(self, rank: int, mailboxes: Mailboxes, barrier: ThreadBarrier) -> None:
        self.rank, self.processes, self._gathering = rank, mailboxes.processes, barrier
        self.transport = InMemoryTransport(mailboxes, rank)

    def shard(self, agents: int) -> Shard:
        return Shard.of(agents, self.rank, self.processes)

    def gather(self, table_nC: Tensor, rows: Sequence[int] | None = None) -> Tensor:
        return torch.cat(self._gathering.all(self.rank, table_nC))

    def total(self, rows_nD: Tensor) -> Tensor:
        return add_rows(torch.zeros_like(rows_nD[0]), self.gather(rows_nD))

    def broadcast(self, tensor: Tensor) -> None:
        tensor.copy_(self._gathering.all(self.rank, tensor)[0])

    def keep_text(self, text: str) -> None:
        """No-op: threads are never restarted by a launcher."""

    def kept_text(self) -> str:
        return ""


def in_threads(processes: int, work: Callable[[Group], T], mailboxes: Mailboxes | None = None) -> list[T]:
    """Call `work` in as many threads, each with its group; return the results in the order of the ranks.

    >>> in_threads(3, lambda group: group.gather(torch.tensor([[float(group.rank)]])).flatten().tolist())[1]
    [0.0, 1.0, 2.0]
    """
    mailboxes = mailboxes or Mailboxes(processes)
    barrier = ThreadBarrier(processes, mailboxes.patience)
    with ThreadPoolExecutor(processes) as threads:
        running = [threads.submit(work, ThreadGroup(rank, mailboxes, barrier)) for rank in range(processes)]
    return [each.result() for each in running]
