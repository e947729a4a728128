"""Train a module on data that is split over agents, in one call."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch
from torch import nn

from crossgrad._training.divergence import DivergenceRule
from crossgrad._training.schedule import Constant, Schedule
from crossgrad._training.settings import TrainingSettings
from crossgrad._training.trainer import Training
from crossgrad.algorithms import CGA, Algorithm
from crossgrad.data import Augment, Partition, PartitionRule, Samples, as_rule, given, split
from crossgrad.data.arrays import is_list_of_items
from crossgrad.graphs import AnyGraph
from crossgrad.graphs.convert import as_graph
from crossgrad.graphs.faults import Faults
from crossgrad.records.record import Record
from crossgrad.tasks import Loss, Task, infer_task

if TYPE_CHECKING:
    import networkx as nx


@dataclass(frozen=True, eq=False)
class Result:
    """A finished run."""

    records: list[Record]
    model: nn.Module  # the average of all agents' models; of the last good state where the run diverged
    training: Training

    @property
    def status(self) -> str:
        """ok, nonfinite or exploded."""
        return self.training.status

    def agent_model(self, agent: int) -> nn.Module:
        """One agent's own model."""
        return self.training.agent_model(agent)


def fit(
    model: nn.Module,
    data: Any,
    *,
    graph: AnyGraph | nx.Graph[Any],
    algorithm: Algorithm[Any] | None = None,
    partition: PartitionRule | Partition | Sequence[Sequence[int]] | str | None = None,
    test: Any = None,
    lr: float | Schedule = 0.01,
    epochs: float | None = None,
    steps: int | None = None,
    batch_size: int = 32,
    evaluate_every: int | None = None,
    seed: int = 0,
    task: Task | None = None,
    loss: Loss | None = None,
    faults: Faults | None = None,
    stop_if_diverged: bool = True,
    augment: Augment | None = None,
    dtype: torch.dtype = torch.float32,
    device: str = "cpu",
    on_record: Callable[[Record], None] | None = None,
) -> Result:
    """Train `model` on `data`, split over the agents of `graph`, by `algorithm` (CGA).

    `data` is (inputs, labels) or a map-style Dataset, dealt out by `partition` (IID); or a list with one of these for
    each agent. Your module is not changed: `result.model` is the trained copy. A step size that is a number stays
    constant; pass a Schedule for anything else. With `faults`, agents leave and messages are lost. Without a `task`,
    whole-number labels are classes and floating-point ones are regressed on; `loss` replaces the task's own loss.
    A run whose loss explodes ends early, with a warning, unless `stop_if_diverged` is False.

    >>> import crossgrad as cg
    >>> _ = torch.manual_seed(0)  # of the layer's first weights
    >>> X = torch.randn(200, 4, generator=torch.Generator().manual_seed(0))
    >>> y = (X[:, 0] > 0).long()
    >>> result = cg.fit(nn.Linear(4, 2), (X, y), graph=cg.ring(5), partition=cg.ByClass(), test=(X, y), steps=60)
    >>> result.status, result.records[-1].accuracy > 0.9
    ('ok', True)
    """
    graph = as_graph(graph)
    if isinstance(data, list) and not is_list_of_items(data):
        if partition is not None:
            raise ValueError("a list of per-agent data sets is a partition already; leave `partition` out.")
        agents: Sequence[Samples] = given(data)
        task = _task(task, loss, [own.labels for own in agents])
    else:
        samples = Samples.of(data)
        task = _task(task, loss, [samples.labels])
        task.check_labels(samples.labels)
        deal = as_rule(partition)
        agents = split(samples, deal(task.kinds(samples.labels), graph.agents, seed, task.classes))
    settings = TrainingSettings(
        schedule=Constant(lr) if isinstance(lr, int | float) else lr,
        batch_size=batch_size,
        steps=steps,
        epochs=epochs,
        evaluate_every=evaluate_every,
        seed=seed,
        dtype=dtype,
        device=device,
        divergence=DivergenceRule() if stop_if_diverged else None,
    )
    held_out = None if test is None else Samples.of(test)
    training = Training(
        model, agents, algorithm or CGA(), graph, settings, held_out, task, faults=faults, augment=augment
    )
    records = []
    for record in training:
        records.append(record)
        if on_record is not None:
            on_record(record)
    if training.status != "ok":
        warnings.warn(f"the run diverged: {training.reason}. {training.kept}", stacklevel=2)
    elif training.doubt:
        warnings.warn(f"{training.doubt}.", stacklevel=2)
    training.keep_last_good()
    return Result(records, training.averaged_model(), training)


def _task(task: Task | None, loss: Loss | None, labels: Sequence[Any]) -> Task:
    task = task or infer_task(labels)
    return task if loss is None else task.with_loss(loss)
