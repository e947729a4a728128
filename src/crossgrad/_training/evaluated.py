"""The evaluations of a run: its records, whether it diverged, and which models it returns."""

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn

from crossgrad._gradients.oracle import Oracle
from crossgrad._gradients.private import PrivateOracle
from crossgrad._network.context import NetworkContext
from crossgrad._processes.group import Group
from crossgrad._training import evaluation, held_out
from crossgrad._training.agent_table import AgentTable
from crossgrad._training.evaluator import Evaluator
from crossgrad._training.modules import exported
from crossgrad._training.progress import Progress
from crossgrad._training.quantities import EPSILON
from crossgrad.algorithms.api import Algorithm
from crossgrad.data import Samples
from crossgrad.graphs import AnyGraph
from crossgrad.graphs.faults import Scenario
from crossgrad.models.buffers import Buffers
from crossgrad.models.flat import FlatModel
from crossgrad.records.record import Record
from crossgrad.tasks import Task


class Evaluated(Progress):
    """A run that can be evaluated. `Training` sets its attributes and takes the steps."""

    group: Group
    graph: AnyGraph
    scenario: Scenario
    context: NetworkContext
    task: Task
    algorithm: Algorithm[Any]
    state: Any
    model: FlatModel
    buffers: Buffers
    oracle: Oracle
    evaluator: Evaluator
    agents: Sequence[Samples]
    probes: Sequence[Samples]
    test: Samples | None
    own_test: Sequence[Samples] | None
    pooled_validation: Samples | None
    first_bad: Tensor  # for each agent, its first step with a loss that was not finite; infinite if there was none
    seconds: float

    def evaluate(self) -> Record:
        """Evaluate the agents' models and the averaged one. Collective: every process must call it."""
        models = evaluation.Models(self.state.x, self.buffers, *self.average(), self.model.shared)
        columns = {
            "samples": torch.tensor([len(own) for own in self.agents]),
            "first_bad_step": self.first_bad,
            **evaluation.model_columns(self.evaluator, models, self.probes, self.test, self.group.is_rank_0),
            **evaluation.work_columns(self.oracle, self.context),
            **evaluation.diagnostic_columns(self.algorithm, self.state),
        }
        if self.own_test is not None:
            columns |= evaluation.own_test_columns(self.evaluator, models, self.own_test)
        if self.validation is not None:
            columns |= held_out.validation_columns(self.evaluator, models, self.validation)
        if self.pooled_validation is not None:
            columns |= held_out.pooled_columns(self.evaluator, models, self.pooled_validation, self.group.is_rank_0)
        if isinstance(self.oracle, PrivateOracle):
            columns["uses"] = self.oracle.uses()
        found = AgentTable.gather(self.group, columns)
        found.check_steps("first_bad_step", self.step_number)
        more = self._faults() | held_out.validation_numbers(found)
        if self.settings.privacy is not None:
            more[EPSILON.name] = self.settings.privacy.epsilon(int(found["uses"].max()))
        if self.status == "ok":
            self._judge(found, more.get("validation_loss"))
        progress = {"step": self.step_number, "epoch": self.epoch, "lr": self.lr, "seconds": self.seconds}
        record = evaluation.as_record(found, self.task.metrics, self.algorithm, more, status=self.status, **progress)
        if self.settings.settled is not None:
            self.settled_judge.update(record.epoch, record.accuracy)
        return record

    def average(self) -> tuple[Tensor, tuple[Tensor, Tensor]]:
        """The averaged model and its buffers."""
        agents = self.graph.agents
        floats, integers = self.group.mean(self.buffers.floats_NF, agents), self.buffers.integers_NI[0].clone()
        if integers.numel():
            self.group.broadcast(integers)
        return self.group.mean(self.state.x, agents), (floats, integers)

    def averaged_model(self) -> nn.Module:
        """A copy of the user's module with the average of all agents' models and buffers."""
        return exported(self.model, self.buffers, *self.average())

    def agent_model(self, agent: int) -> nn.Module:
        """A copy of the user's module with one agent's model and buffers."""
        return exported(self.model, self.buffers, self.state.x[agent], self.buffers.copy_of(agent))

    def _faults(self) -> dict[str, float]:
        """What worked in the steps since the last regular evaluation, where the scenario has faults."""
        if not self.scenario.faults.any:
            return {}
        last = max(0, self.step_number - 1) // self.evaluate_every * self.evaluate_every
        return self.scenario.shares(range(last, self.step_number))

    def _judge(self, found: AgentTable, validation_loss: float | None) -> None:
        """Detect divergence; keep the last good models, or the best ones where there is validation data."""
        first_bad = found["first_bad_step"]
        agent = int(first_bad.argmin())
        bad = None if bool(first_bad.isinf().all()) else (agent, int(first_bad[agent]))
        where = next(iter((~found["loss"].isfinite()).nonzero()[:, 0].tolist()), None)
        good = self.judge.update(found.loss, self.step_number, self.total_steps, bad, where)
        better = validation_loss is None or self.validation_judge.update(validation_loss, self.step_number)
        if good and better:
            self.keep_as_good()

    def keep_last_good(self) -> None:
        """Go back to the last good models if the run diverged, to the best ones if there is validation data."""
        if self.last_good_step != self.step_number:
            state: Any = self.state
            self.state = state._replace(x=self.good.x)
            self.buffers.floats_NF, self.buffers.integers_NI = self.good.floats, self.good.integers

    def keep_as_good(self) -> None:
        """Keep the present models and buffers as the last good ones."""
        self.good.keep(self.step_number, self.state.x, self.buffers)
