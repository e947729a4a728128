"""All that decides how a run goes on: taken from a Training, and put back into one.

n: agents of this process. Batches, random pairs and dropout need no place here: they are functions of seed and step.
"""

from dataclasses import asdict, dataclass
from hashlib import blake2b
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from crossgrad._training.trainer import Training

COUNTS = ("drawn", "losses", "loss_sums", "loss_counts", "evaluations")  # of the oracle, one number per agent


@dataclass(frozen=True)
class Progress:
    """Where a run is: what is not a tensor."""

    step: int
    seconds: float
    status: str
    reason: str
    suspicions: tuple[str, ...]
    good_step: int  # the step of the last good state
    records: int  # written so far


@dataclass(frozen=True, eq=False)
class Snapshot:
    """A run between two steps, as far as one process has it."""

    progress: Progress
    rows: dict[str, Tensor]  # one row for each agent of this process
    edges: dict[str, Tensor]  # one number for each edge on which an agent of this process speaks

    def about(self) -> dict[str, Any]:
        """Its progress as plain values."""
        return asdict(self.progress)


def take(training: Training, records: int) -> Snapshot:
    """The snapshot of a run; its tensors are the run's own, so use it before the next step."""
    state, oracle = training.state, training.oracle
    rows = {f"state.{name}": part for name, part in state._asdict().items()}
    rows |= {f"oracle.{name}": getattr(oracle, name) for name in COUNTS}
    rows |= {"buffers.floats": training.buffers.floats_NF, "buffers.integers": training.buffers.integers_NI}
    rows |= {"first_bad": training.first_bad, "data": _marks(training)}
    good = training.good
    if good.step != training.step_number:
        rows |= {"good.x": good.x, "good.floats": good.floats, "good.integers": good.integers}
    mine = _spoken(training)
    edges = {kind: torch.from_numpy(amounts[mine]) for kind, amounts in training.traffic.by_edge.items()}
    progress = Progress(
        training.step_number,
        training.seconds,
        training.status,
        training.reason,
        tuple(training.suspicions[-training.settings.divergence.patience :]),
        good.step,
        records,
    )
    return Snapshot(progress, rows, edges)


def put_back(training: Training, snapshot: Snapshot) -> None:
    """Let the run go on from there."""
    progress, rows = snapshot.progress, snapshot.rows
    differing = (rows["data"] != _marks(training)).nonzero()[:, 0].tolist()
    if differing:
        agent = training.context.shard.first + differing[0]
        raise ValueError(f"the data of agent {agent} is not the data that the run began with; it cannot go on.")
    device = training.state.x.device
    state: Any = training.state
    training.state = type(state)(*[rows[f"state.{name}"].to(device) for name in state._fields])
    for name in COUNTS:
        setattr(training.oracle, name, rows[f"oracle.{name}"])
    training.buffers.floats_NF = rows["buffers.floats"].to(device)
    training.buffers.integers_NI = rows["buffers.integers"].to(device)
    training.first_bad = rows["first_bad"]
    training.step_number, training.seconds = progress.step, progress.seconds
    training.status, training.reason = progress.status, progress.reason
    training.suspicions = list(progress.suspicions)
    training.remember_good()
    if "good.x" in rows:
        parts = (rows[f"good.{name}"].to(device) for name in ("x", "floats", "integers"))
        training.good = type(training.good)(progress.good_step, *parts)
    mine = _spoken(training)
    for kind, amounts in snapshot.edges.items():
        everywhere = np.zeros(len(training.traffic.receiver), np.int64)
        everywhere[mine] = amounts.numpy()
        training.traffic.by_edge[kind] = everywhere


def _spoken(training: Training) -> NDArray[np.bool_]:
    """The edges on which agents of this process speak."""
    return training.context.shard.holds(training.traffic.sender)


def _marks(training: Training) -> Tensor:
    """A number per agent that changes with its data: all labels, and the inputs that losses are taken on."""
    marks = []
    for own, probe in zip(training.agents, training.probes, strict=True):
        digest = blake2b(own.labels.cpu().numpy().tobytes(), digest_size=8)
        digest.update(probe.inputs.cpu().contiguous().numpy().tobytes())
        marks.append(int.from_bytes(digest.digest(), "big", signed=True))
    return torch.tensor(marks)
