"""A task knows its loss, its metrics and what labels and outputs must look like."""

import numpy as np
import pytest
import torch
from sklearn.metrics import accuracy_score, confusion_matrix
from torch import nn
from torch.nn.functional import cross_entropy, l1_loss

import crossgrad as cg
from crossgrad.tasks import Classification, Regression, infer_task

X, y = torch.arange(12.0).reshape(4, 3), torch.tensor([0, 2, 1, 2])


def test_the_task_of_whole_numbers_has_the_classes_of_all_agents():
    assert infer_task([torch.tensor([0, 1]), torch.tensor([4]), torch.tensor([2])]) == Classification(5)


def test_the_task_of_floating_labels_is_regression_on_as_many_numbers():
    assert infer_task([torch.rand(4)]) == Regression(1)
    assert infer_task([torch.rand(4, 2)]) == Regression(2)


@pytest.mark.parametrize("labels", [torch.eye(4).long(), y.to(torch.complex64), {"a": y}])
def test_labels_that_could_mean_anything_need_a_task(labels):
    with pytest.raises(ValueError, match=r"y.argmax\(1\), or pass task="):
        infer_task([labels])


def test_a_partition_sorts_by_class_or_by_the_first_number():
    assert Classification(3).kinds(y).tolist() == [0, 2, 1, 2]
    assert np.array_equal(Regression(2).kinds(torch.tensor([[1.0, 2.0], [3.0, 4.0]])), [1, 3])


@pytest.mark.parametrize(
    ("task", "labels", "sentence"),
    [
        (Classification(3), y - 1, "0 to 2; found 1 others, the first of them -1 at sample 0"),
        (Classification(2), y, "0 to 1; found 2 others, the first of them 2 at sample 1"),
        (Classification(4), torch.eye(4).long(), r"one-hot ones by y.argmax\(1\)"),
        (Classification(3), y.float(), r"y.long\(\)"),
        (Regression(), y, r"y.float\(\)"),
        (Regression(), {"y": y}, "found a dict"),
    ],
)
def test_labels_that_do_not_fit_the_task_are_refused(task, labels, sentence):
    with pytest.raises(ValueError, match=sentence):
        task.check_labels(labels)


def test_the_agent_whose_labels_do_not_fit_is_named():
    data = [(X, y), (X, y + 1)]
    with pytest.raises(ValueError, match="agent 1: labels of 3 classes must be 0 to 2"):
        cg.fit(nn.Linear(3, 3), data, graph=cg.ring(2), steps=1, task=Classification(3))
    with pytest.raises(ValueError, match="test set: labels of 3 classes"):
        cg.fit(nn.Linear(3, 3), (X, y), graph=cg.ring(2), steps=1, test=(X, y + 1))


def test_accuracies_are_those_of_scikit_learn():
    generator = torch.Generator().manual_seed(0)
    scores, labels = torch.randn(500, 7, generator=generator), torch.randint(7, (500,), generator=generator)
    task = Classification(7)
    parts = [
        task.metrics[0].collect(*task.predictions(scores[part], labels[part]))
        for part in (slice(0, 99), slice(99, 500))
    ]
    named = {metric.name: metric.value(parts) for metric in task.metrics}
    matrix = confusion_matrix(labels, scores.argmax(1))
    assert named["accuracy"] == accuracy_score(labels, scores.argmax(1))
    assert named["class_accuracy"].tolist() == pytest.approx(matrix.diagonal() / matrix.sum(axis=1))


def test_a_loss_of_ones_own_takes_the_place_of_the_tasks():
    assert Regression().with_loss(l1_loss) == Regression(loss=l1_loss)
    once, twice = (
        cg.fit(nn.Linear(3, 3), (X, y), graph=cg.ring(2), steps=1, loss=lambda o, t, f=f: f * cross_entropy(o, t))
        for f in (1, 2)
    )
    assert isinstance(twice.training.task, Classification)
    assert float(twice.training.task.loss(torch.eye(3), y[:3])) == 2 * float(
        once.training.task.loss(torch.eye(3), y[:3])
    )


def test_a_classification_has_a_class():
    with pytest.raises(ValueError, match="at least one class"):
        Classification(0)
