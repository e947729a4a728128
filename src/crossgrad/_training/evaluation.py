"""What is measured at an evaluation: columns with a number per agent, and the record made from them.

n: agents of this process, D: parameters.
"""

import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, TypeVar, cast

import torch
from torch import Tensor

from crossgrad._gradients.oracle import Oracle
from crossgrad._network.context import NetworkContext
from crossgrad._numerics.blocks import blocks
from crossgrad._training.agent_table import AgentTable, Columns
from crossgrad._training.evaluator import Evaluator, Score
from crossgrad._training.quantities import OWN_SUFFIX
from crossgrad.algorithms.api import Algorithm, diagnostics_of
from crossgrad.data import Samples
from crossgrad.models.buffers import Buffers
from crossgrad.records.record import MetricTable, MetricValues, Record
from crossgrad.records.values import Status
from crossgrad.tasks import Metric

T = TypeVar("T")
MAX_DETAILED_AGENTS = 100  # with more, the accuracies on each class would take up most of a record


class Models(NamedTuple):
    """What is evaluated: the agents' own models and the averaged one, each with its buffers."""

    x_nD: Tensor
    buffers: Buffers
    averaged_D: Tensor
    averaged_buffers: tuple[Tensor, Tensor]
    shared: int  # parameters that travel, the first of D

    def averaged_for(self, j: int) -> tuple[Tensor, tuple[Tensor, Tensor]]:
        """The averaged model as agent j would use it: with its own personal parameters and buffers."""
        x_D, (floats_F, integers_I), shared = self.averaged_D, self.averaged_buffers, self.buffers.shared
        if self.shared < len(x_D):
            x_D = torch.cat([x_D[: self.shared], self.x_nD[j, self.shared :]])
        if shared is not None and shared < len(floats_F):
            floats_F = torch.cat([floats_F[:shared], self.buffers.floats_NF[j, shared:]])
        return x_D, (floats_F, integers_I)


def model_columns(
    evaluator: Evaluator, models: Models, probes: Sequence[Samples], test: Samples | None, is_rank_0: bool
) -> Columns:
    """Evaluate the agents' models and the averaged one on the probes and on the test data.

    Numbers of the averaged model and the test data are in the first row of rank 0 only.
    """
    x_nD, _, x_D, averaged_buffers, S = models
    distances = [(x_nD[part, :S] - x_D[:S]).square_().sum(dim=1) for part in blocks(len(x_nD), x_D.nbytes)]
    losses = [evaluator.loss(*models.averaged_for(j), probe) for j, probe in enumerate(probes)]
    columns = {
        "loss": torch.tensor(losses, dtype=torch.float64),
        "distance": torch.cat(distances),
    }
    if test is None:
        return columns
    metrics = evaluator.task.metrics
    own = _stacked(of_agents(models, evaluator.score, test), metrics, evaluator.task.classes)
    of_averaged = [evaluator.score(x_D, averaged_buffers, test)] if is_rank_0 else []
    columns["test_loss"] = first_row(torch.tensor([score.loss for score in of_averaged]), len(x_nD), ())
    for metric in metrics:
        values = _stacked(of_averaged, [metric], evaluator.task.classes)[metric.name]
        columns[f"agents.{metric.name}"] = own[metric.name]
        columns[f"averaged.{metric.name}"] = first_row(values, len(x_nD), own[metric.name].shape[1:])
    return columns


def of_agents(
    models: Models, measure: Callable[[Tensor, tuple[Tensor, Tensor], Samples], T], samples: Samples
) -> list[T]:
    """What is measured of each agent's model; once for neighbouring rows that are equal, as all are at the start."""
    x_nD, buffers = models.x_nD, models.buffers
    each = [measure(x_nD[0], buffers.row(0), samples)]
    for j in range(1, len(x_nD)):
        same = torch.equal(x_nD[j], x_nD[j - 1]) and buffers.equal(j, j - 1)
        each.append(each[-1] if same else measure(x_nD[j], buffers.row(j), samples))
    return each


def own_test_columns(evaluator: Evaluator, models: Models, own_test: Sequence[Samples]) -> Columns:
    """Evaluate each agent's model, and the averaged one, on the agent's own test data."""
    x_nD, buffers = models.x_nD, models.buffers
    metrics = [metric for metric in evaluator.task.metrics if metric.rank == 0]
    own = [evaluator.score(x_nD[j], buffers.row(j), samples) for j, samples in enumerate(own_test)]
    averaged = [evaluator.score(*models.averaged_for(j), samples) for j, samples in enumerate(own_test)]
    columns = {f"own.agents.{name}": values for name, values in _stacked(own, metrics, None).items()}
    return columns | {f"own.averaged.{name}": values for name, values in _stacked(averaged, metrics, None).items()}


def work_columns(oracle: Oracle, context: NetworkContext) -> Columns:
    """Losses on batches since the last evaluation, gradients, bytes and simulated time so far."""
    traffic, shard, clock = context.traffic, context.shard, context.clock
    sent = torch.from_numpy(traffic.by_agent_and_kind()[shard.rows])
    columns = {
        "train_loss": oracle.loss_sums / oracle.loss_counts,
        "gradients": oracle.evaluations.clone(),
        **{f"bytes.{kind}": bytes_n for kind, bytes_n in zip(traffic.kinds, sent.unbind(dim=1), strict=True)},
    }
    if clock is not None:
        columns["simulated_seconds"] = clock.now.clone()
    oracle.loss_sums.zero_()
    oracle.loss_counts.zero_()
    return columns


