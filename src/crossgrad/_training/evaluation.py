"""What an evaluation finds out about a run.

n: agents of this process, N: of all, D: parameters.
"""

import math
from typing import Any, NamedTuple, Protocol

import torch
from torch import Tensor

from crossgrad._gradients.oracle import Oracle
from crossgrad._network.local import NetworkContext
from crossgrad._network.traffic import KINDS, Traffic
from crossgrad._numerics.blocks import blocks
from crossgrad._processes.group import Group
from crossgrad._training.metrics import COLUMNS, AgentTable, Evaluator
from crossgrad.algorithms.aggregation import DIAGNOSTICS
from crossgrad.data import Samples
from crossgrad.graphs.faults import Scenario
from crossgrad.models.buffers import Buffers
from crossgrad.records.record import Record

MANY = 100  # agents; of more, accuracies by class would be most of a record


class Run(Protocol):
    """What is measured: a training, as it is between two steps."""

    agents: tuple[Samples, ...]
    probes: list[Samples]
    test: Samples | None
    state: Any
    buffers: Buffers
    oracle: Oracle
    evaluator: Evaluator
    context: NetworkContext
    group: Group
    scenario: Scenario
    first_bad: Tensor
    step_number: int
    evaluate_every: int
    seconds: float

    @property
    def status(self) -> str:
        """ok, or how the run diverged."""

    @property
    def traffic(self) -> Traffic:
        """The bytes sent so far by the agents of this process."""

    @property
    def epoch(self) -> float:
        """How often the agents' local data was gone through."""

    @property
    def lr(self) -> float:
        """The step size of the next step."""

    def average(self) -> tuple[Tensor, tuple[Tensor, Tensor]]:
        """The averaged model and its buffers."""


class Measured(NamedTuple):
    """What all agents told of themselves and of the averaged model."""

    table: AgentTable
    classes_NC: Tensor  # accuracies on each class: the agents' own, then the averaged model's in the first row

    @property
    def loss(self) -> float:
        """The averaged model's, on all agents' training data."""
        weights = self.table["samples"]
        return float((weights * self.table["loss"]).sum() / weights.sum())

    @property
    def accuracy(self) -> float | None:
        """The averaged model's, on the test data."""
        return next(iter(self.table.known("test_accuracy")), None)

    def record(self, training: Run) -> Record:
        """The same as a record."""
        table, train_losses = self.table, self.table.known("train_loss")
        class_accuracy, agent_class_accuracy = _by_class(self.classes_NC)
        return Record(
            step=training.step_number,
            epoch=training.epoch,
            lr=training.lr,
            train_loss=sum(train_losses) / len(train_losses) if train_losses else None,
            loss=self.loss,
            test_loss=next(iter(table.known("test_loss")), None),
            accuracy=self.accuracy,
            agent_accuracy=tuple(table.known("accuracy")),
            consensus=float(table["distance"].mean().sqrt()),
            bytes_sent=sum(table.bytes_by_agent()),
            bytes_by_kind=table.bytes_by_kind(),
            bytes_by_agent=tuple(table.bytes_by_agent()),
            gradients=int(table["gradients"].sum()),
            seconds=training.seconds,
            status=training.status,
            diagnostics=(_diagnostics(table) if hasattr(training.state, "diagnostics") else {}) | _failures(training),
            class_accuracy=class_accuracy,
            agent_class_accuracy=agent_class_accuracy,
        )


def measure(training: Run) -> Measured:
    """Measure where the agents of all processes are."""
    x_D, buffers = training.average()
    own, classes = _own_rows(training, x_D, buffers)
    everybody = training.group.gather(torch.cat([own.values_NC, classes], dim=1))
    return Measured(AgentTable(everybody[:, : len(COLUMNS)]), everybody[:, len(COLUMNS) :])


def _own_rows(training: Run, x_D: Tensor, buffers: tuple[Tensor, Tensor]) -> tuple[AgentTable, Tensor]:
    """What the agents of this process know, given the averaged model; and the accuracies on each class."""
    oracle, evaluator, x = training.oracle, training.evaluator, training.state.x
    rows = AgentTable.empty(len(x))
    rows.fill("samples", [len(own) for own in training.agents])
    rows.fill("loss", [evaluator(x_D, buffers, probe).loss for probe in training.probes])
    some = blocks(len(x), x_D.nbytes)
    rows.fill("distance", torch.cat([(x[part] - x_D).square_().sum(dim=1) for part in some]))
    rows.fill("train_loss", oracle.loss_sums / oracle.loss_counts)
    oracle.loss_sums.zero_()
    oracle.loss_counts.zero_()
    rows.fill("gradients", oracle.evaluations)
    rows.fill("first_bad_step", training.first_bad)
    sent = torch.from_numpy(training.traffic.by_agent_and_kind()[training.context.shard.rows])
    for kind, bytes_n in zip(KINDS, sent.unbind(dim=1), strict=True):
        rows.fill(kind, bytes_n)
    none = x.new_zeros(len(x), len(DIAGNOSTICS))
    for name, values in zip(DIAGNOSTICS, getattr(training.state, "diagnostics", none).T, strict=True):
        rows.fill(name, values)
    return rows, _tested(training, rows, x_D, buffers)


def _tested(training: Run, rows: AgentTable, x_D: Tensor, buffers: tuple[Tensor, Tensor]) -> Tensor:
    """Fill in how the models do on the test data, and return the accuracies on each class."""
    evaluator, x, own = training.evaluator, training.state.x, training.buffers
    if training.test is None:
        return torch.empty(len(x), 0, dtype=torch.float64)
    each = [evaluator(x[0], own.row(0), training.test)]
    for j in range(1, len(x)):
        alike = torch.equal(x[j], x[j - 1]) and own.alike(j, j - 1)  # as all are at the start
        each.append(each[-1] if alike else evaluator(x[j], own.row(j), training.test))
    rows.fill("accuracy", [math.nan if score.accuracy is None else score.accuracy for score in each])
    by_class = torch.stack([score.by_class for score in each])
    averaged = torch.full_like(by_class, math.nan)
    if training.group.is_rank_0:
        score = evaluator(x_D, buffers, training.test)
        rows["test_loss"][0] = score.loss
        rows["test_accuracy"][0] = math.nan if score.accuracy is None else score.accuracy
        averaged[0] = score.by_class
    return torch.cat([by_class, averaged], dim=1)


def _diagnostics(table: AgentTable) -> dict[str, float]:
    means = {name: float(table[name].mean()) for name in ("active", "shrinkage", "cosine")}
    return means | {name: float(table[name].sum()) for name in ("stalled", "fallbacks")}


def _failures(training: Run) -> dict[str, float]:
    """What worked in the steps since the last regular evaluation, where the scenario has faults."""
    if not training.scenario.faults.any:
        return {}
    last = max(0, training.step_number - 1) // training.evaluate_every * training.evaluate_every
    return training.scenario.shares(range(last, training.step_number))


def _by_class(classes_NC: Tensor) -> tuple[tuple[float, ...], tuple[tuple[float, ...], ...]]:
    """The averaged model's accuracy on each class, and each agent's."""
    each, averaged = classes_NC.chunk(2, dim=1) if classes_NC.numel() else (classes_NC[:0], classes_NC[:1])
    agents = each if len(each) <= MANY else each[:0]
    rounded = [tuple(round(value, 4) for value in row) for row in agents.tolist()]
    return tuple(round(value, 4) for value in averaged[0].tolist()), tuple(rounded)
