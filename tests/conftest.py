"""Small worlds in float64 whose answers are known, and the command line."""

import os
import re
import signal
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from crossgrad._cli.main import main
from crossgrad._network.context import NetworkContext
from crossgrad._network.network import AgentNetwork
from crossgrad._network.shard import Shard
from crossgrad._network.traffic import Traffic, kinds_of
from crossgrad.algorithms import ALGORITHMS
from crossgrad.data import Samples
from crossgrad.graphs import Graph, GraphSequence
from crossgrad.models.buffers import Buffers

sys.path.insert(0, str(Path(__file__).parent / "helpers"))

from fork_server import ForkServer

torch.set_num_threads(1)  # the worlds are small: more threads only get in each other's way


class Quadratics:
    """Agent j's loss is (x - b_j)' A_j (x - b_j) / 2, without noise: a gradient oracle that is known exactly."""

    def __init__(self, agents: int, size: int = 6, seed: int = 0, alike: bool = False) -> None:
        rng = np.random.default_rng(seed)
        root = rng.normal(size=(1 if alike else agents, size, size)) / size**0.5
        self.A = np.broadcast_to(root @ root.transpose(0, 2, 1) + 0.5 * np.eye(size), (agents, size, size))
        self.b = np.broadcast_to(rng.normal(size=(1 if alike else agents, size)), (agents, size))
        self.sizes = (size - 2, 2)
        self.calls = 0

    def at(self, x: np.ndarray, agent: int) -> np.ndarray:
        """The gradient of this agent's loss at x."""
        return np.asarray(self.A[agent] @ (x - self.b[agent]))

    def own(self, x: np.ndarray) -> np.ndarray:
        """Everybody's gradient at its own model."""
        return np.stack([self.at(x[j], j) for j in range(len(x))])

    def optimum(self) -> np.ndarray:
        """The minimum of the mean of all losses."""
        return np.linalg.solve(self.A.sum(axis=0), np.einsum("jab,jb->a", self.A, self.b))

    def mean_loss(self, x: np.ndarray) -> float:
        """The mean of all losses at x."""
        return float(np.mean([(x - b) @ A @ (x - b) / 2 for A, b in zip(self.A, self.b, strict=True)]))

    def __call__(self, x: Tensor, active: Tensor | None = None) -> Tensor:
        self.calls += 1
        g = torch.from_numpy(self.own(x.numpy()))
        return g if active is None else g * active[:, None]

    def on_demand(self, x: Tensor, active: Tensor | None = None) -> Callable[[slice], Tensor]:
        g = self(x, active)
        return lambda rows: g[rows]

    def cross(self, models: Sequence[Tensor], agents: Sequence[int]) -> Tensor:
        rows = [self.at(x.numpy(), agent) for x, agent in zip(models, agents, strict=True)]
        return torch.from_numpy(np.stack(rows)) if rows else torch.zeros(0, sum(self.sizes), dtype=torch.float64)


class World:
    """Agents on a graph with quadratic losses, ready to be run by any algorithm."""

    def __init__(self, graph: Graph | GraphSequence, alike: bool = False, seed: int = 0) -> None:
        self.graph, self.seed = graph, seed
        self.grad = Quadratics(graph.agents, alike=alike, seed=seed)
        no_buffers = nn.Linear(1, 1).double()
        buffers = Buffers.of(no_buffers, graph.agents)
        self.traffic = Traffic(
            graph.union(), kinds=sorted({kind for make in ALGORITHMS.values() for kind in kinds_of(make())})
        )
        self.context = NetworkContext(Shard.of(graph.agents), graph.union(), self.traffic, buffers, seed)
        generator = torch.Generator().manual_seed(seed)
        self.x0 = torch.randn(graph.agents, sum(self.grad.sizes), generator=generator, dtype=torch.float64)

    def net(self, step: int = 0) -> AgentNetwork:
        return AgentNetwork(self.graph.at(step), self.context, step)

    def run(self, algorithm, steps: int, lr: float = 0.05, x0: Tensor | None = None) -> list:
        """Copies of the states before the first step and after each; the algorithm works in place."""
        self.traffic.kinds = tuple(sorted({*self.traffic.kinds, *kinds_of(algorithm)}))
        state = algorithm.init((self.x0 if x0 is None else x0).clone(), self.net())
        states = [_copy(state)]
        for step in range(steps):
            state = algorithm.step(state, lr, self.grad, self.net(step))
            states.append(_copy(state))
        return states


def _copy(state):
    return type(state)(*[part.clone() for part in state])


@pytest.fixture
def world() -> Callable[..., World]:
    return World


@pytest.fixture
def blobs() -> Callable[..., Samples]:
    """Points around a centre for each class: any sensible model learns them."""

    def make(samples: int = 120, classes: int = 3, features: int = 4, seed: int = 0) -> Samples:
        generator = torch.Generator().manual_seed(seed)
        labels = torch.arange(samples) % classes
        centres = 6 * torch.randn(classes, features, generator=torch.Generator().manual_seed(99))
        return Samples(centres[labels] + torch.randn(samples, features, generator=generator), labels)

    return make


class Answer(NamedTuple):
    """How a command ended, and what it said."""

    status: int
    out: str
    err: str


@pytest.fixture
def crossgrad(monkeypatch, capfd) -> Callable[..., Answer]:
    """Runs the command in this process."""

    def call(*arguments: object) -> Answer:
        monkeypatch.setattr(sys, "argv", ["crossgrad", *map(str, arguments)])
        capfd.readouterr()
        with pytest.raises(SystemExit) as end:
            main()
        out, err = (re.sub(r"\x1b\[[0-9;]*m", "", text) for text in capfd.readouterr())
        return Answer(int(end.value.code or 0), out, err)

    return call


@pytest.fixture(scope="session")
def forks() -> Iterator[ForkServer]:
    """Starts programs in processes of their own without the seconds of their imports."""
    server = ForkServer()
    yield server
    server.close()


@pytest.fixture
def apart(forks) -> Callable[..., Answer]:
    """Runs the command in a process of its own, whose workers cost next to nothing."""

    def call(*arguments: object) -> Answer:
        ended = forks.run(["-m", "crossgrad", *arguments], env=os.environ | {"OMP_NUM_THREADS": "1"})
        return Answer(ended.returncode, *(re.sub(r"\x1b\[[0-9;]*m", "", text) for text in (ended.stdout, ended.stderr)))

    return call


@pytest.fixture
def terminal_signals() -> Iterator[None]:
    """Signals as a terminal has them: background jobs and `nohup` leave some ignored, which processes inherit."""
    usual = {signal.SIGINT: signal.default_int_handler, signal.SIGTERM: signal.SIG_DFL, signal.SIGHUP: signal.SIG_DFL}
    before = {number: signal.signal(number, handler) for number, handler in usual.items()}
    yield
    for number, handler in before.items():
        signal.signal(number, handler)
