"""What is learnt: the loss, the metrics, and what outputs and labels must look like.

>>> import torch
>>> task = Classification(classes=3)
>>> outputs, labels = torch.eye(3), torch.tensor([0, 1, 1])
>>> round(float(task.loss(outputs, labels)), 3)
0.885
>>> [metric.name for metric in task.metrics]
['accuracy', 'class_accuracy']
"""

from crossgrad.tasks.classification import Classification
from crossgrad.tasks.infer import infer_task
from crossgrad.tasks.metric import Metric, as_metrics, own_metric
from crossgrad.tasks.metrics import METRICS, top_k
from crossgrad.tasks.named import TASKS, TaskSpec
from crossgrad.tasks.own import Batch, OwnTask
from crossgrad.tasks.positions import Segmentation, TokenClassification
from crossgrad.tasks.regression import Regression
from crossgrad.tasks.several import MultiLabel
from crossgrad.tasks.task import Loss, Task

__all__ = [
    "METRICS",
    "TASKS",
    "Batch",
    "Classification",
    "Loss",
    "Metric",
    "MultiLabel",
    "OwnTask",
    "Regression",
    "Segmentation",
    "Task",
    "TaskSpec",
    "TokenClassification",
    "as_metrics",
    "infer_task",
    "own_metric",
    "top_k",
]
