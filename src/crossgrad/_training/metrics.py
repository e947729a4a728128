"""Losses and accuracies of models on data, and the table of what every agent knows of itself.

n: agents of this process, N: of all, D: parameters.
"""

from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor

from crossgrad._gradients.oracle import Loss
from crossgrad._network.traffic import KINDS
from crossgrad.data import Samples
from crossgrad.models.buffers import Buffers
from crossgrad.models.flat import FlatModel

ROWS = 1024  # samples in one forward pass


class Score(NamedTuple):
    """How a model does on some samples."""

    loss: float  # mean
    accuracy: float | None  # share of right answers, where the labels are classes
    by_class: Tensor  # the same for the samples of each class; empty where the labels are no classes


class Evaluator:
    """Evaluates flat models; leaves no trace in anybody's buffers."""

    def __init__(self, model: FlatModel, loss: Loss, buffers: Buffers) -> None:
        self.model, self.loss, self.buffers = model, loss, buffers

    @torch.no_grad()
    def __call__(self, x_D: Tensor, buffers: tuple[Tensor, Tensor], samples: Samples) -> Score:
        """The score of one model, with its buffers."""
        floats, integers = (part.clone() for part in buffers)
        self.model.module.eval()
        self.model.load(x_D)
        self.buffers.load(floats, integers)
        loss, right, classes = 0.0, [], samples.classes
        for inputs, labels in zip(torch.split(samples.inputs, ROWS), torch.split(samples.labels, ROWS), strict=True):
            output = self.model.module(inputs)
            loss += float(self.loss(output, labels)) * len(inputs)
            if classes is not None:
                right.append(labels[output.argmax(dim=1) == labels])
        self.model.unload()
        if classes is None:
            return Score(loss / len(samples), None, torch.empty(0, dtype=torch.float64))
        right_C = torch.bincount(torch.cat(right), minlength=classes).double()
        held_C = torch.bincount(samples.labels, minlength=classes)
        return Score(loss / len(samples), float(right_C.sum()) / len(samples), (right_C / held_C).cpu())


COLUMNS = (
    "samples",  # held
    "loss",  # of the averaged model on this agent's training data
    "accuracy",  # of the agent's own model
    "distance",  # squared, of the agent's model from the average
    "train_loss",  # own, mean since the last record
    "gradients",  # computed so far
    "first_bad_step",  # at which the agent's loss was not finite
    "test_loss",  # of the averaged model; only agent 0 knows it
    "test_accuracy",
    *KINDS,  # bytes sent so far
    "active",
    "shrinkage",
    "cosine",
    "stalled",
    "fallbacks",
)


@dataclass(frozen=True, eq=False)
class AgentTable:
    """One row of numbers per agent: all that agents tell one another about themselves, and only at evaluations."""

    values_NC: Tensor  # float64

    @classmethod
    def empty(cls, agents: int) -> "AgentTable":
        """A table in which nothing is known yet."""
        return cls(torch.full((agents, len(COLUMNS)), torch.nan, dtype=torch.float64))

    def __getitem__(self, column: str) -> Tensor:
        return self.values_NC[:, COLUMNS.index(column)]

    def fill(self, column: str, values: Tensor | list[float]) -> None:
        """Set one column."""
        self.values_NC[:, COLUMNS.index(column)] = torch.as_tensor(values, dtype=torch.float64).cpu()

    def known(self, column: str) -> list[float]:
        """The column's numbers, without those that are not known."""
        return [value for value in self[column].tolist() if value == value]

    def bytes_by_kind(self) -> dict[str, int]:
        """Bytes sent so far, of those kinds of which there were any."""
        return {kind: int(sent) for kind in sorted(KINDS) if (sent := self[kind].sum()) > 0}

    def bytes_by_agent(self) -> list[int]:
        """Bytes sent so far by each agent."""
        return [int(sent) for sent in torch.stack([self[kind] for kind in KINDS]).sum(dim=0)]
