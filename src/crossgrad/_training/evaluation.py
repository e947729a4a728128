"""What an evaluation finds out about a run.

n: agents of this process, D: parameters.
"""

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor

from crossgrad._gradients.oracle import Oracle
from crossgrad._network.shard import Shard
from crossgrad._network.traffic import Traffic
from crossgrad._numerics.blocks import blocks
from crossgrad._training.agent_table import AgentTable, Columns
from crossgrad._training.evaluator import Evaluator, Score
from crossgrad.algorithms.api import Algorithm, diagnostics_of
from crossgrad.data import Samples
from crossgrad.models.buffers import Buffers
from crossgrad.records.record import Record
from crossgrad.tasks import Metric

MAX_DETAILED_AGENTS = 100  # of more, their accuracies on each class would be most of a record


class Models(NamedTuple):
    """What is evaluated: the agents' own models and the averaged one, each with its buffers."""

    x_nD: Tensor
    buffers: Buffers
    averaged_D: Tensor
    averaged_buffers: tuple[Tensor, Tensor]


def model_columns(
    evaluator: Evaluator, models: Models, probes: Sequence[Samples], test: Samples | None, is_rank_0: bool
) -> Columns:
    """How the agents' models and the averaged one do on the probes and on the test data.

    What concerns the averaged model and the test data is in the first row of rank 0 only.
    """
    x_nD, buffers, x_D, averaged_buffers = models
    distances = [(x_nD[part] - x_D).square_().sum(dim=1) for part in blocks(len(x_nD), x_D.nbytes)]
    columns = {
        "loss": torch.tensor([evaluator.loss(x_D, averaged_buffers, probe) for probe in probes], dtype=torch.float64),
        "distance": torch.cat(distances),
    }
    if test is None:
        return columns
    metrics = evaluator.task.metrics
    each = [evaluator.score(x_nD[0], buffers.row(0), test)]
    for j in range(1, len(x_nD)):
        alike = torch.equal(x_nD[j], x_nD[j - 1]) and buffers.alike(j, j - 1)  # as all are at the start
        each.append(each[-1] if alike else evaluator.score(x_nD[j], buffers.row(j), test))
    own = _stacked(each, metrics, evaluator.task.classes)
    of_averaged = [evaluator.score(x_D, averaged_buffers, test)] if is_rank_0 else []
    columns["test_loss"] = _first_row(torch.tensor([score.loss for score in of_averaged]), len(x_nD), ())
    for metric in metrics:
        values = _stacked(of_averaged, [metric], evaluator.task.classes)[metric.name]
        columns[f"agents.{metric.name}"] = own[metric.name]
        columns[f"averaged.{metric.name}"] = _first_row(values, len(x_nD), own[metric.name].shape[1:])
    return columns


def work_columns(oracle: Oracle, traffic: Traffic, shard: Shard) -> Columns:
    """Losses on batches since the last evaluation, gradients and bytes so far."""
    sent = torch.from_numpy(traffic.by_agent_and_kind()[shard.rows])
    columns = {
        "train_loss": oracle.loss_sums / oracle.loss_counts,
        "gradients": oracle.evaluations.clone(),
        **{f"bytes.{kind}": bytes_n for kind, bytes_n in zip(traffic.kinds, sent.unbind(dim=1), strict=True)},
    }
    oracle.loss_sums.zero_()
    oracle.loss_counts.zero_()
    return columns


def diagnostic_columns(algorithm: Algorithm[Any], state: Any) -> Columns:
    """What the algorithm tells about its steps."""
    names = [diagnostic.name for diagnostic in diagnostics_of(algorithm)]
    values = state.diagnostics.unbind(dim=1) if names else ()
    return {f"diagnostics.{name}": values_n for name, values_n in zip(names, values, strict=True)}


def as_record(
    table: AgentTable, algorithm: Algorithm[Any], faults: dict[str, float], *, status: str, **progress: Any
) -> Record:
    """The record of an evaluation; `progress` are its step, epoch, lr and seconds."""
    train_losses = table.known("train_loss")
    class_accuracy, agent_class_accuracy = _class_accuracies(table)
    return Record(
        train_loss=sum(train_losses) / len(train_losses) if train_losses else None,
        loss=table.loss,
        test_loss=next(iter(table.known("test_loss")), None),
        accuracy=next(iter(table.known("averaged.accuracy")), None),
        agent_accuracy=tuple(table.known("agents.accuracy")),
        consensus=float(table["distance"].mean().sqrt()),
        bytes_sent=sum(table.bytes_by_agent()),
        bytes_by_kind=table.bytes_by_kind(),
        bytes_by_agent=tuple(table.bytes_by_agent()),
        gradients=int(table["gradients"].sum()),
        status=status,
        diagnostics=_diagnostics(algorithm, table) | faults,
        class_accuracy=class_accuracy,
        agent_class_accuracy=agent_class_accuracy,
        **progress,
    )


def _diagnostics(algorithm: Algorithm[Any], table: AgentTable) -> dict[str, float]:
    """Over all agents: sums or means, as the algorithm declares."""
    found = {}
    for diagnostic in diagnostics_of(algorithm):
        values_N = table[f"diagnostics.{diagnostic.name}"]
        found[diagnostic.name] = float(values_N.sum() if diagnostic.adds_up else values_N.mean())
    return found


def _class_accuracies(table: AgentTable) -> tuple[tuple[float, ...], tuple[tuple[float, ...], ...]]:
    """The averaged model's accuracy on each class, and each agent's where there are not too many; to four digits."""
    if "agents.class_accuracy" not in table.columns:
        return (), ()
    each_NC = table["agents.class_accuracy"]
    agents = each_NC if len(each_NC) <= MAX_DETAILED_AGENTS else each_NC[:0]
    rounded = [tuple(round(value, 4) for value in row) for row in agents.tolist()]
    return tuple(round(value, 4) for value in table["averaged.class_accuracy"][0].tolist()), tuple(rounded)


def _stacked(scores: Sequence[Score], metrics: Sequence[Metric], classes: int | None) -> dict[str, Tensor]:
    """For each metric one row per score; of what is measured per class, the task's classes only."""
    stacked = {}
    for metric in metrics:
        rows = [torch.as_tensor(score.metrics[metric.name], dtype=torch.float64) for score in scores]
        shape = (classes or 0,) if metric.per_class else ()
        rows = [row.cpu()[: classes or 0] if metric.per_class else row.cpu() for row in rows]
        stacked[metric.name] = torch.stack(rows) if rows else torch.empty(0, *shape, dtype=torch.float64)
    return stacked


def _first_row(values: Tensor, rows: int, shape: Sequence[int]) -> Tensor:
    """NaN in all rows but the first, where there is a value for it."""
    column = torch.full((rows, *shape), math.nan, dtype=torch.float64)
    column[: len(values)] = values
    return column
