"""Every metric is what scikit-learn, or its definition, says it is; however the samples come in batches."""

import math

import numpy as np
import pytest
import torch
from sklearn import metrics as sk
from torch.nn.functional import cross_entropy

from crossgrad.tasks import METRICS, as_metrics, own_metric, top_k
from crossgrad.tasks.metrics import LABEL_ACCURACY

GENERATOR = torch.Generator().manual_seed(0)
SCORES = torch.randn(300, 5, generator=GENERATOR).round(decimals=1)  # with ties
TARGETS = torch.randint(4, (300,), generator=GENERATOR)  # the last class does not occur
PREDICTED = SCORES.argmax(1)
MANY, THERE = torch.randn(300, 3, generator=GENERATOR), (torch.rand(300, 3, generator=GENERATOR) < 0.3).float()
NUMBERS = torch.randn(300, 2, generator=GENERATOR)
CLOSE = NUMBERS + 0.5 * torch.randn(300, 2, generator=GENERATOR)


def value(metric, scores, targets, batches=(7, 93, 200)):
    kept = [metric.collect(*part) for part in zip(scores.split(batches), targets.split(batches), strict=True)]
    return metric.value(kept)


def one_against_rest():
    shares = SCORES.double().softmax(1)
    return np.mean([sk.roc_auc_score(c == TARGETS, shares[:, c]) for c in range(4)])


@pytest.mark.filterwarnings("ignore:y_pred contains classes")
@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("accuracy", lambda: sk.accuracy_score(TARGETS, PREDICTED)),
        ("balanced_accuracy", lambda: sk.balanced_accuracy_score(TARGETS, PREDICTED)),
        ("macro_f1", lambda: sk.f1_score(TARGETS, PREDICTED, average="macro")),
        ("mean_iou", lambda: sk.jaccard_score(TARGETS, PREDICTED, average="macro")),
        ("auroc", one_against_rest),
        ("perplexity", lambda: math.exp(cross_entropy(SCORES.double(), TARGETS))),
    ],
)
def test_a_metric_of_classes_is_scikit_learns(name, expected):
    assert value(METRICS[name], SCORES, TARGETS) == pytest.approx(float(expected()), rel=1e-12)


def test_top_k_counts_targets_among_the_highest_scores():
    scores = torch.randn(300, 4, generator=GENERATOR)
    for k in (1, 2, 3, 9):
        expected = 1.0 if k > 3 else sk.top_k_accuracy_score(TARGETS, scores, k=k)
        assert value(top_k(k), scores, TARGETS) == pytest.approx(expected)


def test_the_auroc_of_two_classes_is_that_of_the_second():
    scores, targets = SCORES[:, :2], TARGETS % 2
    expected = sk.roc_auc_score(targets, scores.double().softmax(1)[:, 1])
    assert value(METRICS["auroc"], scores, targets) == pytest.approx(expected, rel=1e-9)


def test_what_is_not_defined_is_not_a_number():
    assert math.isnan(value(METRICS["auroc"], SCORES[:, :2], torch.zeros(300, dtype=torch.int64)))
    assert math.isnan(value(METRICS["r2"], CLOSE, torch.ones(300, 2)))


def test_the_confusion_matrix_has_true_classes_as_rows():
    matrix = sk.confusion_matrix(TARGETS, PREDICTED, labels=range(5))
    assert np.array_equal(value(METRICS["confusion"], SCORES, TARGETS), matrix)


def test_metrics_of_several_labels_are_scikit_learns():
    decided = MANY > 0
    assert value(LABEL_ACCURACY, MANY, THERE) == pytest.approx(1 - sk.hamming_loss(THERE, decided))
    assert value(METRICS["macro_f1"], MANY, THERE) == pytest.approx(sk.f1_score(THERE, decided, average="macro"))
    assert value(METRICS["auroc"], MANY, THERE) == pytest.approx(sk.roc_auc_score(THERE, MANY))


def test_metrics_of_numbers_are_scikit_learns():
    assert value(METRICS["r2"], CLOSE, NUMBERS) == pytest.approx(
        sk.r2_score(NUMBERS.double(), CLOSE.double()), rel=1e-9
    )
    assert value(METRICS["mae"], CLOSE, NUMBERS) == pytest.approx(sk.mean_absolute_error(NUMBERS, CLOSE), rel=1e-6)


class Counting:
    """As torchmetrics has it: reset, update, compute."""

    higher_is_better = False

    def reset(self):
        self.seen = 0

    def update(self, scores, targets):
        self.seen += len(targets)

    def compute(self):
        return torch.tensor(self.seen)


def test_a_metric_of_ones_own_is_a_function_or_an_object_like_those_of_torchmetrics():
    function, counting = as_metrics(
        {"kappa": lambda s, t: sk.cohen_kappa_score(t, s.argmax(1)), "n": Counting()}, METRICS
    )
    assert value(function, SCORES, TARGETS) == pytest.approx(sk.cohen_kappa_score(TARGETS, PREDICTED))
    assert [value(counting, SCORES, TARGETS) for _ in range(2)] == [300, 300]
    assert (function.higher_is_better, counting.higher_is_better) == (True, False)


def test_torchmetrics_are_metrics():
    torchmetrics = pytest.importorskip("torchmetrics", reason="torchmetrics is not installed")
    metric = own_metric("f1", torchmetrics.classification.MulticlassF1Score(4, average="macro"))
    expected = sk.f1_score(TARGETS, SCORES[:, :4].argmax(1), average="macro")
    assert value(metric, SCORES[:, :4], TARGETS) == pytest.approx(expected, rel=1e-5)


@pytest.mark.parametrize(
    ("wanted", "sentence"),
    [("f1", "there is no 'f1'. Valid are: accuracy, auroc"), ([len], "need names"), ({"x": 3}, "found 3 for 'x'")],
)
def test_what_is_no_metric_is_refused(wanted, sentence):
    with pytest.raises(ValueError, match=sentence):
        as_metrics(wanted, METRICS)


def test_a_confusion_matrix_of_a_vocabulary_is_refused_before_it_fills_the_memory():
    with pytest.raises(ValueError, match="at most 2000 classes; found 50000"):
        METRICS["macro_f1"].collect(torch.zeros(1, 50_000), torch.zeros(1, dtype=torch.int64))


def test_outputs_and_labels_in_dicts_gave_a_traceback_in_metrics_of_ones_own():
    def right(outputs, labels):
        return float((outputs["kind"].argmax(1) == labels["kind"]).double().mean())

    metric = own_metric("right", right)
    scores, kinds = torch.eye(3)[[0, 1, 2, 0]], torch.tensor([0, 1, 1, 1])
    parts = [metric.collect({"kind": scores[k::2]}, {"kind": kinds[k::2]}) for k in (0, 1)]
    assert metric.value(parts) == 0.5
