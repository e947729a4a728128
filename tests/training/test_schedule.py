"""Step sizes against closed forms and against PyTorch's own schedules."""

import math

import pytest
import torch

from crossgrad._training.schedule import Constant, Cosine, Exponential, Step, WarmUp


def theirs(make, epochs):
    parameter = torch.nn.Parameter(torch.zeros(1))
    sgd = torch.optim.SGD([parameter], lr=0.1)
    schedule = make(sgd)
    rates = []
    for _ in range(epochs):
        rates.append(sgd.param_groups[0]["lr"])
        sgd.step()
        schedule.step()
    return rates


def test_exponential_and_step_equal_pytorchs():
    lr = torch.optim.lr_scheduler
    assert [Exponential(0.1, 0.9)(e, 0) for e in range(9)] == pytest.approx(
        theirs(lambda s: lr.ExponentialLR(s, 0.9), 9)
    )
    ours = [Step(0.1, (3.0, 6.0), 0.5)(e, 0) for e in range(9)]
    assert ours == pytest.approx(theirs(lambda s: lr.MultiStepLR(s, [3, 6], 0.5), 9))


def test_cosine_equals_pytorchs_and_ends_at_its_final_value():
    ours = [Cosine(0.1, 0.01)(0, k / 8) for k in range(9)]
    assert ours == pytest.approx(theirs(lambda s: torch.optim.lr_scheduler.CosineAnnealingLR(s, 8, 0.01), 9))
    assert ours[-1] == pytest.approx(0.01)


def test_decay_waits_for_a_whole_epoch():
    assert Exponential(1.0, 0.5)(0.99, 0) == 1.0
    assert Exponential(1.0, 0.5)(1.0, 0) == 0.5


def test_a_warm_up_grows_linearly_and_never_starts_at_nothing():
    schedule = WarmUp(4.0, Constant(1.0))
    assert [schedule(e, 0) for e in (1, 2, 4, 9)] == [0.25, 0.5, 1.0, 1.0]
    assert schedule(0, 0) > 0


@pytest.mark.parametrize("lr", [0.0, -1.0, math.nan, math.inf, 1e9])
@pytest.mark.parametrize("make", [Constant, Exponential, Step, Cosine])
def test_an_impossible_step_size_is_refused(make, lr):
    with pytest.raises(ValueError, match="step size lr must be above 0"):
        make(lr)


@pytest.mark.parametrize(
    "make",
    [
        lambda: Exponential(decay=0.0),
        lambda: Exponential(decay=1.1),
        lambda: Step(factor=0.0),
        lambda: Cosine(0.1, 0.2),
        lambda: WarmUp(0.0),
        lambda: WarmUp(math.nan),
    ],
)
def test_other_impossible_values_are_refused(make):
    with pytest.raises(ValueError, match="found"):
        make()
