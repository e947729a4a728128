"""The validation part of an experiment's data: where it comes from, and what is measured on it."""

import numpy as np
import pytest
import torch

from crossgrad.data import load
from crossgrad.data.join import joined
from crossgrad.data.lazy import LazySamples
from crossgrad.experiments import parse

TEXT = """agents = 4
partition = "class"
model = { name = "mlp", hidden = [8] }
graph = "ring"
algorithm = "dpsgd"
schedule = { name = "constant", lr = 0.5 }
training = { steps = 4, evaluate_every = 4, validation = 0.25, threads = 1 }
"""


def rows(samples):
    """The samples as texts of bytes, with how often each occurs."""
    flat = np.concatenate([samples.inputs.flatten(1).numpy(), samples.labels[:, None].numpy()], axis=1)
    return sorted(row.tobytes() for row in flat.astype(np.float64))


def test_training_and_validation_parts_together_are_the_training_data_and_the_test_part_is_untouched():
    data = load("digits")
    agents = parse(TEXT).deal(data)
    together = [row for part in (*agents.train, *agents.validation) for row in rows(part)]
    assert sorted(together) == rows(data.train)
    assert rows(agents.pooled_validation) == sorted(row for part in agents.validation for row in rows(part))


def test_every_agent_holds_out_a_share_of_its_own_samples():
    agents = parse(TEXT).deal(load("digits"))
    for train, held in zip(agents.train, agents.validation, strict=True):
        assert len(held) == round(0.25 * (len(train) + len(held)))
        assert set(held.labels.tolist()) <= set(train.labels.tolist())


def test_the_validation_part_depends_on_the_seed_alone():
    data = load("digits")
    one, again, other = (parse(TEXT, [f"seed={seed}"]).deal(data).pooled_validation for seed in (0, 0, 1))
    assert torch.equal(one.inputs, again.inputs)
    assert rows(one) != rows(other)


def test_records_have_the_accuracies_on_all_agents_validation_data():
    training = parse(TEXT).start()
    *_, record = training
    pooled = training.pooled_validation

    def accuracy(module):
        return float((module(pooled.inputs).argmax(dim=1) == pooled.labels).double().mean())

    each = [accuracy(training.agent_model(agent)) for agent in range(4)]
    found = record.diagnostics
    assert found["validation_accuracy"] == pytest.approx(accuracy(training.averaged_model()))
    assert found["validation_mean_agent"] == pytest.approx(sum(each) / 4)
    assert found["validation_worst_agent"] == pytest.approx(min(each))
    assert min(each) < max(each)


def test_records_of_runs_without_validation_data_or_without_accuracy_lack_them():
    *_, record = parse(TEXT, ["training={steps=1, threads=1}"]).start()
    assert not any(name.startswith("validation") for name in record.diagnostics)


def test_parts_of_one_data_set_that_is_read_when_needed_are_joined_without_reading_them():
    class Unreadable(torch.utils.data.Dataset):
        def __len__(self):
            return 6

        def __getitem__(self, index):
            raise AssertionError("it was read")

    whole = LazySamples(Unreadable())
    parts = [LazySamples(whole.source, indices=np.array(indices)) for indices in ([0, 4], [5])]
    assert joined(parts).indices.tolist() == [0, 4, 5]
