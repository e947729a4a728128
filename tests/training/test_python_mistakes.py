"""Mistakes in Python get a sentence, or are no mistakes."""

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn.functional import cross_entropy, l1_loss

import crossgrad as cg

X = torch.randn(12, 4, generator=torch.Generator().manual_seed(0))
DATA = X, torch.arange(12) % 3


def fit(model=None, data=DATA, **options):
    options = {"graph": cg.ring(3), "steps": 1, "progress": False} | options
    return cg.fit(nn.Linear(4, 3) if model is None else model, data, **options)


@pytest.mark.parametrize("options", [{"batch_size": None}, {"batch_size": 8.0}, {"batch_size": "8"}, {"steps": 3.5}])
def test_a_number_of_samples_or_steps_that_is_not_whole_gave_a_traceback(options):
    with pytest.raises(ValueError, match="must be a whole number"):
        fit(**options)


def test_a_sparse_buffer_gave_a_traceback():
    model = nn.Linear(4, 3)
    model.register_buffer("edges", torch.eye(3).to_sparse())
    with pytest.raises(ValueError, match=r"buffers must be dense tensors.* 'edges' is torch.sparse_coo"):
        fit(model)


def test_metrics_of_a_task_of_ones_own_may_be_a_dict_under_either_name():
    def loss(model, batch):
        return cross_entropy(model(batch.inputs), batch.labels)

    def wrong(scores, targets):
        return float((scores.argmax(1) != targets).double().mean())

    one, other = cg.OwnTask(loss, {"wrong": wrong}), cg.OwnTask(loss, metrics={"wrong": wrong})
    assert [metric.name for metric in one.metrics] == [metric.name for metric in other.metrics] == ["wrong"]
    assert "wrong" in fit(task=other, test=DATA).records[-1].metrics


def test_inputs_and_labels_as_a_list_were_taken_for_two_agents():
    assert sum(fit(data=list(DATA), test=list(DATA)).training.sizes) == 12


def test_a_step_size_of_one_number_may_be_of_any_kind():
    start = nn.Linear(4, 3)
    models = [fit(start, lr=lr).model for lr in (0.5, np.float32(0.5), torch.tensor(0.5))]
    assert all(torch.equal(model.weight, models[0].weight) for model in models)


def test_a_robust_rule_by_its_name_or_class_gave_a_traceback():
    for rule in ("coordinate-median", cg.guards.CoordinateMedian):
        assert fit(robust=rule).training.settings.robust == cg.guards.CoordinateMedian()


def test_a_torch_device_gave_a_traceback():
    fit(device=torch.device("cpu"))


def test_whole_numbers_of_numpy_were_refused():
    assert fit(batch_size=np.int64(4), steps=np.int64(2)).training.step_number == 2


@pytest.mark.parametrize("algorithm", ["dpsgd", cg.DPSGD, cg.DPSGD()], ids=["name", "class", "object"])
def test_an_algorithm_by_its_name_or_class_gave_a_traceback(algorithm):
    assert fit(algorithm=algorithm).training.algorithm == cg.DPSGD()


