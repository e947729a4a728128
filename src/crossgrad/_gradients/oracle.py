"""The agents' losses and gradients, on their own data, at their own or at other agents' models.

N: agents, M: gradients requested, D: parameters of one model as one flat vector.
"""

from bisect import bisect_left
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from typing import ClassVar, NamedTuple

import torch
from torch import Tensor

from crossgrad._gradients.batched import batched_pass
from crossgrad._gradients.strategy import Gradients
from crossgrad._numerics.global_generator import seeded
from crossgrad._numerics.seeding import key
from crossgrad._storage.stateful import Stateful
from crossgrad.data import Batches, Pool
from crossgrad.data.nested import Nested, cut, leaves
from crossgrad.models.buffers import Buffers
from crossgrad.models.flat import FlatModel
from crossgrad.tasks import Task


class DrawnBatch(NamedTuple):
    """A mini-batch, and the seed of what random layers draw on it."""

    inputs: Nested
    labels: Nested
    noise: int


class Oracle(Stateful):
    """Every agent's gradient on its own mini-batches.

    Every agent has its own stream of mini-batches; a call draws the next one. Cross-gradients are computed on the
    batch that was drawn last. Random layers (dropout) draw as a pure function of seed, agent and batch, for
    cross-gradients too, so that an agent's loss is one function within a step.
    """

    # `current` is drawn anew in every step.
    constants: ClassVar[tuple[str, ...]] = (
        *("model", "task", "batches", "buffers", "first", "pool", "samples", "batched", "current"),
        *("micro_batch", "autocast"),
    )
    micro_batch: int | None = None  # samples of one pass; None: the whole batch
    autocast = False  # to bfloat16

    def __init__(
        self,
        model: FlatModel,
        task: Task,
        pool: Pool,
        batches: Batches,
        buffers: Buffers,
        first: int = 0,
        gradients: Gradients = Gradients.AUTO,
    ) -> None:
        self.model, self.task, self.batches, self.buffers = model, task, batches, buffers
        self.first = first  # the number of this process's first agent among all
        self.pool, self.samples = pool, pool.agents
        samples = pool.agents
        example = samples[0].take(range(min(2, len(samples[0])))).loaded()
        inputs, labels = example.inputs, example.labels
        plain = isinstance(inputs, Tensor) and isinstance(labels, Tensor)
        self.batched = batched_pass(gradients, model, task, inputs, labels) if plain else None
        self.current: dict[int, DrawnBatch] = {}  # the batch that each agent drew last
        self.drawn = torch.zeros(len(samples), dtype=torch.int64)  # batches drawn so far
        self.losses = torch.full((len(samples),), torch.nan, dtype=torch.float64)  # own, on the batch drawn last
        self.loss_sums = torch.zeros(len(samples), dtype=torch.float64)  # of own losses, since the last evaluation
        self.loss_counts = torch.zeros(len(samples), dtype=torch.int64)
        self.evaluations = torch.zeros(len(samples), dtype=torch.int64)  # gradients so far, own and for others

    @property
    def sizes(self) -> tuple[int, ...]:
        return self.model.sizes

    def __call__(self, x_ND: Tensor, active_N: Tensor | None = None) -> Tensor:
        return self._own(x_ND, self._draw(active_N), slice(0, len(x_ND)))

    def on_demand(self, x_ND: Tensor, active_N: Tensor | None = None) -> Callable[[slice], Tensor]:
        """As a call, but each row is computed once, when it is first requested. Batches are drawn now.

        With buffers, all rows are computed at once: an own pass changes the buffers, and all own passes must come
        before the first cross-gradient.
        """
        if self.buffers.slots:
            g_ND = self(x_ND, active_N)
            return lambda rows: g_ND[rows]
        who = self._draw(active_N)
        return lambda rows: self._own(x_ND, who[bisect_left(who, rows.start) : bisect_left(who, rows.stop)], rows)

    def cross(self, models: Sequence[Tensor], agents: Sequence[int]) -> Tensor:
        if self.batched is not None and len(models):
            return self._batched(torch.stack(list(models)), agents)[0]
        g_MD = torch.zeros(len(models), sum(self.sizes), dtype=self.model.start.dtype, device=self.model.start.device)
        with self._training():
            for x, agent, g in zip(models, agents, g_MD, strict=True):
                self._backward(x, self.buffers.copy_of(agent), agent, g)
        return g_MD

    def _batched(self, x_MD: Tensor, agents: Sequence[int]) -> tuple[Tensor, Tensor]:
        """Gradients and losses in one pass for each size of batch; mostly all batches have one size."""
        assert self.batched is not None
        self.model.module.train()
        self.evaluations += torch.bincount(torch.tensor(agents), minlength=len(self.samples))
        sizes = [len(self.current[agent].labels) for agent in agents]
        if len(set(sizes)) == 1:
            return self.batched(x_MD, *self._inputs(agents))
        g_MD, losses_M = torch.empty_like(x_MD), x_MD.new_empty(len(x_MD))
        for size in sorted(set(sizes)):
            chosen = [m for m, own in enumerate(sizes) if own == size]
            g_MD[chosen], losses_M[chosen] = self.batched(x_MD[chosen], *self._inputs([agents[m] for m in chosen]))
        return g_MD, losses_M

    def _inputs(self, agents: Sequence[int]) -> tuple[Tensor, Tensor]:
        """The batches of these agents, stacked; an agent may occur several times."""
        place = {agent: number for number, agent in enumerate(dict.fromkeys(agents))}
        where = torch.tensor([place[agent] for agent in agents], device=self.model.start.device)
        inputs = torch.stack([self.current[agent].inputs for agent in place])
        labels = torch.stack([self.current[agent].labels for agent in place])
        return inputs.index_select(0, where), labels.index_select(0, where)

    def _draw(self, active_N: Tensor | None) -> list[int]:
        """Draw the next batch of every active agent; return these agents in ascending order."""
        who = list(range(len(self.samples))) if active_N is None else active_N.nonzero()[:, 0].tolist()
        numbers = self.drawn[who].numpy()
        drawn = self.pool.draw(who, numbers, self.batches, self.first)
        for j, number, (inputs, labels) in zip(who, numbers.tolist(), drawn, strict=True):
            self.current[j] = DrawnBatch(inputs, labels, key(self.batches.seed, "noise", self.first + j, number))
        self.drawn[who] += 1
        return who

    def _own(self, x_ND: Tensor, who: list[int], rows: slice) -> Tensor:
        """The gradients of these agents, all of them within `rows`, on the batches that they drew last."""
        places = [j - rows.start for j in who]
        if self.batched is not None and who:
            g_RD, losses = self._batched(x_ND[rows] if len(who) == rows.stop - rows.start else x_ND[who], who)
            self.losses[who] = losses.double().cpu()
            if len(who) < rows.stop - rows.start:
                g_RD = torch.zeros_like(x_ND[rows]).index_copy_(0, torch.tensor(places, device=g_RD.device), g_RD)
        else:
            g_RD = torch.zeros_like(x_ND[rows])
            with self._training():
                for place, j in zip(places, who, strict=True):
                    self.losses[j] = self._backward(x_ND[j], self.buffers.row(j), j, g_RD[place])
                    self.buffers.store(*self.buffers.row(j))
        self.loss_sums[who] += self.losses[who]
        self.loss_counts[who] += 1
        return g_RD

    def _backward(self, x_D: Tensor, buffers: tuple[Tensor, Tensor], agent: int, g_D: Tensor) -> float:
        """Add the gradient of this agent's loss at `x` to `g`, and return the loss."""
        with seeded(self.current[agent].noise, x_D.device):
            return self._backward_on(self.current[agent], x_D, buffers, agent, g_D)

    def _backward_on(
        self, batch: DrawnBatch, x_D: Tensor, buffers: tuple[Tensor, Tensor], agent: int, g_D: Tensor
    ) -> float:
        self.model.load(x_D, g_D)
        self.buffers.load(*buffers)
        total = 0.0
        for inputs, labels, share in self._pieces(batch):
            with torch.autocast(x_D.device.type, torch.bfloat16) if self.autocast else nullcontext():
                loss = self.task.batch_loss(self.model.module, inputs, labels)
            if not loss.requires_grad:
                raise ValueError(
                    "the loss must depend on the model's parameters; no gradient reaches them. Look for .detach(), "
                    ".item() or torch.no_grad() in the model and the loss."
                )
            (loss if share == 1 else loss * share).backward()  # type: ignore[no-untyped-call]
            total += share * float(loss.detach())
        self._take_strays(g_D)
        self.evaluations[agent] += 1
        return total

    def _pieces(self, batch: DrawnBatch) -> Iterator[tuple[Nested, Nested, float]]:
        """The batch in pieces of `micro_batch` samples, each with its share of the batch."""
        if self.micro_batch is None:
            yield batch.inputs, batch.labels, 1.0
            return
        count = len(next(leaves(batch.labels)))
        sizes = [min(self.micro_batch, count - start) for start in range(0, count, self.micro_batch)]
        for inputs, labels, size in zip(cut(batch.inputs, sizes), cut(batch.labels, sizes), sizes, strict=True):
            yield inputs, labels, size / count

    def _take_strays(self, g_D: Tensor) -> None:
        """Copy gradients into `g` that autograd stored elsewhere, as scripted modules replace `.grad`."""
        first = self.model.parameters[0].grad
        if first is None or first.data_ptr() == g_D.data_ptr():
            return
        for p, view in zip(self.model.parameters, self.model.views(g_D), strict=True):
            if p.grad is not None:
                view.copy_(p.grad)

    @contextmanager
    def _training(self) -> Iterator[None]:
        """The module in training mode."""
        self.model.module.train()
        with torch.enable_grad():
            yield
        self.model.unload()
