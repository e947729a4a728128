"""Training as people do it: options that are wrappers of the gradient or of the loop, so every algorithm has them."""

import inspect
import re
import warnings
from dataclasses import fields
from pathlib import Path

import pytest
import torch
from torch import nn
from torch.nn.functional import cross_entropy

import crossgrad as cg
from crossgrad._training.kept_models import EarlyStopping
from crossgrad._training.settings import TrainingSettings
from crossgrad._training.trainer import Training
from crossgrad.algorithms import ALGORITHMS, Needs
from crossgrad.data import Samples
from crossgrad.experiments.choices import TrainingChoice
from crossgrad.experiments.files import parse, to_toml
from crossgrad.optim import Decentralised


def agents(count=3, samples=8, features=4):
    generator = torch.Generator().manual_seed(1)
    return [
        Samples(torch.randn(samples, features, generator=generator), torch.arange(samples) % 3) for _ in range(count)
    ]


def a_training(algorithm=None, module=None, loss=None, data=None, validation=None, **options):
    torch.manual_seed(0)
    module = module or nn.Sequential(nn.Linear(4, 5), nn.Tanh(), nn.Linear(5, 3))
    defaults = {"schedule": cg.Constant(0.1), "batch_size": 8, "steps": 4, "dtype": torch.float64}
    settings = TrainingSettings(**(defaults | options))
    task = None if loss is None else cg.Classification(3, loss=loss)
    data, algorithm = data or agents(), algorithm or cg.DPSGD()
    graph = cg.chain(len(data)) if Needs.TREE in algorithm.needs else cg.ring(len(data))
    return Training(module, data, algorithm, graph, settings, None, task, validation=validation)


SMOOTH = [name for name in ALGORITHMS if not hasattr(ALGORITHMS[name](), "codec")]  # codecs make rounding errors large


@pytest.mark.parametrize("name", [*SMOOTH, "cga"])
def test_weight_decay_is_the_gradient_of_half_the_squared_norm(name):
    def penalised(output, labels):
        half = 0.5 * 0.3 * sum(p.square().sum() for p in module.parameters())
        return cross_entropy(output, labels) + half

    decayed = a_training(ALGORITHMS[name](), weight_decay=0.3, deterministic=True)
    module = nn.Sequential(nn.Linear(4, 5), nn.Tanh(), nn.Linear(5, 3))
    explicit = a_training(ALGORITHMS[name](), loss=penalised, deterministic=True)
    module = explicit.model.module
    for _ in range(4):
        decayed.step()
        explicit.step()
    torch.testing.assert_close(decayed.state.x, explicit.state.x, rtol=1e-9, atol=1e-11)


def test_clipping_bounds_the_step_of_an_agent_on_its_own():
    alone = agents(1)
    free, clipped = (a_training(data=alone, clip_norm=norm) for norm in (None, 0.01))
    before = free.state.x.clone()
    free.step()
    clipped.step()
    long, short = free.state.x - before, clipped.state.x - before
    torch.testing.assert_close(short.norm(), torch.tensor(0.1 * 0.01, dtype=torch.float64))
    torch.testing.assert_close(short / short.norm(), long / long.norm())


def test_gradients_below_the_bound_are_not_changed():
    free, clipped = a_training(cg.CGA()), a_training(cg.CGA(), clip_norm=1e6)
    free.step()
    clipped.step()
    assert torch.equal(free.state.x, clipped.state.x)


@pytest.mark.parametrize("pieces", [1, 3, 8])
def test_micro_batches_give_the_gradient_of_the_whole_batch(pieces):
    whole, accumulated = a_training(cg.CGA(), deterministic=True), a_training(cg.CGA(), micro_batch=pieces)
    for _ in range(3):
        whole.step()
        accumulated.step()
    torch.testing.assert_close(accumulated.state.x, whole.state.x, rtol=1e-9, atol=1e-12)
    assert torch.equal(whole.oracle.evaluations, accumulated.oracle.evaluations)


def test_under_autocast_layers_compute_in_bfloat16_and_models_keep_their_type():
    seen = []

    class Linear(nn.Linear):
        def forward(self, inputs):
            output = super().forward(inputs)
            seen.append((output.dtype, self.training))
            return output

    data = agents(3, samples=6)
    training = a_training(data=data, module=Linear(4, 3), autocast=True, dtype=torch.float32)
    training.step()
    assert {dtype for dtype, in_training in seen if in_training} == {torch.bfloat16}
    assert training.state.x.dtype == torch.float32
    seen.clear()
    record = training.evaluate()
    assert set(seen) == {(torch.bfloat16, False)}
    exact = a_training(data=data, module=Linear(4, 3), dtype=torch.float32)
    exact.state = training.state
    assert record.loss == pytest.approx(exact.evaluate().loss, rel=1e-2)


