"""The agents' losses and gradients, on their own data, at their own or at somebody else's model.

N: agents, M: gradients asked for, D: parameters of one model as one flat vector.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import NamedTuple

import torch
from torch import Tensor, nn

from crossgrad.batched import batched_pass
from crossgrad.buffers import Buffers
from crossgrad.data import Batches, Samples
from crossgrad.randomness import key

Loss = Callable[[Tensor, Tensor], Tensor]


class FlatModel:
    """A module that works on flat vectors: its parameters are views of whatever vector it is given."""

    def __init__(self, module: nn.Module) -> None:
        self.module = module
        self.parameters = [p for p in self.module.parameters() if p.requires_grad]
        if not self.parameters:
            raise ValueError("the model has no parameter that requires a gradient, so there is nothing to train.")
        self.sizes = tuple(p.numel() for p in self.parameters)
        self.start = torch.cat([p.detach().reshape(-1) for p in self.parameters]).clone()

    def load(self, x_D: Tensor, grad_D: Tensor | None = None) -> None:
        """Take the parameters from `x`, and let a backward pass add to `grad`. Nothing is copied."""
        start = 0
        for p, size in zip(self.parameters, self.sizes, strict=True):
            p.data = x_D[start : start + size].view(p.shape)
            p.grad = None if grad_D is None else grad_D[start : start + size].view(p.shape)
            start += size

    def unload(self) -> None:
        """Let go of the vectors."""
        self.load(self.start)


class Batch(NamedTuple):
    """A mini-batch, and the seed of what random layers draw on it."""

    inputs: Tensor
    labels: Tensor
    noise: int


class Oracle:
    """Every agent's gradient on its own mini-batches.

    The mini-batches of an agent are a stream of its own; a call draws the next one. A neighbour's question is
    answered on the batch that was drawn last. Random layers (dropout) draw as a pure function of seed, agent and
    batch, for questions too, so that an agent's loss is one function within a step.
    """

    def __init__(
        self,
        model: FlatModel,
        loss: Loss,
        samples: Sequence[Samples],
        batches: Batches,
        buffers: Buffers,
        first: int = 0,
        batched: bool = True,
    ) -> None:
        self.model, self.loss, self.samples, self.batches, self.buffers = model, loss, samples, batches, buffers
        self.first = first  # the number of this process's first agent among all
        example = samples[0].take(range(min(2, len(samples[0]))))
        self.batched = batched_pass(model.module, loss, example.inputs, example.labels) if batched else None
        self.current: dict[int, Batch] = {}  # the batch that each agent drew last
        self.drawn = torch.zeros(len(samples), dtype=torch.int64)  # batches drawn so far
        self.losses = torch.full((len(samples),), torch.nan, dtype=torch.float64)  # own, on the batch drawn last
        self.loss_sums = torch.zeros(len(samples), dtype=torch.float64)  # of own losses, since they were last asked for
        self.loss_counts = torch.zeros(len(samples), dtype=torch.int64)
        self.evaluations = torch.zeros(len(samples), dtype=torch.int64)  # gradients so far, own and for others

    @property
    def sizes(self) -> tuple[int, ...]:
        return self.model.sizes

    def __call__(self, x_ND: Tensor, active_N: Tensor | None = None) -> Tensor:
        g_ND = torch.zeros_like(x_ND)
        who = list(range(len(x_ND))) if active_N is None else active_N.nonzero()[:, 0].tolist()
        for j in who:
            self._draw(j)
        if self._together(who):
            g_ND[who], losses = self._batched([x_ND[j] for j in who], who)
            self.losses[who] = losses.double().cpu()
        else:
            with self._training():
                for j in who:
                    self.losses[j] = self._backward(x_ND[j], self.buffers.row(j), j, g_ND[j])
                    self.buffers.store(*self.buffers.row(j))
        self.loss_sums[who] += self.losses[who]
        self.loss_counts[who] += 1
        return g_ND

    def cross(self, models: Sequence[Tensor], hosts: Sequence[int]) -> Tensor:
        if self._together(hosts):
            return self._batched(models, hosts)[0]
        g_MD = torch.zeros(len(models), sum(self.sizes), dtype=self.model.start.dtype, device=self.model.start.device)
        with self._training():
            for x, host, g in zip(models, hosts, g_MD, strict=True):
                self._backward(x, self.buffers.copy_of(host), host, g)
        return g_MD

    def _together(self, hosts: Sequence[int]) -> bool:
        """Whether these agents' gradients can be computed in one pass."""
        return self.batched is not None and len({len(self.current[host].labels) for host in hosts}) == 1

    def _batched(self, models: Sequence[Tensor], hosts: Sequence[int]) -> tuple[Tensor, Tensor]:
        assert self.batched is not None
        self.model.module.train()
        inputs = torch.stack([self.current[host].inputs for host in hosts])
        labels = torch.stack([self.current[host].labels for host in hosts])
        self.evaluations += torch.bincount(torch.tensor(hosts), minlength=len(self.samples))
        return self.batched(torch.stack(list(models)), inputs, labels)

    def _draw(self, agent: int) -> None:
        number, own, among_all = int(self.drawn[agent]), self.samples[agent], self.first + agent
        chosen = torch.from_numpy(self.batches.indices(among_all, number)).to(own.inputs.device)
        noise = key(self.batches.seed, "noise", among_all, number)
        self.current[agent] = Batch(own.inputs[chosen], own.labels[chosen], noise)
        self.drawn[agent] += 1

    def _backward(self, x_D: Tensor, buffers: tuple[Tensor, Tensor], agent: int, g_D: Tensor) -> float:
        """Add the gradient of this agent's loss at `x` to `g`; the loss."""
        batch = self.current[agent]
        torch.default_generator.manual_seed(batch.noise)
        if x_D.is_cuda:
            torch.cuda.manual_seed(batch.noise)
        self.model.load(x_D, g_D)
        self.buffers.load(*buffers)
        loss = self.loss(self.model.module(batch.inputs), batch.labels)
        loss.backward()  # type: ignore[no-untyped-call]
        self.evaluations[agent] += 1
        return float(loss.detach())

    @contextmanager
    def _training(self) -> Iterator[None]:
        """The module in training mode; the caller's random state as it was."""
        self.model.module.train()
        devices = [self.model.start.device] if self.model.start.is_cuda else []
        with torch.random.fork_rng(devices=devices), torch.enable_grad():
            yield
        self.model.unload()
