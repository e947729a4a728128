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
from crossgrad.tasks.metrics import Metric
from crossgrad.tasks.regression import Regression
from crossgrad.tasks.task import Loss, Task

__all__ = ["Classification", "Loss", "Metric", "Regression", "Task", "infer_task"]
