"""Mistakes in algorithms, codecs, augmentations and tasks of one's own are said in a sentence before a run begins."""

import random
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import numpy as np
import pytest
import torch
from torch import Tensor, nn

import crossgrad as cg
from crossgrad._cli.describe import describe
from crossgrad._training.settings import TrainingSettings
from crossgrad._training.trainer import Training
from crossgrad._training.validate import check_augment
from crossgrad.algorithms import Gossip
from crossgrad.algorithms.api import Diagnostic
from crossgrad.codecs import CODECS, Exact, Quantised, random_bits
from crossgrad.codecs.codec import measured_error
from crossgrad.data import Samples
from crossgrad.data.augment import augmented
from crossgrad.records.settled import SettledRule
from crossgrad.tasks import METRICS

OF_NO_SEED = np.random.default_rng()


class Silent(NamedTuple):
    x: Tensor


class Noted(NamedTuple):
    x: Tensor
    diagnostics: Tensor


@dataclass(frozen=True)
class Counting(cg.DPSGD):
    """DPSGD that declares two diagnostics, and keeps so many."""

    columns: int | None = 2
    diagnostics: ClassVar[tuple[Diagnostic, ...]] = (Diagnostic("length", "of steps"), Diagnostic("turns", "of steps"))

    def init(self, x: Tensor, net: Any) -> Any:
        return Silent(x) if self.columns is None else Noted(x, torch.ones(len(x), self.columns, dtype=torch.float64))


@dataclass(frozen=True)
class OneString(cg.DPSGD):
    kinds: ClassVar[Any] = "drift"


class WithoutNeeds:
    def init(self, x, net): ...

    def step(self, s, lr, grad, net): ...


def a_training(algorithm=None, task=None, augment=None, settled=None, images=False):
    generator = torch.Generator().manual_seed(0)
    shape = (12, 1, 2, 4) if images else (12, 4)
    data = [Samples(torch.randn(*shape, generator=generator), torch.arange(12) % 2) for _ in range(3)]
    settings = TrainingSettings(cg.Constant(0.1), batch_size=4, steps=2, settled=settled)
    model = nn.Sequential(nn.Flatten(), nn.Linear(8 if images else 4, 2))
    return Training(model, data, algorithm or cg.DPSGD(), cg.ring(3), settings, data[0], task, augment=augment)


@pytest.mark.parametrize(("columns", "found"), [(None, "found none"), (1, r"found one of shape \(3, 1\)")])
def test_declared_diagnostics_that_the_state_lacks_are_named(columns, found):
    with pytest.raises(ValueError, match=rf"diagnostics \(length, turns\).* its 3 agents .*{found}"):
        a_training(Counting(columns)).evaluate()


def test_declared_diagnostics_that_the_state_has_are_in_the_record():
    assert a_training(Counting()).evaluate().diagnostics == pytest.approx({"length": 1.0, "turns": 1.0})


def test_kinds_of_message_that_are_one_string_are_refused_whole():
    with pytest.raises(ValueError, match=r"a tuple of names; found 'drift'. Write \('drift',\)"):
        a_training(OneString())


def test_an_algorithm_that_lacks_its_needs_is_told_so():
    data = (torch.randn(12, 4), torch.arange(12) % 2)
    with pytest.raises(ValueError, match=r"found a WithoutNeeds. It lacks needs"):
        cg.fit(nn.Linear(4, 2), data, graph=cg.ring(3), algorithm=WithoutNeeds(), steps=1)


@dataclass(frozen=True)
class EverySecond:
    """Every second number, doubled: unbiased, and its square error is as large as the message."""

    feedback: bool = False
    kind: ClassVar[str] = "code"

    def encode(self, p, sizes):
        first = torch.tensor([[random_bits(row, 0).random_raw() % 2] for row in p.numpy()], dtype=torch.uint8)
        return torch.stack([2 * row[int(odd) :: 2] for row, odd in zip(p, first, strict=True)]), first

    def decode(self, wire, sizes):
        rows = torch.zeros(len(wire[0]), sum(sizes))
        for row, values, first in zip(rows, *wire, strict=True):
            row[int(first) :: 2] = values
        return rows


@dataclass(frozen=True)
class Stated(EverySecond):
    def relative_error(self, numbers: int) -> float:
        return 1.0


