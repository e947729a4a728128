"""The processes of a run: which agents each holds, the transport between them, and their collective operations.

n: agents of this process, N: of all. Training steps use the transport only: there, messages go between neighbours.
"""

import copy
import hashlib
from abc import ABC, abstractmethod
from collections.abc import Collection, Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import ClassVar, Protocol, TypeVar

import torch
from torch import Tensor, nn

from crossgrad._network.context import NetworkContext
from crossgrad._network.network import NO_PEERS, AgentNetwork
from crossgrad._network.shard import Shard
from crossgrad._network.transport import Transport
from crossgrad._network.wire import PeerError
from crossgrad.graphs import Graph

T = TypeVar("T")

MAX_GATHERED_TEXT_BYTES = 4000  # of a text that one process sends to all
MAX_BROADCAST_BYTES = 1 << 20  # of rank 0's text
END_OF_TEXT = -1


class Replica(Protocol):
    """The owner of this process's model, for groups that go on without lost neighbours and may adopt a model."""

    def model_bytes(self) -> bytes:
        """The model as it is between two steps."""

    def adopt(self, content: bytes | bytearray) -> None:
        """Take over a neighbour's model."""


class Group(ABC):
    """The processes that run one experiment together. Collective: all of them call `gather`, `total`, `broadcast`."""

    links_may_fail: ClassVar[bool] = False  # whether a step may go without some of the graph's links

    rank: int  # the number of this process
    processes: int
    transport: Transport  # what carries messages to the agents of other processes

    @property
    def is_rank_0(self) -> bool:
        """Whether this process writes the files and the output of the run; it holds agent 0."""
        return self.rank == 0

    @abstractmethod
    def shard(self, agents: int) -> Shard:
        """The agents that this process holds."""

    def network(self, graph: Graph, context: NetworkContext, step: int) -> AgentNetwork:
        """The network of this process's agents in one step."""
        return AgentNetwork(graph, context, step, self.transport)

    def begin_step(self, replica: Replica, step: int) -> int:
        """Return the number of the step that begins now; between sites, the one agreed on with the neighbours."""
        return step

    def watched(self, step: int) -> AbstractContextManager[None]:
        """A block in which a step is taken; a process of several that hangs in it ends, so that the others notice."""
        return nullcontext()

    def end_step(self) -> None:  # noqa: B027
        """No-op: only sites agree on steps."""

    @abstractmethod
    def gather(self, table_nC: Tensor, rows: Sequence[int] | None = None) -> Tensor:
        """The rows of all processes, in the order of the ranks, in every process.

        Args:
            table_nC: this process's rows; where they are those of agents, in the order of the agents.
            rows: how many each process must have, where that is known; one that sends another number is named.
        """

    def agents_of_each(self) -> Sequence[int] | None:
        """How many agents each process holds; None where it is not known."""
        return None

    @abstractmethod
    def total(self, rows_nD: Tensor) -> Tensor:
        """The sum of all agents' rows, in the order of the agents, so that the bits do not depend on the processes."""

    def survey(self, table_nC: Tensor) -> Tensor:
        """As `gather`, at the start of a run: the first number of an agent's row is how many samples it holds."""
        return self.gather(table_nC, self.agents_of_each())

    def votes(self, *numbers: float, may_be_infinite: bool = False) -> Tensor:
        """The numbers of all processes, a row each. Collective: every process must call it with as many.

        Raises:
            PeerError: a number is not one; the process that sent it is named.
        """
        votes = self.gather(torch.tensor([numbers], dtype=torch.float64), [1] * self.processes)
        wrong = votes.isnan() if may_be_infinite else ~votes.isfinite()
        for rank in wrong.any(dim=1).nonzero()[:, 0].tolist():
            raise PeerError(
                f"{self.name_of(rank)} sent {votes[rank].tolist()} where all processes agree on how to go on; these "
                "must be numbers, and are not used."
            )
        return votes

    def mean(self, rows_nD: Tensor, agents: int) -> Tensor:
        """The mean of all agents' rows."""
        return self.total(rows_nD) / agents

    @abstractmethod
    def broadcast(self, tensor: Tensor) -> None:
        """Overwrite the tensor with rank 0's, in place."""

    def agree(self, text: str) -> None:
        """Raise ValueError unless every process passes the same text."""
        digest = hashlib.sha256(text.encode()).digest()[:8]
        digests = self.gather(torch.tensor([[int.from_bytes(digest, "big", signed=True)]]))[:, 0].tolist()
        if len(set(digests)) > 1:
            other = next(rank for rank, theirs in enumerate(digests) if theirs != digests[0])
            raise ValueError(
                f"all processes must run the same experiment on the same version; that of rank {other} differs from "
                f"that of rank 0. Give all of them the same file, model, graph, settings and installation."
            )

    def broadcast_text(self, text: str) -> str:
        """Return rank 0's text, in every process."""
        content = text.encode()
        size = torch.tensor([len(content)])
        self.broadcast(size)
        if not 0 <= int(size) <= MAX_BROADCAST_BYTES:
            raise PeerError(
                f"rank 0 announced a text of {int(size)} bytes; at most {MAX_BROADCAST_BYTES} can be right. It is "
                "not received."
            )
        letters = torch.zeros(int(size), dtype=torch.uint8)
        if self.is_rank_0:
            letters = torch.tensor(list(content), dtype=torch.uint8)
        self.broadcast(letters)
        return bytes(letters.tolist()).decode(errors="replace")

    def name_of(self, rank: int) -> str:
        """A process in words, for messages."""
        return f"rank {rank}"

    def gather_texts(self, text: str) -> list[str]:
        """The texts of all processes, in the order of ranks. Collective: every process must call it."""
        letters = text.encode()[:MAX_GATHERED_TEXT_BYTES]
        texts, own = [], bytearray()
        for letter in self.gather(torch.tensor([[letter] for letter in (*letters, END_OF_TEXT)]))[:, 0].tolist():
            if letter == END_OF_TEXT:
                texts.append(own.decode(errors="replace"))
                own = bytearray()
            else:
                own.append(letter % 256)
        return texts

    def check_all(self, problem: str) -> None:
        """Raise in every process if one of them has a problem. Collective: every process must call it.

        Args:
            problem: a sentence, or an empty text where all is well.

        Raises:
            ValueError: with the sentences of all processes that have one, each once; those of other ranks than 0
                say which rank they come from.
        """
        said = self.gather_texts(problem)
        first = {text: said.index(text) for text in said if text}  # the lowest rank with this problem
        if first:
            named = (f"{self.name_of(rank)}: {text}" if rank else text for text, rank in first.items())
            raise ValueError(" ".join(named))

    @abstractmethod
    def keep_text(self, text: str) -> None:
        """Keep a text that outlives the processes, for a restart by the launcher."""

    @abstractmethod
    def kept_text(self) -> str:
        """Return what an earlier attempt of the same launch kept; empty if there was none."""

    def in_step(self, loader: Collection[T]) -> Iterator[T]:
        """The loader's batches, for as long as the longest loader of all processes lasts; shorter ones begin anew.

        Thus agents with different amounts of data take the same number of steps, and none waits for one that has
        ended.
        """
        longest = int(self.votes(len(loader)).max())
        if len(loader) == 0:
            raise ValueError(f"every agent needs at least one batch; the loader of rank {self.rank} is empty.")
        batches = iter(loader)
        for _ in range(longest):
            batch = next(batches, None)
            if batch is None:
                batches = iter(loader)
                batch = next(batches)
            yield batch

    def averaged(self, model: nn.Module) -> nn.Module:
        """A copy of the module with the average of all processes' parameters and floating buffers."""
        copied = copy.deepcopy(model).eval()
        with torch.no_grad():
            for value in copied.state_dict().values():
                if value.is_floating_point():
                    value.copy_((self.total(value.reshape(1, -1)) / self.processes).view_as(value))
        return copied


class SingleProcess(Group):
    """One process that holds all agents."""

    rank = 0
    processes = 1
    transport = NO_PEERS

    def shard(self, agents: int) -> Shard:
        return Shard.of(agents)

    def gather(self, table_nC: Tensor, rows: Sequence[int] | None = None) -> Tensor:
        return table_nC

    def broadcast(self, tensor: Tensor) -> None:
        """No-op: there is one process."""

    def keep_text(self, text: str) -> None:
        """No-op: a single process is never restarted by its launcher."""

    def kept_text(self) -> str:
        return ""

    def total(self, rows_nD: Tensor) -> Tensor:
        return add_rows(torch.zeros_like(rows_nD[0]), rows_nD)


def add_rows(total_D: Tensor, rows_nD: Tensor) -> Tensor:
    """Add the rows to `total`, one after the other."""
    for row in rows_nD:
        total_D += row
    return total_D