def test_a_run_ends_when_the_validation_loss_no_longer_falls_and_the_best_models_are_kept():
    data = agents(3, samples=6)
    generator = torch.Generator().manual_seed(9)
    other = Samples(torch.randn(30, 4, generator=generator), torch.randint(3, (30,), generator=generator))  # only noise
    training = a_training(
        data=data, steps=400, schedule=cg.Constant(1.0), evaluate_every=5, validation=[other] * 3,
        early_stopping=EarlyStopping(patience=3),
    )  # fmt: skip
    losses = [record.diagnostics["validation_loss"] for record in training]
    best = min(range(len(losses)), key=losses.__getitem__)
    assert training.step_number < 400
    assert training.status == "ok"
    assert len(losses) - 1 - best == 3
    training.keep_last_good()
    assert training.last_good_step == 5 * best
    model = training.averaged_model()
    found = cross_entropy(model(other.inputs.double()), other.labels).item()
    assert found == pytest.approx(losses[best], rel=1e-9)


def test_early_stopping_without_validation_data_is_refused():
    with pytest.raises(ValueError, match="needs validation data"):
        a_training(early_stopping=EarlyStopping())


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"weight_decay": -1.0}, "weight_decay must be at least 0"),
        ({"clip_norm": 0.0}, "clip_norm must be above 0"),
        ({"micro_batch": 0}, "micro_batch must be at least 1"),
    ],
)
def test_options_out_of_range_are_refused(options, words):
    with pytest.raises(ValueError, match=words):
        TrainingSettings(steps=1, **options)


# Gradients that never arrive


def test_a_scripted_module_learns():
    plain = nn.Sequential(nn.Linear(4, 5), nn.Tanh(), nn.Linear(5, 3))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        scripted = torch.jit.script(plain)
        one, other = a_training(module=plain, deterministic=True), a_training(module=scripted, deterministic=True)
        for _ in range(4):
            one.step()
            other.step()
    torch.testing.assert_close(other.state.x, one.state.x)
    assert not torch.equal(one.state.x[0], one.model.start)


def test_a_loss_without_a_gradient_is_refused_at_the_first_step():
    training = a_training(loss=lambda output, labels: cross_entropy(output.detach(), labels), deterministic=True)
    with pytest.raises(ValueError, match="no gradient reaches them"):
        training.step()


def test_gradients_that_are_all_zero_are_told_at_the_first_step():
    training = a_training(loss=lambda output, labels: cross_entropy(output.detach(), labels) + 0 * output.sum())
    with pytest.warns(UserWarning, match="exactly zero"):
        training.step()


# Frozen parameters


@pytest.mark.parametrize("name", ["dpsgd", "cga", "compcga", "sgp"])
def test_only_trainable_parameters_travel_and_change(name):
    module = nn.Sequential(nn.Linear(4, 50), nn.Tanh(), nn.Linear(50, 3))
    module[0].requires_grad_(False)
    training = a_training(ALGORITHMS[name](), module=module)
    training.step()
    trainable = 50 * 3 + 3
    sent = training.traffic.by_kind()["model"] / (3 * 2)  # three agents with two neighbours each
    assert sent == trainable * 8
    assert torch.equal(training.averaged_model()[0].weight, module[0].weight.double())
    assert not torch.equal(training.averaged_model()[2].weight, module[2].weight.double())


def test_an_experiment_file_has_the_same_options():
    text = """agents=3\npartition='iid'\nmodel={name='mlp', hidden=[4]}\ngraph='ring'\nalgorithm='dpsgd'
    training={steps=4, weight_decay=0.1, clip_norm=1.0, micro_batch=8, autocast=true, validation=0.1, patience=2}"""
    experiment = parse(text)
    assert parse(to_toml(experiment)) == experiment
    training = experiment.start()
    chosen = training.settings
    assert (chosen.weight_decay, chosen.clip_norm, chosen.micro_batch, chosen.autocast) == (0.1, 1.0, 8, True)
    assert chosen.early_stopping == EarlyStopping(2)
    for own, held in zip(training.agents, training.validation, strict=True):
        assert len(own) == pytest.approx(9 * len(held), abs=9)
    with pytest.raises(ValueError, match="patience needs a validation share"):
        parse(text.replace("validation=0.1, ", ""))


def test_the_page_names_options_that_fit_experiment_files_and_optimisers_have():
    page = (Path(__file__).parents[2] / "docs" / "distributed.md").read_text()
    rows = [line.split("|") for line in page.splitlines() if line.startswith("| ") and line.count("|") == 5]
    table = rows[next(number for number, row in enumerate(rows) if "weight decay" in row[1]) :]
    fit, files, optimiser = (
        {word for row in table for word in re.findall(r"`(?:training\.|data\.)?([a-z_]+)`", row[column])}
        for column in (2, 3, 4)
    )
    assert fit <= set(inspect.signature(cg.fit).parameters)
    assert files - {"schedule", "callbacks", "augment"} <= {field.name for field in fields(TrainingChoice)}
    assert optimiser <= set(inspect.signature(Decentralised).parameters)
    assert {"weight_decay", "clip_norm", "personal", "frozen", "start"} <= fit & files & optimiser
