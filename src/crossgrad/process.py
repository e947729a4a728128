"""The processes that torchrun started, as one group: start, what they do together, tear-down."""

import gc
import os
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta

import torch
import torch.distributed as dist
from torch import Tensor

from crossgrad.distributed import DistributedNetwork, Post
from crossgrad.graphs import Graph
from crossgrad.group import Alone, Group, add_rows
from crossgrad.network import Setting
from crossgrad.shard import Shard

FOLDER = "crossgrad folder"
TIMEOUT = timedelta(minutes=10)  # after which a process that waits in vain gives up


class ProcessGroup(Group):
    """The processes of torchrun; each holds a block of agents."""

    def __init__(self, device: torch.device, store: dist.Store) -> None:
        self.rank, self.processes, self.device = dist.get_rank(), dist.get_world_size(), device
        self.store = store  # the launch's own: it outlives the processes that torchrun starts anew
        self.post = Post(self.rank, self.processes)

    def shard(self, agents: int) -> Shard:
        if self.processes > agents:
            raise ValueError(
                f"{self.processes} processes were started for {agents} agents, and each must hold at least one. "
                f"Start at most {agents} with --nproc-per-node, or raise agents."
            )
        return Shard.of(agents, self.rank, self.processes)

    def network(self, graph: Graph, setting: Setting, step: int) -> DistributedNetwork:
        return DistributedNetwork(graph, setting, step, self.post)

    def gather(self, table_nC: Tensor) -> Tensor:
        counts = [torch.zeros(1, dtype=torch.int64, device=self.device) for _ in range(self.processes)]
        dist.all_gather(counts, torch.tensor([len(table_nC)], device=self.device))
        largest = max(int(count) for count in counts)
        padded = torch.zeros(largest, *table_nC.shape[1:], dtype=table_nC.dtype, device=self.device)
        padded[: len(table_nC)] = table_nC.to(self.device)
        tables = [torch.empty_like(padded) for _ in counts]
        dist.all_gather(tables, padded)
        return torch.cat([table[: int(count)] for table, count in zip(tables, counts, strict=True)]).to(table_nC.device)

    def total(self, rows_nD: Tensor) -> Tensor:
        """A chain: each process adds its agents to the sum of those before it; the last tells everybody."""
        total = torch.zeros_like(rows_nD[0])
        if total.numel() == 0:
            return total
        if self.rank > 0:
            dist.recv(total, self.rank - 1)
        total = add_rows(total, rows_nD)
        if self.rank < self.processes - 1:
            dist.send(total, self.rank + 1)
        dist.broadcast(total, self.processes - 1)
        return total

    def broadcast(self, tensor: Tensor) -> None:
        """Give everybody the leader's numbers."""
        there = tensor.to(self.device)
        dist.broadcast(there, 0)
        tensor.copy_(there)

    def remember(self, text: str) -> None:
        if self.leader:
            self.store.set(FOLDER, text)

    def recall(self) -> str:
        """The leader asks, so that all go by the same answer."""
        known = self.leader and self.store.check([FOLDER])
        return self.tell(self.store.get(FOLDER).decode() if known else "")


_current: list[Group] = []


def current_group() -> Group:
    """The group whose `with process_group()` block we are in."""
    if not _current:
        raise ValueError(
            "there is no group of processes yet. Make the optimiser inside `with crossgrad.process_group() as group:`."
        )
    return _current[-1]


@contextmanager
def _as_current(group: Group) -> Iterator[Group]:
    _current.append(group)
    try:
        yield group
    finally:
        _current.pop()


@contextmanager
def process_group(device: str = "cpu") -> Iterator[Group]:
    """The processes that torchrun started, or this one alone; set up here, and torn down at the end.

    gloo carries messages between CPUs, NCCL between GPUs; "cuda" takes the GPU of this process's local rank.
    """
    if "RANK" not in os.environ or "WORLD_SIZE" not in os.environ:
        with _as_current(Alone()) as alone:
            yield alone
        return
    place = torch.device(device)
    if place.type == "cuda":
        place = torch.device("cuda", int(os.environ.get("LOCAL_RANK", "0")) if place.index is None else place.index)
        torch.cuda.set_device(place)
    store, rank, processes = next(dist.rendezvous("env://", timeout=TIMEOUT))
    # What an attempt wrote there would mislead the next one: each has a place of its own.
    attempt = dist.PrefixStore(f"attempt {os.environ.get('TORCHELASTIC_RESTART_COUNT', '0')}", store)
    backend = "nccl" if place.type == "cuda" else "gloo"
    dist.init_process_group(backend, store=attempt, rank=rank, world_size=processes, timeout=TIMEOUT)
    try:
        with _as_current(ProcessGroup(place, store)) as group:
            yield group
        del group
        dist.barrier()
    finally:
        # Objects of a process group that outlive it make gloo abort at exit.
        gc.collect()
        dist.destroy_process_group()
