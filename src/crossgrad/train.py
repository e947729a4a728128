"""One run: the agents, their network and an algorithm, step by step."""

import copy
import math
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from crossgrad.algorithms.aggregation import DIAGNOSTICS
from crossgrad.algorithms.api import Algorithm
from crossgrad.buffers import Buffers
from crossgrad.checks import check_graph, check_model
from crossgrad.data import Samples
from crossgrad.graphs import Graph, GraphSequence
from crossgrad.metrics import Evaluator, consensus_distance
from crossgrad.network import LocalNetwork, Setting
from crossgrad.oracle import FlatModel, Loss, Oracle
from crossgrad.records import DivergenceRule, Record
from crossgrad.schedule import Exponential, Schedule
from crossgrad.shard import Shard
from crossgrad.traffic import Traffic

EVALUATIONS = 20  # of a run that does not say how often
PROBE = 2000  # training samples on which the averaged model's loss is taken, all agents together


@dataclass(frozen=True)
class Settings:
    """How long, how fast and how exactly to train."""

    schedule: Schedule = Exponential()
    batch_size: int = 32
    steps: int | None = None  # either steps or epochs
    epochs: float | None = None  # of the local data
    evaluate_every: int | None = None  # steps; None: twenty times in all
    seed: int = 0
    dtype: torch.dtype = torch.float32
    device: str = "cpu"
    divergence: DivergenceRule = DivergenceRule()

    def __post_init__(self) -> None:
        if (self.steps is None) == (self.epochs is None):
            raise ValueError(
                f"say how long to train, either in steps or in epochs of the local data; found steps = {self.steps} "
                f"and epochs = {self.epochs}."
            )
        for name in ("batch_size", "steps", "evaluate_every"):
            value = getattr(self, name)
            if value is not None and value < 1:
                raise ValueError(f"{name} must be at least 1; found {value}.")
        if self.epochs is not None and not 0 < self.epochs < math.inf:
            raise ValueError(f"epochs must be above 0 and finite; found {self.epochs}.")
        if self.seed < 0:
            raise ValueError(f"the seed must be at least 0; found {self.seed}.")


