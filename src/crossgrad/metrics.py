"""Losses and accuracies of models on data, in evaluation mode."""

import torch
from torch import Tensor

from crossgrad.buffers import Buffers
from crossgrad.data import Samples
from crossgrad.oracle import FlatModel, Loss

ROWS = 1024  # samples in one forward pass


class Evaluator:
    """Evaluates flat models; leaves no trace in anybody's buffers."""

    def __init__(self, model: FlatModel, loss: Loss, buffers: Buffers) -> None:
        self.model, self.loss, self.buffers = model, loss, buffers

    @torch.no_grad()
    def __call__(self, x_D: Tensor, buffers: tuple[Tensor, Tensor], samples: Samples) -> tuple[float, float | None]:
        """Mean loss, and the share of right answers where the labels are classes."""
        floats, integers = (part.clone() for part in buffers)
        self.model.module.eval()
        self.model.load(x_D)
        self.buffers.load(floats, integers)
        loss, right = 0.0, 0
        for inputs, labels in zip(torch.split(samples.inputs, ROWS), torch.split(samples.labels, ROWS), strict=True):
            output = self.model.module(inputs)
            loss += float(self.loss(output, labels)) * len(inputs)
            if samples.classes is not None:
                right += int((output.argmax(dim=1) == labels).sum())
        self.model.unload()
        return loss / len(samples), right / len(samples) if samples.classes is not None else None


def consensus_distance(x_ND: Tensor) -> float:
    """Root mean square distance of the agents' models from their average."""
    return float((x_ND - x_ND.mean(dim=0)).square().sum(dim=1).mean().sqrt())