def diagnostic_columns(algorithm: Algorithm[Any], state: Any) -> Columns:
    """The algorithm's diagnostics.

    Raises:
        ValueError: its state does not have a column for each that it declares.
    """
    names = [diagnostic.name for diagnostic in diagnostics_of(algorithm)]
    if not names:
        return {}
    values, agents = getattr(state, "diagnostics", None), len(state.x)
    if not isinstance(values, Tensor) or tuple(values.shape) != (agents, len(names)):
        found = f"one of shape {tuple(values.shape)}" if isinstance(values, Tensor) else "none"
        raise ValueError(
            f"an algorithm that declares diagnostics ({', '.join(names)}) keeps them in its state, as a tensor "
            f"`diagnostics` with a row for each of its {agents} agents and a column for each; found {found}. Return it "
            "from init and from step."
        )
    return {f"diagnostics.{name}": values_n for name, values_n in zip(names, values.unbind(dim=1), strict=True)}


def as_record(
    table: AgentTable,
    metrics: Sequence[Metric],
    algorithm: Algorithm[Any],
    faults: dict[str, float],
    *,
    status: str,
    **progress: Any,
) -> Record:
    """The record of an evaluation; `progress` are its step, epoch, lr and seconds."""
    train_losses = table.known("train_loss")
    class_accuracy, agent_class_accuracy = _class_accuracies(table)
    numbers = [metric for metric in metrics if metric.rank == 0]
    common = {metric.name: _values(metric, table, "") for metric in numbers if f"agents.{metric.name}" in table.columns}
    own = {f"{metric.name}{OWN_SUFFIX}": _values(metric, table, "own.") for metric in numbers if has_own_test(table)}
    accuracy = common.pop("accuracy", None)
    return Record(
        train_loss=sum(train_losses) / len(train_losses) if train_losses else None,
        loss=table.loss,
        test_loss=next(iter(table.known("test_loss")), None),
        accuracy=accuracy.averaged if accuracy else None,
        agent_accuracy=accuracy.agents if accuracy else (),
        consensus=float(table["distance"].mean().sqrt()),
        bytes_sent=sum(table.bytes_by_agent()),
        bytes_by_kind=table.bytes_by_kind(),
        bytes_by_agent=tuple(table.bytes_by_agent()),
        gradients=int(table["gradients"].sum()),
        status=cast(Status, status),
        diagnostics=_diagnostics(algorithm, table) | faults,
        class_accuracy=class_accuracy,
        agent_class_accuracy=agent_class_accuracy,
        metrics=common | own,
        metric_tables=_metric_tables(metrics, table),
        simulated_seconds=max(table.known("simulated_seconds"), default=None),
        **progress,
    )


def has_own_test(table: AgentTable) -> bool:
    """Whether agents have test data of their own."""
    return any(name.startswith("own.") for name in table.columns)


def _values(metric: Metric, table: AgentTable, data: str) -> MetricValues:
    """A metric of all models on the common test data, or on the agents' own."""
    agents, averaged = (table[f"{data}{whose}.{metric.name}"].tolist() for whose in ("agents", "averaged"))
    known, on_each = [value for value in agents if value == value], [value for value in averaged if value == value]
    worst = min if metric.higher_is_better else max
    return MetricValues(
        averaged=sum(on_each) / len(on_each) if on_each else None,
        mean_agent=sum(known) / len(known) if known else None,
        worst_agent=worst(known) if known else None,
        agents=tuple(agents),
        averaged_on_each=tuple(averaged) if data else (),
    )


def _metric_tables(metrics: Sequence[Metric], table: AgentTable) -> dict[str, MetricTable]:
    """Metrics per class or pair of classes, besides the accuracies on each class, on the common test data."""
    found = {}
    for metric in metrics:
        if metric.rank and metric.name != "class_accuracy" and f"agents.{metric.name}" in table.columns:
            averaged, agents = table[f"averaged.{metric.name}"][0], table[f"agents.{metric.name}"]
            rows = (-1, averaged.shape[-1])
            shown = agents if len(agents) <= MAX_DETAILED_AGENTS else agents[:0]
            found[metric.name] = MetricTable(
                tuple(map(tuple, averaged.reshape(rows).tolist())),
                tuple(tuple(map(tuple, one.reshape(rows).tolist())) for one in shown),
            )
    return found


def _diagnostics(algorithm: Algorithm[Any], table: AgentTable) -> dict[str, float]:
    """The diagnostics over all agents: sums or means, as the algorithm declares."""
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
    """A tensor for each metric with one row per score; metrics per class are cut to the task's classes."""
    stacked = {}
    for metric in metrics:
        shape = (classes or 0,) * metric.rank
        cut = tuple(slice(size) for size in shape)
        rows = [torch.as_tensor(score.metrics[metric.name], dtype=torch.float64).cpu()[cut] for score in scores]
        stacked[metric.name] = torch.stack(rows) if rows else torch.empty(0, *shape, dtype=torch.float64)
    return stacked


def first_row(values: Tensor, rows: int, shape: Sequence[int]) -> Tensor:
    """A column whose first row is `values` and whose other rows are NaN."""
    column = torch.full((rows, *shape), math.nan, dtype=torch.float64)
    column[: len(values)] = values
    return column