class Training:
    """A run in progress. Iterating over it trains, and yields a Record at every evaluation.

    `agents` holds each agent's own samples; nothing but models, buffers, gradients and push-sum weights ever passes
    between them.
    """

    def __init__(
        self,
        model: nn.Module,
        agents: Sequence[Samples],
        algorithm: Algorithm[Any],
        graph: Graph | GraphSequence,
        settings: Settings,
        test: Samples | None = None,
        loss: Loss = cross_entropy,
    ) -> None:
        check_graph(algorithm, graph, len(agents))
        device = _device(settings.device)
        self.algorithm, self.graph, self.settings = algorithm, graph, settings
        self.agents = [_placed(own, device, settings.dtype) for own in agents]
        self.test = None if test is None else _placed(test, device, settings.dtype)
        self.model = FlatModel(model, settings.dtype, device)
        check_model(self.model, self.agents)
        self.buffers = Buffers.of(self.model.module, len(agents))
        self.traffic = Traffic(graph.union())
        shard = Shard.of(len(agents))
        self.setting = Setting(shard, graph.union(), self.traffic, self.buffers, settings.seed)
        self.oracle = Oracle(self.model, loss, self.agents, settings.batch_size, settings.seed, self.buffers)
        self.evaluator = Evaluator(self.model, loss, self.buffers)
        share = max(1, PROBE // len(agents))
        self.probes = [own.take(range(min(share, len(own)))) for own in self.agents]
        self.epochs_per_step = self._epochs_per_step()
        self.total_steps = settings.steps or math.ceil((settings.epochs or 0) / self.epochs_per_step - 1e-9)
        self.evaluate_every = settings.evaluate_every or math.ceil(self.total_steps / EVALUATIONS)
        self.step_number = 0
        self.seconds = 0.0
        self.status, self.reason = "ok", ""
        self.state = algorithm.init(self.model.start.repeat(len(agents), 1), self._network())
        self._recent_losses: list[float] = []
        self._suspicions: list[str] = []
        self._good = self._snapshot()

    def __iter__(self) -> Iterator[Record]:
        """Train to the end, or until the run diverges."""
        yield self.evaluate()
        while not self.finished:
            self.step()
            if self.due:
                yield self.evaluate()

    @property
    def finished(self) -> bool:
        """Whether the run has come to its end, one way or the other."""
        return self.done >= 1.0 or self.status != "ok"

    @property
    def done(self) -> float:
        """The share of the run that is behind us."""
        return self.step_number / self.total_steps

    @property
    def epoch(self) -> float:
        """How often the agents' local data was gone through, on average."""
        return self.step_number * self.epochs_per_step

    @property
    def due(self) -> bool:
        """Whether this step is one to evaluate after."""
        return self.step_number % self.evaluate_every == 0 or self.finished

    @property
    def lr(self) -> float:
        """The step size of the next step."""
        return self.settings.schedule(self.epoch, self.done)

    def step(self) -> None:
        """All agents take one step."""
        began = time.perf_counter()
        self.state = self.algorithm.step(self.state, self.lr, self.oracle, self._network())
        self.step_number += 1
        self.seconds += time.perf_counter() - began
        losses = self.oracle.losses[self.oracle.drawn > 0]
        self._recent_losses.append(float(losses.mean()) if len(losses) else math.nan)
        if not bool(losses.isfinite().all()):
            bad = (~self.oracle.losses.isfinite() & (self.oracle.drawn > 0)).nonzero()[0].item()
            self._end("nonfinite", f"the loss of agent {bad} is not finite")

    def evaluate(self) -> Record:
        """Measure where the agents are."""
        x = self.state.x
        mean_x, mean_buffers = x.mean(dim=0), self.buffers.average()
        weights = [len(own) for own in self.agents]
        losses = [self.evaluator(mean_x, mean_buffers, probe)[0] for probe in self.probes]
        loss = sum(w * value for w, value in zip(weights, losses, strict=True)) / sum(weights)
        test_loss, accuracy, agent_accuracy = None, None, []
        if self.test is not None:
            test_loss, accuracy = self.evaluator(mean_x, mean_buffers, self.test)
            each = [self.evaluator(x[j], self.buffers.row(j), self.test)[1] for j in range(len(x))]
            agent_accuracy = [value for value in each if value is not None]
        if self.status == "ok":
            self._judge(loss, accuracy)
        recent, self._recent_losses = self._recent_losses, []
        return Record(
            step=self.step_number,
            epoch=self.epoch,
            lr=self.lr,
            train_loss=sum(recent) / len(recent) if recent else None,
            loss=loss,
            test_loss=test_loss,
            accuracy=accuracy,
            agent_accuracy=tuple(agent_accuracy),
            consensus=consensus_distance(x),
            bytes_sent=self.traffic.total,
            bytes_by_kind=self.traffic.by_kind(),
            bytes_by_agent=tuple(self.traffic.by_agent().tolist()),
            gradients=self.oracle.evaluations,
            seconds=self.seconds,
            status=self.status,
            diagnostics=self._diagnostics(),
        )

    def averaged_model(self) -> nn.Module:
        """A module of the user's kind with the average of all agents' models and buffers."""
        return self._module(self.state.x.mean(dim=0), self.buffers.average())

    def agent_model(self, agent: int) -> nn.Module:
        """A module of the user's kind with one agent's model and buffers."""
        return self._module(self.state.x[agent], self.buffers.copy_of(agent))

    @property
    def last_good_step(self) -> int:
        """The step of the state that is kept: the present one unless the run diverged."""
        return self.step_number if self.status == "ok" else self._good[0]

    def _epochs_per_step(self) -> float:
        """Samples drawn in one step over samples held, all agents together."""
        pace: float = self.algorithm.pace(len(self.agents)) if hasattr(self.algorithm, "pace") else 1.0
        return pace * sum(self.oracle.batches.batch_sizes) / sum(len(own) for own in self.agents)

    def _network(self) -> LocalNetwork:
        return LocalNetwork(self.graph.at(self.step_number), self.setting, self.step_number)

    def _judge(self, loss: float, accuracy: float | None) -> None:
        """Notice divergence; remember the last good state."""
        rule = self.settings.divergence
        suspicion = rule.suspicion(loss, accuracy, self.agents[0].classes, self.done)
        self._suspicions.append(suspicion)
        if suspicion == "ok":
            self._good = self._snapshot()
            return
        in_a_row = self._suspicions[-rule.patience :]
        lasting = len(in_a_row) == rule.patience and "ok" not in in_a_row
        if suspicion == "nonfinite" or lasting:
            self._end(suspicion, f"the averaged model's loss is {loss:.3g}" + _percent(accuracy))

    def _end(self, status: str, why: str) -> None:
        self.status = status
        self.reason = f"{status} at step {self.step_number}: {why}"

    def keep_last_good(self) -> None:
        """After divergence: go back to the last state that was still good."""
        if self.status != "ok":
            _, self.state, self.buffers.floats_NF, self.buffers.integers_NI = self._good

    def _snapshot(self) -> tuple[int, Any, Tensor, Tensor]:
        state: Any = self.state
        copied = type(state)(*[part.clone() for part in state])
        return self.step_number, copied, self.buffers.floats_NF.clone(), self.buffers.integers_NI.clone()

    def _diagnostics(self) -> dict[str, float]:
        table = getattr(self.state, "diagnostics", None)
        if table is None:
            return {}
        active, shrinkage, stalled, fallbacks = table.unbind(dim=1)
        values = (active.mean(), shrinkage.mean(), stalled.sum(), fallbacks.sum())
        return {name: float(value) for name, value in zip(DIAGNOSTICS, values, strict=True)}

    def _module(self, x_D: Tensor, buffers: tuple[Tensor, Tensor]) -> nn.Module:
        self.model.load(x_D)
        self.buffers.load(*(part.clone() for part in buffers))
        module = copy.deepcopy(self.model.module).eval()
        self.model.unload()
        return module


def _placed(samples: Samples, device: torch.device, dtype: torch.dtype) -> Samples:
    labels = samples.labels if samples.classes is not None else samples.labels.to(dtype)
    return Samples(samples.inputs.to(device, dtype), labels.to(device), samples.classes)


def _percent(accuracy: float | None) -> str:
    return "" if accuracy is None else f" and its accuracy {100 * accuracy:.1f} %"


def _device(name: str) -> torch.device:
    try:
        device = torch.device(name)
    except RuntimeError:
        raise ValueError(f"device must be 'cpu', 'cuda' or 'cuda:0' and so on; found {name!r}.") from None
    if device.type == "cuda" and not torch.cuda.is_available():
        raise ValueError(f"device is {name!r}, but this PyTorch sees no GPU. Use device = 'cpu'.")
    return device
