"""A run ends once the averaged model's accuracy on the test data no longer moves."""

import pytest
import torch
from torch import nn

import crossgrad as cg
from crossgrad._training.settings import TrainingSettings
from crossgrad._training.trainer import Training
from crossgrad.data import Samples
from crossgrad.experiments.files import parse, to_toml
from crossgrad.records.settled import SettledRule

TEXT = """agents=3\npartition='iid'\nmodel={name='mlp', hidden=[4]}\ngraph='ring'\nalgorithm='dpsgd'
training={steps=4, settled_points=0.5, settled_epochs=2}"""


def a_training(rule, with_test=True):
    """16 samples in two steps of each of 3 agents: an epoch is 2 steps, and there is an evaluation after each."""
    generator = torch.Generator().manual_seed(1)
    data = [Samples(torch.randn(16, 4, generator=generator), torch.arange(16) % 3) for _ in range(3)]
    torch.manual_seed(0)
    settings = TrainingSettings(cg.Constant(0.5), batch_size=8, epochs=40.0, evaluate_every=2, settled=rule)
    return Training(nn.Linear(4, 3), data, cg.DPSGD(), cg.ring(3), settings, data[0] if with_test else None)


def test_a_run_ends_at_the_first_evaluation_at_which_its_accuracy_has_settled():
    whole, rule = list(a_training(None)), SettledRule(points=7.0, epochs=4.0)
    training = a_training(rule)
    records = list(training)
    percent = [100 * record.accuracy for record in whole[1:]]  # the start does not count
    moved = [max(five) - min(five) for five in (percent[end - 5 : end] for end in range(5, len(percent) + 1))]
    first = next(end for end, points in enumerate(moved, 5) if points < rule.points)
    assert 5 < first < len(percent)
    assert [record.accuracy for record in records] == [record.accuracy for record in whole[: first + 1]]
    assert (training.status, training.finished, training.step_number) == ("ok", True, 2 * first)


def test_a_run_that_is_taken_up_again_ends_where_it_would_have_ended():
    rule = SettledRule(points=7.0, epochs=4.0)
    whole, first, second = a_training(rule), a_training(rule), a_training(rule)
    end = list(whole)[-1]
    iterator = iter(first)
    for _ in range(4):
        next(iterator)
    second.load_state_dict(first.state_dict())
    while not second.finished:
        second.step()
        if second.due:
            second.evaluate()
    assert second.step_number == end.step


def test_without_test_data_a_run_cannot_settle():
    with pytest.raises(ValueError, match="needs test data; found none"):
        a_training(SettledRule(), with_test=False)


def test_an_experiment_file_says_when_a_run_has_settled():
    experiment = parse(TEXT)
    assert parse(to_toml(experiment)) == experiment
    assert experiment.settings().settled == SettledRule(0.5, 2.0)
    assert parse(TEXT.replace(", settled_epochs=2", "")).settings().settled == SettledRule(0.5, 3.0)
    assert parse(TEXT.replace(", settled_points=0.5, settled_epochs=2", "")).settings().settled is None


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (("settled_points=0.5, ", ""), "settled_epochs needs settled_points"),
        (("=0.5", "=0"), "points above 0 and finite; found 0"),
        (("epochs=2", "epochs=-1"), "epochs above 0 and finite; found -1"),
    ],
)
def test_a_rule_that_makes_no_sense_is_refused(change, words):
    with pytest.raises(ValueError, match=words):
        parse(TEXT.replace(*change))
