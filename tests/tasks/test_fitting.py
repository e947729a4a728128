"""Whatever the task, fit trains it, measures it by its own metrics and writes them into the records."""

from types import SimpleNamespace

import numpy as np
import pytest
import torch
from sklearn.metrics import f1_score, jaccard_score, r2_score, roc_auc_score
from torch import nn
from torch.nn.functional import cross_entropy, mse_loss

import crossgrad as cg
from crossgrad.tasks.positions import PositionLoss

GENERATOR = torch.Generator().manual_seed(0)
X = torch.randn(160, 6, generator=GENERATOR)
Y = (X[:, 0] + 0.3 * X[:, 1] > 0).long()


def fit(model, data, **options):
    torch.manual_seed(0)
    options = {"graph": cg.ring(4), "algorithm": cg.DPMSGD(0.9), "lr": 0.05, "steps": 60, "test": data} | options
    return cg.fit(model, data, **options)


def last(result, name):
    return result.records[-1].numbers()[name]


def test_several_labels_per_sample_are_learnt():
    there = torch.stack([X[:, 0] > 0, X[:, 1] > 0.5, X[:, 2] > 0], dim=1).float()
    result = fit(nn.Linear(6, 3), (X, there), task=cg.MultiLabel(3), metrics=["auroc"])
    scores = result.model(X).detach()
    assert last(result, "accuracy") > 0.9
    assert last(result, "macro_f1") == pytest.approx(f1_score(there, scores > 0, average="macro"))
    assert last(result, "auroc") == pytest.approx(roc_auc_score(there, scores))


class NextToken(nn.Module):
    """Returns what models of transformers return."""

    def __init__(self, vocabulary=7):
        super().__init__()
        self.embedding, self.head = nn.Embedding(vocabulary, 16), nn.Linear(16, vocabulary)

    def forward(self, tokens):
        return SimpleNamespace(logits=self.head(self.embedding(tokens)), hidden=None)


def test_a_language_model_with_ignored_positions_is_learnt():
    tokens = torch.randint(7, (80, 1), generator=GENERATOR) + torch.arange(12)
    tokens %= 7  # each token is followed by the next number
    labels = tokens.clone()
    labels[:, 8:] = -100
    result = fit(NextToken(), (tokens, labels), task=cg.TokenClassification(7, shift=True), lr=0.5, steps=100)
    first, record = result.records[0], result.records[-1]
    assert record.accuracy > 0.95
    assert 1 <= record.metrics["perplexity"].averaged < 2 < first.metrics["perplexity"].averaged
    with torch.no_grad():
        logits = result.model(tokens).logits
    expected = cross_entropy(logits[:, :7].reshape(-1, 7), tokens[:, 1:8].reshape(-1)).exp()
    assert record.metrics["perplexity"].averaged == pytest.approx(float(expected), rel=1e-5)


def test_ignored_positions_change_neither_loss_nor_gradient():
    logits = torch.randn(3, 5, 4, generator=GENERATOR).requires_grad_()
    labels = torch.randint(4, (3, 5), generator=GENERATOR)
    labels[1, 2:], labels[2] = -100, -100
    PositionLoss(axis=-1)(logits, labels).backward()
    counted = labels != -100
    expected = logits.detach().clone().requires_grad_()
    cross_entropy(expected[counted], labels[counted]).backward()
    torch.testing.assert_close(logits.grad, expected.grad)
    assert float(PositionLoss(axis=-1)(logits.detach(), torch.full((3, 5), -100))) == 0


def test_pixels_are_learnt():
    images = torch.randn(60, 1, 6, 6, generator=GENERATOR)
    labels = (images[:, 0] > 0).long() + (images[:, 0] > 1).long()
    labels[:, 0] = 255  # a border
    model = nn.Sequential(nn.Conv2d(1, 8, 1), nn.ReLU(), nn.Conv2d(8, 3, 1))
    result = fit(model, (images, labels), task=cg.Segmentation(3, ignored=255), lr=0.2, steps=80)
    counted = labels != 255
    predicted = result.model(images).argmax(1)[counted]
    assert last(result, "accuracy") > 0.8
    assert last(result, "mean_iou") == pytest.approx(jaccard_score(labels[counted], predicted, average="macro"))


class Twins(nn.Module):
    """Two inputs, two outputs in a dict."""

    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(6, 2)

    def forward(self, left, right):
        return {"scores": self.layer(left), "same": (left * right).sum(1)}


def test_a_task_of_ones_own_is_a_loss_of_model_and_batch_and_a_dict_of_metrics():
    def loss(model, batch):
        return cross_entropy(model(**batch.inputs)["scores"], batch.labels["kind"])

    task = cg.OwnTask(
        loss,
        {"right": lambda scores, kinds: (scores.argmax(1) == kinds).float().mean()},
        output=lambda model, inputs: model(**inputs)["scores"],
        pair=lambda scores, labels: (scores, labels["kind"]),
    )
    data = ({"left": X, "right": X.flip(0)}, {"kind": Y, "number": X[:, 0]})
    result = fit(Twins(), data, task=task)
    with torch.no_grad():
        right = (result.model(X, X)["scores"].argmax(1) == Y).float().mean()
    assert last(result, "right") == pytest.approx(float(right)) != 0
    assert result.records[-1].loss < 0.6 * result.records[0].loss


