"""Evaluation of models on data that is held out for validation.

n: agents of this process.
"""

from collections.abc import Sequence
from typing import Any

import torch

from crossgrad._training.agent_table import AgentTable, Columns
from crossgrad._training.evaluation import Models, first_row, of_agents
from crossgrad._training.evaluator import Evaluator
from crossgrad._training.quantities import VALIDATION_ACCURACIES
from crossgrad.data import Samples


def validation_columns(evaluator: Evaluator, models: Models, validation: Sequence[Samples]) -> Columns:
    """The averaged model's loss on each agent's validation data, and how many samples that is."""
    personal = models.averaged_for(0)[0] is not models.averaged_D
    losses: dict[Any, float] = {}
    for j, samples in enumerate(validation):
        if (known := (id(samples), j if personal else 0)) not in losses:  # all agents may have the same
            losses[known] = evaluator.loss(*models.averaged_for(j), samples)
    each = [losses[id(samples), j if personal else 0] for j, samples in enumerate(validation)]
    return {
        "validation_loss": torch.tensor(each, dtype=torch.float64),
        "validation_samples": torch.tensor([len(samples) for samples in validation]),
    }


def pooled_columns(evaluator: Evaluator, models: Models, pooled: Samples, is_rank_0: bool) -> Columns:
    """The accuracy of each agent's model, and of the averaged one, on all agents' validation data together."""
    each = of_agents(models, evaluator.accuracy, pooled)
    averaged = [evaluator.accuracy(models.averaged_D, models.averaged_buffers, pooled)] if is_rank_0 else []
    return {
        "validation_accuracy": torch.tensor(each, dtype=torch.float64),
        "validation_averaged": first_row(torch.tensor(averaged, dtype=torch.float64), len(each), ()),
    }


def validation_numbers(table: AgentTable) -> dict[str, float]:
    """The numbers of records about validation data; empty where there is none."""
    found = {}
    if "validation_loss" in table.columns:
        samples_N = table["validation_samples"]
        found["validation_loss"] = float((samples_N * table["validation_loss"]).sum() / samples_N.sum())
    if "validation_accuracy" in table.columns:
        agents_N = table["validation_accuracy"]
        values = (table.known("validation_averaged")[0], float(agents_N.mean()), float(agents_N.min()))
        found |= {one.name: value for one, value in zip(VALIDATION_ACCURACIES, values, strict=True)}
    return found
