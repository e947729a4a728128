"""The group of the processes that torchrun started: set-up, collective operations, tear-down."""

import errno
import gc
import os
import socket
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from datetime import timedelta
from functools import partial
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor
from torch.distributed.rendezvous import rendezvous

from crossgrad._network.gloo import GlooTransport, NcclTransport
from crossgrad._network.shard import Shard
from crossgrad._network.wire import LostError, PeerError
from crossgrad._numerics.out_of_memory import NO_MEMORY, lacks_memory
from crossgrad._processes.aborts import on_abort
from crossgrad._processes.attempts import name_of_attempt
from crossgrad._processes.collectives import Collectives, check_sum, magnitude
from crossgrad._processes.group import Group, SingleProcess, add_rows
from crossgrad._processes.heartbeat import Heartbeat, end
from crossgrad._processes.step_watch import StepWatch

FOLDER_KEY = "crossgrad folder"  # in the launch's store
PROBLEM_KEY = "crossgrad problem"  # in the same place: why rank 0 ended
SAME_REASON_SECONDS = 3.0  # to wait for it
LOST_AFTER_SECONDS = 30.0  # without a heartbeat after which a process counts as lost
START_TIMEOUT = timedelta(minutes=10)  # in which all processes must have started
MESSAGE_TIMEOUT = timedelta(hours=1)  # for a message from a process whose heartbeat goes on


@contextmanager
def _connected() -> Iterator[None]:
    """Turn errors of gloo and NCCL into LostError, as they mean that a process is gone."""
    try:
        yield
    except RuntimeError:
        raise LostError from None


class ProcessGroup(Group):
    """The processes of torchrun; each holds a block of agents."""

    def __init__(self, device: torch.device, store: Any, watch: StepWatch) -> None:
        self.rank, self.processes, self.device = dist.get_rank(), dist.get_world_size(), device
        self.store = store  # the launch's own: it outlives the processes that torchrun starts anew
        self.agents = 0  # not known yet
        transport = NcclTransport if dist.get_backend() == "nccl" else GlooTransport
        self.transport: GlooTransport = transport(self.rank, self.processes, watch.waiting)
        self._watch = watch
        self._collectives = Collectives(self.transport, device)

    def shard(self, agents: int) -> Shard:
        if self.processes > agents:
            raise ValueError(
                f"each process must hold at least one agent; {self.processes} processes were started for {agents} "
                f"agents. Start at most {agents} with --nproc-per-node, or raise agents."
            )
        self.agents = agents
        return Shard.of(agents, self.rank, self.processes)

    def watched(self, step: int) -> AbstractContextManager[None]:
        return self._watch.step(step)

    def holding(self, rank: int) -> str:
        """The agents of a rank, such as "agents 3 to 5", for an error message."""
        held = Shard.of(self.agents, rank, self.processes)
        names = {0: "its agents are not known yet", 1: f"agent {held.first}"}
        return names.get(len(held), f"agents {held.first} to {held.last - 1}")

    def name_of(self, rank: int) -> str:
        return f"rank {rank} ({self.holding(rank)})"

    def gather(self, table_nC: Tensor, rows: Sequence[int] | None = None) -> Tensor:
        return self._collectives.gather(table_nC, rows)

    def agents_of_each(self) -> list[int] | None:
        if not self.agents:
            return None
        return [len(Shard.of(self.agents, rank, self.processes)) for rank in range(self.processes)]

    def total(self, rows_nD: Tensor) -> Tensor:
        """A chain: each process adds its agents to the sum of those before it; the last broadcasts the result."""
        if rows_nD[0].numel() == 0:
            return torch.zeros_like(rows_nD[0])
        bounds = self.votes(magnitude(rows_nD) * len(rows_nD), may_be_infinite=True)[:, 0].tolist()
        total = add_rows(self._collectives.sum_so_far(rows_nD[0], bounds), rows_nD)
        self._collectives.hand_on(total)
        last = self.processes - 1
        with self._watch.waiting(), _connected():
            dist.broadcast(total, last)
        check_sum(total, sum(bounds), f"rank {last}", "all ranks")
        return total

    def broadcast(self, tensor: Tensor) -> None:
        there = tensor.to(self.device)
        with self._watch.waiting(), _connected():
            dist.broadcast(there, 0)
        tensor.copy_(there)

    def keep_text(self, text: str) -> None:
        if self.is_rank_0:
            self.store.set(FOLDER_KEY, text)

    def kept_text(self) -> str:
        """Rank 0 reads the store, and all processes get its text."""
        known = self.is_rank_0 and self.store.check([FOLDER_KEY])
        return self.broadcast_text(self.store.get(FOLDER_KEY).decode() if known else "")