@pytest.mark.parametrize("name", ["iid", "class"])
def test_a_partition_by_its_name_gave_a_traceback(name):
    assert sum(fit(partition=name).training.sizes) == 12


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"graph": "ring"}, "found the name 'ring'"),
        ({"graph": 3}, "found a int. Make one by"),
        ({"graph": None}, "found None. Make one by"),
        ({"algorithm": "cg"}, "there is no algorithm 'cg'. Did you mean 'cga'. Choose one of"),
        ({"algorithm": torch.optim.SGD}, "found the class SGD. A rule of torch.optim goes into"),
        ({"seed": None}, "seed must be a whole number"),
        ({"dtype": "float32"}, "dtype must be a floating-point type"),
        ({"task": "classify"}, "there is no task 'classify'"),
        ({"task": cg.Classification}, "task must be one such as"),
        ({"loss": nn.CrossEntropyLoss}, r"Pass an object of the class: CrossEntropyLoss\(\)"),
        ({"loss": "mse"}, "loss must be a function"),
        ({"augment": lambda inputs: inputs}, "augment must be a function of a batch's inputs and"),
        ({"augment": "flip"}, "there is no augmentation 'flip'"),
        ({"start": "none.safetensors"}, "start must be a safetensors file"),
        ({"faults": {"drop": 0.1}}, r"faults must be a crossgrad.Faults\(...\); found a dict"),
        ({"model": nn.Linear}, "model must be a torch.nn.Module; found the class Linear"),
        ({"data": {"a": DATA, "b": DATA}}, r"pass list\(data.values\(\)\)"),
        ({"data": {"train": DATA, "test": DATA}}, r"Pass that part, data\['train'\], and the one for tests by test="),
        ({"data": (DATA, DATA, DATA)}, "for one data set per agent pass a list"),
        ({"data": lambda: iter([(X[0], 0)])}, "a list with one stream per agent"),
        ({"lr": lambda epoch: float("nan")}, "step size must be finite"),
        ({"lr": lambda epoch: "x"}, "the step size must be a number; that of epoch 0 is 'x'"),
        ({"steps": None, "epochs": "3"}, "epochs must be a number; found '3'"),
        ({"weight_decay": None}, "weight_decay must be a number; found None"),
        ({"clip_norm": "1"}, "clip_norm must be a number; found '1'"),
        ({"autocast": "yes"}, "autocast must be True or False; found 'yes'"),
        ({"stop_if_diverged": "no"}, "stop_if_diverged must be True or False"),
        ({"validation": 0.3, "patience": "2"}, "a patience that is a whole number"),
        ({"personal": 3}, "personal must be names of parameters or modules"),
        ({"frozen": [3]}, "frozen must be names of parameters or modules"),
        ({"out": 3}, "out must be a folder's name; found 3"),
        ({"on_step": 3}, "on_step must be a function; found 3"),
        ({"on_record": "x"}, "on_record must be a function; found 'x'"),
        ({"robust": 3}, "robust must be an object of crossgrad.guards, or its name"),
        ({"privacy": "gaussian"}, "Did you mean 'gaussian-noise'"),
        ({"algorithm": "CGA"}, "Did you mean 'cga'"),
        ({"model": nn.LazyLinear(3)}, r"has lazy layers.* Call it once on a few"),
        ({"data": (X, DATA[1][:, None])}, r"Make it one number per sample by y\[:, 0\]"),
        ({"data": (X, DATA[1].float())}, r"If the labels are classes, convert them by y.long\(\)"),
        ({"lr": lambda epoch: -1.0}, "step size must be finite and not negative"),
    ],
)
def test_what_gave_a_traceback_gets_a_sentence(options, sentence):
    with pytest.raises(ValueError, match=sentence):
        fit(**options)


@pytest.mark.parametrize(
    "loss", [nn.CrossEntropyLoss(reduction="none"), lambda outputs, labels: cross_entropy(outputs, labels).item()]
)
def test_a_loss_that_is_not_one_tensor_with_one_number_gave_a_traceback(loss):
    with pytest.raises(ValueError, match="must be a tensor with one number"):
        fit(loss=loss)


@pytest.mark.parametrize("loss", [None, l1_loss, nn.HuberLoss(), nn.SmoothL1Loss()])
def test_labels_of_n_were_compared_crosswise_with_outputs_of_n_by_1(loss):
    with pytest.raises(ValueError, match="crosswise"):
        fit(nn.Linear(4, 1), (X, X[:, 0]), loss=loss)


def test_a_loss_that_refuses_the_shapes_gave_a_sentence_of_pytorch_alone():
    with pytest.raises(ValueError, match=r"the loss cannot be taken of outputs of shape \(2, 1\) and labels"):
        fit(nn.Linear(4, 1), (X, X[:, 0]), loss=nn.BCEWithLogitsLoss())


@pytest.mark.parametrize("metric", ["r2", "perplexity"])
def test_a_metric_that_does_not_suit_the_task_is_named(metric):
    both = X, X[:, :3] > 0
    with pytest.raises(ValueError, match=f"the metric '{metric}' must suit the task; it fails on scores and targets"):
        fit(test=DATA, metrics=["r2"]) if metric == "r2" else fit(
            data=both, task="multi-label", test=both, metrics=[metric]
        )


def test_metrics_without_test_data_were_left_out_silently():
    with pytest.warns(UserWarning, match="metrics are measured on test data; found none"):
        fit(metrics=["auroc"])


def test_accuracy_by_name_is_that_of_the_task():
    both = X, X[:, :3] > 0
    fitted = fit(data=both, task=cg.MultiLabel(3), test=both, metrics=["accuracy", "auroc"])
    right = (fitted.model(X) > 0) == both[1]
    assert fitted.records[-1].accuracy == pytest.approx(float(right.float().mean()))
