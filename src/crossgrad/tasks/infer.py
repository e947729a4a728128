"""The task that labels are usually for, where none is given."""

from collections.abc import Sequence
from math import prod
from typing import Any

from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from crossgrad.tasks.classification import Classification, describe_labels
from crossgrad.tasks.regression import Regression
from crossgrad.tasks.task import Loss, Task


def infer_task(labels: Sequence[Any]) -> Task:
    """The task of these labels, one tensor for each agent.

    Whole numbers, one per sample, are classes; the largest label of all agents decides how many there are. For
    floating-point numbers the task is regression.

    Args:
        labels: a tensor of labels for each agent.

    >>> import torch
    >>> infer_task([torch.tensor([0, 1]), torch.tensor([4])]).classes
    5
    """
    first = labels[0]
    if isinstance(first, Tensor) and first.is_floating_point():
        task: Task = Regression(prod(first.shape[1:]))
    elif isinstance(first, Tensor) and first.ndim == 1 and not first.is_complex():
        task = Classification(max(max((int(own.max()) for own in labels if len(own)), default=0) + 1, 1))
    else:
        column = isinstance(first, Tensor) and first.ndim == 2 and first.shape[1] == 1
        one_hot = "Make it one number per sample by y[:, 0]" if column else "Convert one-hot labels by y.argmax(1)"
        raise ValueError(
            f"without a task, labels must be one whole number per sample (classes) or floating point (regression); "
            "found "
            f"{describe_labels(first)}. {one_hot}, or pass task=, such as "
            f"crossgrad.TokenClassification(classes) or crossgrad.Segmentation(classes)."
        )
    return task


def task_with(task: Task | None, loss: Loss | None, labels: Sequence[Any]) -> Task:
    """The given task, or the one that the labels are usually for, with a loss of one's own.

    Args:
        task: what is learnt; by default as `infer_task` says.
        loss: takes the place of the task's own.
        labels: a tensor of labels for each agent.

    Raises:
        ValueError: cross-entropy is asked of labels that are one floating-point number per sample.
    """
    crossed = loss is cross_entropy or isinstance(loss, nn.CrossEntropyLoss)
    for own in labels if crossed and task is None else ():
        if isinstance(own, Tensor) and own.is_floating_point() and own.ndim == 1:
            raise ValueError(
                f"cross-entropy takes classes (int64, one per sample) or probabilities (float, one per class); found "
                f"labels of {describe_labels(own)}. Convert classes by y.long()."
            )
    chosen = task or infer_task(labels)
    return chosen if loss is None else chosen.with_loss(loss)