_current: list[Group] = []


def current_group() -> Group:
    """The group whose `with process_group()` block we are in."""
    if not _current:
        raise ValueError(
            "an optimiser needs a group of processes; there is none yet. Make the optimiser inside `with "
            "crossgrad.process_group() as group:` or `with crossgrad.site(...) as group:`."
        )
    return _current[-1]


@contextmanager
def as_current(group: Group) -> Iterator[Group]:
    """Make this the group of all optimisers that are made in the block."""
    _current.append(group)
    try:
        yield group
    finally:
        _current.pop()


@contextmanager
def process_group(device: str = "cpu", *, lost_after: float = LOST_AFTER_SECONDS) -> Iterator[Group]:
    """Set up the group of the processes that torchrun started, or of this one alone; tear it down at the end.

    gloo carries messages between CPUs, NCCL between GPUs. If another process dies, or its heartbeat stops for
    `lost_after` seconds, this one prints which and ends with status 3, so that torchrun can restart all of them.

    Args:
        device: "cpu", or "cuda" for the GPU of this process's local rank.
        lost_after: seconds without a heartbeat after which a process counts as lost.

    Yields:
        The group.
    """
    if "RANK" not in os.environ or "WORLD_SIZE" not in os.environ:
        with as_current(SingleProcess()) as alone:
            yield alone
        return
    place = torch.device(device)
    if place.type == "cuda":
        place = torch.device("cuda", int(os.environ.get("LOCAL_RANK", "0")) if place.index is None else place.index)
        torch.cuda.set_device(place)
    else:
        _listen_on_loopback()
    store, rank, processes, second = _meet()
    try:
        attempt = name_of_attempt(store, rank, processes, START_TIMEOUT.total_seconds())
    except (RuntimeError, TimeoutError):
        end(rank, "a process has been lost at the start.")
    prefix_store: Any = dist.PrefixStore  # type: ignore[attr-defined]
    own_store = prefix_store(attempt, store)
    watch = StepWatch(lost_after)
    heartbeat = Heartbeat(prefix_store(attempt, second), rank, processes, lost_after, watch)
    heartbeat.start()
    backend = "nccl" if place.type == "cuda" else "gloo"
    try:
        dist.init_process_group(backend, store=own_store, rank=rank, world_size=processes, timeout=MESSAGE_TIMEOUT)
    except RuntimeError:
        end(rank, f"{heartbeat.lost()} been lost at the start.")
    heartbeat.agents = group = ProcessGroup(place, store, watch)
    try:
        with as_current(group), on_abort(partial(_aborted, group, heartbeat)):
            yield group
        with _connected():
            dist.barrier()
        heartbeat.leave_together()
    except LostError:
        end(rank, f"{heartbeat.lost()} been lost.")
    except PeerError as error:
        end(rank, str(error))
    except (ValueError, OSError, MemoryError, RuntimeError) as error:
        if lacks_memory(error) or not isinstance(error, RuntimeError):
            _report(own_store, group, error)
        raise
    finally:
        heartbeat.stop()
        # Objects of a process group that outlive it make gloo abort at exit.
        heartbeat.agents = None
        del group
        gc.collect()
        dist.destroy_process_group()