class Wrapped(nn.Module):
    """A linear model that hands out its scores in one way or another."""

    def __init__(self, wrap):
        super().__init__()
        torch.manual_seed(1)  # the same start, however the scores are handed out
        self.layer, self.wrap = nn.Linear(6, 2), wrap

    def forward(self, x):
        return self.wrap(self.layer(x))


WRAPS = {
    "a tuple": lambda scores: (scores, None),
    "a dict": lambda scores: {"loss": None, "logits": scores},
    "an object": lambda scores: SimpleNamespace(logits=scores),
}


@pytest.mark.parametrize("wrap", WRAPS)
def test_a_model_may_return_its_scores_in(wrap):
    plain, wrapped = (fit(Wrapped(one), (X, Y), steps=5) for one in (lambda scores: scores, WRAPS[wrap]))
    assert wrapped.records[-1].loss == pytest.approx(plain.records[-1].loss, rel=1e-6)
    assert wrapped.records[-1].accuracy == plain.records[-1].accuracy


def test_a_model_whose_scores_cannot_be_found_is_refused():
    with pytest.raises(ValueError, match="or a dict or object with `logits`; found a dict of a, b"):
        fit(Wrapped(lambda scores: {"a": scores, "b": scores}), (X, Y), steps=1)


def test_regression_has_metrics_and_targets_of_another_shape_are_refused():
    numbers = X @ torch.arange(6.0)[:, None]
    result = fit(nn.Linear(6, 1), (X, numbers), steps=200, lr=0.02)
    assert last(result, "r2") == pytest.approx(r2_score(numbers, result.model(X).detach()), rel=1e-4)
    assert last(result, "r2") > 0.9
    with pytest.raises(ValueError, match=r"labels' shape \(2,\); found \(2, 1\), .* y\[:, None\]"):
        fit(nn.Linear(6, 1), (X, numbers[:, 0]), steps=1)
    own = fit(nn.Linear(6, 1), (X, numbers[:, 0]), steps=1, loss=lambda output, labels: mse_loss(output[:, 0], labels))
    assert own.status == "ok"


def test_each_agent_is_measured_on_its_own_test_data():
    agents = [(X[k::4], Y[k::4]) for k in range(4)]
    tests = [(X[k::8], Y[k::8]) for k in range(4)]
    result = fit(nn.Linear(6, 2), agents, test=tests, steps=10, metrics=["balanced_accuracy"])
    values = result.records[-1].metrics["accuracy_own"]
    for agent, (inputs, labels) in enumerate(tests):
        own, averaged = result.agent_model(agent), result.model
        right = [float((model(inputs).argmax(1) == labels).double().mean()) for model in (own, averaged)]
        assert [values.agents[agent], values.averaged_on_each[agent]] == pytest.approx(right)
    assert values.averaged == pytest.approx(np.mean(values.averaged_on_each))
    assert (values.mean_agent, values.worst_agent) == (pytest.approx(np.mean(values.agents)), min(values.agents))
    assert result.records[-1].accuracy is None
    assert "balanced_accuracy_own_worst_agent" in result.records[-1].numbers()


def test_a_share_held_out_for_tests_is_not_trained_on():
    result = fit(nn.Linear(6, 2), (X, Y), own_test=0.25, steps=2)
    training = result.training
    assert [len(own) for own in training.own_test] == [10] * 4
    assert sum(training.sizes) == 120
    rows = {tuple(row.tolist()) for own in training.agents for row in own.inputs}
    assert rows.isdisjoint({tuple(row.tolist()) for own in training.own_test for row in own.inputs})
    assert result.records[-1].accuracy is not None
    assert result.records[-1].metrics["accuracy_own"].averaged is not None


def test_names_that_are_taken_are_refused():
    with pytest.raises(ValueError, match="'loss' is taken"):
        fit(nn.Linear(6, 2), (X, Y), metrics={"loss": lambda scores, targets: 0.0}, steps=1)
    with pytest.raises(ValueError, match="named like Python variables; one is 'my metric'"):
        fit(nn.Linear(6, 2), (X, Y), metrics={"my metric": lambda scores, targets: 0.0}, steps=1)


def test_the_confusion_matrix_is_in_the_records_of_every_agent():
    record = fit(nn.Linear(6, 2), (X, Y), metrics="confusion", steps=3).records[-1]
    table = record.metric_tables["confusion"]
    assert np.sum(table.averaged) == len(X)
    assert np.trace(table.averaged) / len(X) == pytest.approx(record.accuracy)
    assert [np.trace(one) / len(X) for one in table.agents] == pytest.approx(record.agent_accuracy)
    assert cg.Record.from_json(record.as_json()) == record