def test_gossip_refuses_an_unbiased_codec_with_which_copies_would_run_away():
    """It was taken with gamma = 1, and the run diverged without a word about the codec."""
    with pytest.raises(ValueError, match=r"EverySecond loses 1 times the square of normal numbers.*relative_error"):
        Gossip(EverySecond()).around(cg.DPSGD())


def test_gossip_takes_such_a_codec_where_gamma_is_chosen_or_follows_from_its_error():
    assert Gossip(EverySecond(), gamma=0.1).around(cg.DPSGD()).gossip.gamma == 0.1
    with pytest.raises(ValueError, match=r"no step size of the gossip is safe.*a finer codec"):
        a_training(Gossip(Stated()).around(cg.DPSGD())).step()


@pytest.mark.parametrize("name", [name for name, codec in CODECS.items() if codec is not Quantised])
def test_gossip_takes_every_codec_of_crossgrad_without_a_gamma(name):
    assert measured_error(CODECS[name]()) < 1.0
    Gossip(CODECS[name](), rounds=2).around(cg.DPSGD())


def test_the_measured_error_is_that_of_the_formula():
    bits = Quantised(bits=5)
    assert measured_error(Exact()) == 0.0
    assert measured_error(bits) == pytest.approx(bits.relative_error(4096), rel=0.5)


@pytest.mark.parametrize(
    ("augment", "sentence"),
    [
        (lambda inputs, generator: inputs[:2], r"as many samples as it gets.* \(8, 1, 2, 4\) and returned .*\(2, 1"),
        (lambda inputs, generator: inputs.double(), "returned torch.float64"),
        (lambda inputs, generator: None, "returned a NoneType"),
        (lambda inputs, generator: inputs + OF_NO_SEED.standard_normal(), "two results for equal seeds"),
        (
            lambda inputs, generator: torch.cat([inputs, inputs.mT], dim=1),
            "an augmentation must take the data's inputs; it fails on shape",
        ),
    ],
    ids=["fewer", "type", "nothing", "no seed", "error"],
)
def test_an_augmentation_that_cannot_be_repeated_or_used_is_refused_before_the_run(augment, sentence):
    with pytest.raises(ValueError, match=sentence):
        a_training(augment=augment, images=True)


def test_an_augmentation_of_another_library_draws_from_global_generators_and_is_repeated():
    """Transforms of torchvision and others take no generator."""

    def noisy(inputs, generator):
        return inputs * (torch.rand(1) + np.random.rand() + random.random())

    check_augment(noisy, Samples(torch.ones(4, 2), torch.zeros(4, dtype=torch.int64)))
    draws = [augmented(noisy, torch.ones(1), seed) for seed in (1, 2, 1)]
    assert torch.equal(draws[0], draws[2])
    assert not torch.equal(draws[0], draws[1])


def test_an_augmentation_is_tried_without_a_trace():
    """Neither the samples nor PyTorch's own generator change."""
    samples, state = Samples(torch.ones(4, 2), torch.zeros(4, dtype=torch.int64)), torch.get_rng_state()
    check_augment(lambda inputs, generator: inputs.add_(0 * torch.rand(1)), samples)
    assert torch.equal(torch.get_rng_state(), state)
    check_augment(lambda inputs, generator: inputs.add_(1), samples)
    assert bool((samples.inputs == 1).all())


def own_task(**metrics):
    return cg.OwnTask(lambda model, batch: nn.functional.cross_entropy(model(batch.inputs), batch.labels), metrics)


def test_a_metric_by_class_of_a_task_without_classes_is_refused():
    """It ended in PyTorch's error about a reshape of no elements."""
    with pytest.raises(
        ValueError, match="confusion has a number for each class, so it needs their number; OwnTask does not say"
    ):
        a_training(task=own_task(confusion=METRICS["confusion"]))


def test_a_run_that_is_to_settle_needs_a_task_with_an_accuracy():
    """Without one it never settled, and did not say so."""
    with pytest.raises(ValueError, match="settled_points needs a test accuracy; OwnTask measures none"):
        a_training(task=own_task(), settled=SettledRule())
    a_training(task=own_task(accuracy=METRICS["accuracy"]), settled=SettledRule())


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("perplexity", "worst agent is the one with the highest"),
        ("confusion", "each pair of classes"),
        ("auroc", "AUROC. One number, in percent"),
    ],
)
def test_a_metric_is_described_by_what_it_measures_and_not_by_the_fields_of_its_class(name, words):
    text = describe(name, METRICS[name])
    assert words in text
    assert "Attributes" not in text
    assert "needed" not in text
