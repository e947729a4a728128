"""Runs that diverge are noticed and end with their last good models; healthy ones are left alone."""

import math

import pytest
import torch
from torch import nn

import crossgrad as cg
from crossgrad._training.divergence import DivergenceJudge, DivergenceRule


def loss_on(model, samples):
    with torch.no_grad():
        return float(nn.functional.cross_entropy(model(samples.inputs), samples.labels))


class Explosive(nn.Module):
    """Fine at first; not finite once its weight has grown."""

    def __init__(self, limit):
        super().__init__()
        self.layer, self.limit = nn.Linear(4, 3), limit

    def forward(self, x):
        out = self.layer(x)
        return out * float("nan") if float(self.layer.weight.detach().abs().max()) > self.limit else out


@pytest.mark.filterwarnings("ignore:the run diverged")
def test_what_is_not_finite_ends_the_run_and_names_step_and_agent(run):
    torch.manual_seed(0)
    result = run(model=Explosive(0.7), steps=200, lr=0.005, evaluate_every=1)
    assert result.status == "nonfinite"
    assert "agent" in result.training.reason
    assert result.records[-1].status == "nonfinite"
    assert result.records[-1].step < 200
    assert all(torch.isfinite(p).all() for p in result.model.parameters())


def test_the_last_good_state_is_kept_after_divergence(run, blobs):
    torch.manual_seed(0)
    with pytest.warns(UserWarning, match="the run diverged: (exploded|nonfinite) at step .* kept"):
        result = run(cg.DPMSGD(0.98), lr=900.0, steps=60, evaluate_every=1)
    assert result.status in ("exploded", "nonfinite")
    start = result.records[0].loss
    good = [record for record in result.records if record.loss <= max(2 * start, start + 1)][-1]
    assert result.training.last_good_step == good.step
    assert loss_on(result.model, blobs()) == pytest.approx(good.loss, rel=1e-4)


RULE = DivergenceRule()


def status_of(losses, rule=RULE, every=10, total=200):
    """How a run with these losses, one evaluation each, ends."""
    judge = DivergenceJudge(rule)
    for number, loss in enumerate(losses):
        if judge.status == "ok":
            judge.update(loss, every * number, total, None)
    return judge.status


@pytest.mark.parametrize("scale", [0.01, 1.0, 73.0, 1e6])
def test_a_run_is_judged_by_its_own_start_whatever_its_losses_scale(scale):
    def end(*losses):
        return status_of([scale * loss for loss in losses])

    assert end(1, 0.5, 0.2) == "ok"
    assert end(1, 0.999, 0.998, 0.997, 0.996) == "ok", "a weak signal is no collapse"
    assert end(1, 90, 90, 1, 90, 90) == "ok", "it came back"
    assert end(1, 150, 150, 150) == ("exploded" if 149 * scale > 1 else "ok")
    assert end(1, math.nan) == end(math.inf) == "nonfinite"


def test_a_short_rise_does_not_end_a_run_that_is_evaluated_often():
    losses = [2, 9, 9, 9, 9, 9, 1]
    assert status_of(losses, every=1, total=1000) == "ok"
    assert status_of(losses, every=50, total=1000) == "exploded"
    assert status_of(losses, DivergenceRule(patience=6), every=50) == "ok"
    assert status_of([2, math.nan, 9, 9, 9, 9], rule=None) == "ok"


def test_without_a_rule_a_run_goes_on_to_its_end(run):
    result = run(cg.DPMSGD(0.98), lr=900.0, steps=60, evaluate_every=1, stop_if_diverged=False)
    assert result.status == "ok"
    assert result.records[-1].step == 60


@pytest.mark.parametrize(
    "loss",
    [nn.CrossEntropyLoss(reduction="sum"), lambda output, labels: 100 * nn.functional.cross_entropy(output, labels)],
)
def test_a_healthy_run_whose_loss_is_not_a_mean_is_trained(run, loss):
    """Such runs used to end as exploded, with the untrained model."""
    result = run(cg.DPSGD(), loss=loss, lr=1e-3, steps=60)
    assert result.status == "ok"
    assert result.records[-1].loss < 0.5 * result.records[0].loss


def test_a_weak_binary_signal_is_no_divergence():
    """Such runs used to end as collapsed."""
    torch.manual_seed(0)
    X = torch.randn(400, 2)
    y = torch.where(torch.rand(400) < 0.52, X[:, 0] > 0, X[:, 0] <= 0).long()
    result = cg.fit(nn.Linear(2, 2), (X, y), test=(X, y), graph=cg.ring(4), algorithm=cg.DPSGD(), lr=0.1, steps=240)
    assert result.status == "ok"
    assert result.records[-1].step == 240


class Stuck(nn.Module):
    """Learns, but always says the first class."""

    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(4, 3)

    def forward(self, x):
        return 0 * self.layer(x) + torch.tensor([1.0, 0.0, 0.0])


@pytest.mark.filterwarnings("ignore:all gradients of the first step are exactly zero")
def test_a_run_that_learns_nothing_ends_with_a_warning(run):
    with pytest.warns(UserWarning, match="after 120 steps the averaged model's loss .* not below"):
        result = run(model=Stuck(), steps=120, evaluate_every=10)
    assert result.status == "ok"
    with pytest.warns(UserWarning, match="The initial models are kept: no later ones were good"):
        run(cg.DPMSGD(0.98), lr=900.0, steps=60, evaluate_every=20)
