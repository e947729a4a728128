"""The program around a training: other threads, and PyTorch set in ways in which nothing can be trained."""

import copy
import os
import sys
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest
import torch
from torch import nn

import crossgrad as cg

CHANCE = torch.Generator().manual_seed(0)
X, Y = torch.randn(30, 4, generator=CHANCE), torch.arange(30) % 3


def fit(model=None, data=(X, Y), **options):
    return cg.fit(model or nn.Linear(4, 3), data, graph=cg.ring(3), progress=False, **{"steps": 2} | options)


MODEL = nn.Sequential(nn.Linear(4, 8), nn.Dropout(0.5), nn.Linear(8, 3))


def with_dropout(seed):
    """The averaged parameters of a short training with dropout."""
    made = fit(copy.deepcopy(MODEL), steps=15, batch_size=5, seed=seed)
    return torch.cat([p.detach().flatten() for p in made.model.parameters()])


def test_dropout_in_several_threads_gave_other_numbers_than_alone():
    alone = [with_dropout(seed) for seed in range(4)]
    before, switch = torch.get_rng_state(), sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    try:
        with ThreadPoolExecutor(4) as threads:
            together = list(threads.map(with_dropout, range(4)))
    finally:
        sys.setswitchinterval(switch)
    assert all(torch.equal(one, other) for one, other in zip(alone, together, strict=True))
    assert not torch.equal(alone[0], alone[1])
    assert torch.equal(torch.get_rng_state(), before)


class AlwaysDropout(nn.Linear):
    def forward(self, x):
        return super().forward(nn.functional.dropout(x, 0.5))  # in evaluations, too


def test_evaluations_of_a_model_that_draws_in_them_depended_on_the_programs_generator():
    model, records = AlwaysDropout(4, 3), []
    for seed in (1, 2):
        torch.manual_seed(seed)
        before = torch.get_rng_state()
        made = fit(model, test=(X, Y), evaluate_every=1)
        assert torch.equal(torch.get_rng_state(), before)
        records.append([(one.loss, one.test_loss, one.accuracy) for one in made.records])
    assert records[0] == records[1]


def test_inference_mode_is_named():
    model = nn.Linear(4, 3)
    with torch.inference_mode(), pytest.raises(ValueError, match=r"found torch\.inference_mode\(\) switched on"):
        fit(model)


def test_a_meta_default_device_gave_a_traceback():
    model = nn.Linear(4, 3)
    with torch.device("meta"), pytest.raises(ValueError, match="found the device 'meta'"):
        fit(model)


def test_a_model_on_the_meta_device_gave_a_traceback():
    with pytest.raises(ValueError, match="found the device 'meta'"):
        fit(nn.Linear(4, 3, device="meta"))
    model = nn.Linear(4, 3)
    model.register_buffer("noted", torch.zeros(2, device="meta"))
    with pytest.raises(ValueError, match="found the device 'meta'"):
        fit(model)


@pytest.mark.filterwarnings("ignore:Sparse CSR")
@pytest.mark.parametrize("sparse", [torch.Tensor.to_sparse, torch.Tensor.to_sparse_csr])
def test_sparse_inputs_gave_a_traceback(sparse):
    with pytest.raises(ValueError, match=r"must be dense tensors; found torch\.sparse_"):
        fit(data=(sparse(X), Y))


@pytest.mark.filterwarnings("ignore:torch.quantize_per_tensor")
@pytest.mark.filterwarnings("ignore:The PyTorch API of nested tensors")
def test_data_on_the_meta_device_quantised_or_nested_gave_a_traceback():
    quantised = torch.quantize_per_tensor(X, 0.1, 0, torch.quint8)
    nested = torch.nested.nested_tensor(list(X), layout=torch.jagged)
    for data, found in (
        ((X.to("meta"), Y), "found the device 'meta'"),
        ((X, Y.to("meta")), "found the device 'meta'"),
        ((quantised, Y), "found a quantised tensor"),
        ((nested, Y), r"found (a nested tensor|torch\.jagged)"),
    ):
        with pytest.raises(ValueError, match=found):
            fit(data=data)


@pytest.mark.parametrize("loss", [nn.functional.cross_entropy, nn.CrossEntropyLoss()])
def test_float_labels_with_cross_entropy_gave_a_traceback(loss):
    with pytest.raises(ValueError, match=r"cross-entropy takes classes .* Convert classes by y\.long\(\)"):
        fit(data=(X, Y.float()), loss=loss)


def test_probabilities_with_cross_entropy_are_learnt_from():
    fit(data=(X, nn.functional.one_hot(Y).float()), loss=nn.functional.cross_entropy)


class Locked(nn.Linear):
    def __init__(self):
        super().__init__(4, 3)
        self.lock = threading.Lock()


@pytest.mark.filterwarnings("ignore:.*weight_norm. is deprecated")
@pytest.mark.parametrize("make", [Locked, lambda: nn.utils.weight_norm(nn.Linear(4, 3))], ids=["lock", "weight norm"])
def test_a_model_that_cannot_be_copied_gave_a_traceback(make):
    with pytest.raises(ValueError, match=r"the model must be one that copy\.deepcopy can copy; found this fault: "):
        fit(make())


def test_a_pipe_to_start_from_was_waited_for_for_ever(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(ValueError, match=r"start must be a safetensors file, .*pipe is a folder, a pipe"):
        fit(start=tmp_path / "pipe")