def _report(store: Any, group: Group, error: Exception) -> None:
    """Print why this process ends, unless rank 0 ends for the same reason and prints it."""
    why = NO_MEMORY if lacks_memory(error) else str(error)
    try:
        if group.is_rank_0:
            store.set(PROBLEM_KEY, why)
            return
        began = time.monotonic()
        while not (known := store.check([PROBLEM_KEY])) and time.monotonic() - began < SAME_REASON_SECONDS:
            time.sleep(0.05)
        if not known or store.get(PROBLEM_KEY).decode() != why:
            sys.stderr.write(f"crossgrad: {group.name_of(group.rank)}: {why}\n")
            sys.stderr.flush()
    except RuntimeError:  # the store is gone
        sys.stderr.write(f"crossgrad: {group.name_of(group.rank)}: {why}\n")
    error.reported = True  # type: ignore[attr-defined]


def _has_own_store() -> bool:
    """Whether the store is one of this process, for processes of this machine only: no torchrun has started them."""
    everybody_here = os.environ["WORLD_SIZE"] == os.environ.get("LOCAL_WORLD_SIZE", os.environ["WORLD_SIZE"])
    return os.environ["RANK"] == "0" and os.environ.get("TORCHELASTIC_USE_AGENT_STORE") != "True" and everybody_here


def _own_store() -> tuple[Any, int, int]:
    """As `rendezvous`, whose store would listen on every interface of the machine; this one on MASTER_ADDR only."""
    host, port, processes = os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"]), int(os.environ["WORLD_SIZE"])
    family, *_, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
    listening = socket.create_server(address[:2], family=family)
    store = dist.TCPStore(  # type: ignore[attr-defined]
        host, port, processes, is_master=True, timeout=START_TIMEOUT, master_listen_fd=listening.detach()
    )
    return store, 0, processes


def _meet() -> tuple[Any, int, int, Any]:
    """The launch's store, this process's rank, how many there are, and a second connection to the store.

    The second one is for a thread that must not wait while the first is in use.
    """
    try:
        store, rank, processes = _own_store() if _has_own_store() else next(rendezvous("env://", timeout=START_TIMEOUT))
        host, port = os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"])
        second = dist.TCPStore(host, port, is_master=False, wait_for_workers=False)  # type: ignore[attr-defined]
    except (RuntimeError, KeyError, OSError) as error:
        where = f"{os.environ.get('MASTER_ADDR')}, port {os.environ.get('MASTER_PORT')}"
        taken = "EADDRINUSE" in str(error) or getattr(error, "errno", 0) == errno.EADDRINUSE
        why = "another program has this port" if taken else "there is no connection"
        raise ValueError(
            f"the processes must meet at MASTER_ADDR and MASTER_PORT; at {where}, {why}. Let torchrun or `crossgrad "
            "run --processes` choose a port, or give another."
        ) from None
    return store, rank, processes, second


def _aborted(group: "ProcessGroup", heartbeat: Heartbeat) -> None:
    """Print which messages this process waited for when gloo aborted it, and end it."""
    awaited = ", ".join(group.transport.awaited()) or "nothing from a single process"
    reason = f"a library aborted it, as gloo does where a message is longer than expected. It waited for: {awaited}."
    heartbeat.say_leaving()
    end(group.rank, reason)


def _listen_on_loopback() -> None:
    """Let gloo listen on the loopback interface only, unless the run spans several machines."""
    if "GLOO_SOCKET_IFNAME" in os.environ:
        return
    if os.environ["WORLD_SIZE"] != os.environ.get("LOCAL_WORLD_SIZE", os.environ["WORLD_SIZE"]):
        raise ValueError(
            "a run on several machines needs the name of the network that it may listen on; found none. Name the "
            "interface of a network you trust on each machine, such as GLOO_SOCKET_IFNAME=eth0."
        )
    os.environ["GLOO_SOCKET_IFNAME"] = "lo0" if sys.platform == "darwin" else "lo"
