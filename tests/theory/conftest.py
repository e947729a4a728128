"""Quadratic losses with known constants, run by the library's own algorithms; measured by numpy alone."""

import dataclasses
from collections.abc import Callable, Sequence

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from crossgrad._network.context import NetworkContext
from crossgrad._network.network import AgentNetwork
from crossgrad._network.shard import Shard
from crossgrad._network.traffic import Traffic, kinds_of
from crossgrad.graphs import Graph
from crossgrad.models.buffers import Buffers
from crossgrad.theory import Constants


class Losses:
    """Agent i's loss is (x - c_i)' A_i (x - c_i) / 2; its mini-batch gradient has noise of variance sigma^2."""

    def __init__(self, agents: int, size: int, unlike: float, sigma: float, alike: bool, seed: int) -> None:
        rng = np.random.default_rng(seed)
        root = rng.normal(size=(1 if alike else agents, size, size))
        A = root @ root.transpose(0, 2, 1)
        A = A / np.linalg.eigvalsh(A).max()  # the sharpest agent has L = 1
        self.A = np.broadcast_to(A, (agents, size, size))
        self.c = unlike * rng.normal(size=(agents, size))
        self.sigma, self.rng, self.sizes = sigma, rng, (size,)
        self.noise = np.zeros((agents, size))

    def exact(self, x_MD: np.ndarray, agents: Sequence[int]) -> np.ndarray:
        A, c = (self.A, self.c) if agents == range(len(self.A)) else (self.A[agents], self.c[agents])
        return np.matmul(A, (x_MD - c)[:, :, None])[:, :, 0]

    def loss(self, x: np.ndarray) -> float:
        return float(np.mean([(x - c) @ A @ (x - c) / 2 for A, c in zip(self.A, self.c, strict=True)]))

    def least(self) -> float:
        best = np.linalg.lstsq(self.A.sum(axis=0), np.einsum("jab,jb->a", self.A, self.c), rcond=None)[0]
        return self.loss(best)

    def __call__(self, x: Tensor, active: Tensor | None = None) -> Tensor:
        agents, size = x.shape
        self.noise = self.sigma / size**0.5 * self.rng.normal(size=(agents, size))
        return torch.from_numpy(self.exact(x.numpy(), range(agents)) + self.noise)

    def on_demand(self, x: Tensor, active: Tensor | None = None) -> Callable[[slice], Tensor]:
        g = self(x, active)
        return lambda rows: g[rows]

    def cross(self, models: Sequence[Tensor], agents: Sequence[int]) -> Tensor:
        if not len(agents):
            return torch.zeros(0, *self.sizes, dtype=torch.float64)
        return torch.from_numpy(self.exact(torch.stack(list(models)).numpy(), list(agents)) + self.noise[list(agents)])


@dataclasses.dataclass(frozen=True)
class Measured:
    """SweepOptions over the steps of one run, and the constants of problem, graph and run."""

    left: float  # of |grad F(average)|^2
    consensus: float  # of the mean squared distance from the average
    gradients: float  # of |mean of grad f_i(x^i)|^2
    constants: Constants


def follow(algorithm, graph: Graph, losses, lr: float, steps: int, x0: np.ndarray | None = None) -> Measured:
    """Run, and measure; epsilon from the velocities, so it needs a heavy ball."""
    agents, size = graph.agents, losses.sizes[0]
    no_buffers = Buffers.of(nn.Linear(1, 1).double(), agents)
    setting = NetworkContext(Shard.of(agents), graph, Traffic(graph, kinds=kinds_of(algorithm)), no_buffers, 0)
    start = np.full(size, 1.0) if x0 is None else x0
    state = algorithm.init(torch.from_numpy(np.tile(start, (agents, 1))), AgentNetwork(graph, setting, 0))
    sums, everybody = np.zeros(5), range(agents)
    for step in range(steps):
        x, v = state.x.numpy().copy(), state.v.numpy().copy()  # the step works in place
        average = x.mean(axis=0)
        here = losses.exact(np.tile(average, (agents, 1)), everybody)
        own = losses.exact(x, everybody)
        state = algorithm.step(state, lr, losses, AgentNetwork(graph, setting, step))
        used = (algorithm.momentum * v - state.v.numpy()) / lr
        slope = here.mean(axis=0)
        sums += [
            slope @ slope,
            np.square(x - average).sum() / agents,
            np.square(own.mean(axis=0)).sum(),
            np.square(here - slope).sum() / agents,
            np.square(used - own - losses.noise).sum() / agents,
        ]
    left, consensus, gradients, delta_squared, epsilon_squared = sums / steps
    constants = Constants(
        L=1.0, sigma=losses.sigma, delta=delta_squared**0.5, epsilon=epsilon_squared**0.5,
        start=losses.loss(start) - losses.least(), agents=agents, momentum=algorithm.momentum, lr=lr,
        mixing_rate=graph.mixing_rate, steps=steps,
    )  # fmt: skip
    return Measured(float(left), float(consensus), float(gradients), constants)


@pytest.fixture
def losses() -> Callable[..., Losses]:
    def make(agents, size=6, unlike=1.0, sigma=0.5, alike=False, seed=0) -> Losses:
        return Losses(agents, size, unlike, sigma, alike, seed)

    return make


@pytest.fixture(name="follow")
def follow_fixture() -> Callable[..., Measured]:
    return follow
