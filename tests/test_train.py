"""Whole runs: the same bits from the same seed, honest records, and divergence that is noticed."""

import math

import pytest
import torch
from torch import nn

import crossgrad as cg
from crossgrad._training.divergence import DivergenceJudge, DivergenceRule
from crossgrad.algorithms import ALGORITHMS, Needs
from crossgrad.data import Samples


def mlp():
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 3))


def run(blobs, algorithm=None, model=None, agents=4, **options):
    options = {"steps": 20, "lr": 0.05, "batch_size": 8, "test": blobs(60, seed=7)} | options
    algorithm = algorithm or cg.CGA(0.9)
    graph = cg.chain(agents) if Needs.TREE in algorithm.needs else cg.ring(agents)
    return cg.fit(
        model or mlp(), options.pop("data", None) or blobs(), graph=options.pop("graph", graph),
        partition=options.pop("partition", cg.ByClass()),
        algorithm=algorithm, **options,
    )  # fmt: skip


def loss_on(model, samples):
    with torch.no_grad():
        return float(nn.functional.cross_entropy(model(samples.inputs), samples.labels))


def bits(result):
    return [p.detach().clone() for p in result.model.state_dict().values()]


@pytest.mark.parametrize("name", ALGORITHMS)
def test_the_same_seed_gives_the_same_bits_and_another_seed_others(blobs, name):
    one, two, other = (run(blobs, ALGORITHMS[name](), seed=seed, steps=6) for seed in (3, 3, 4))
    assert all(torch.equal(a, b) for a, b in zip(bits(one), bits(two), strict=True))
    assert not all(torch.equal(a, b) for a, b in zip(bits(one), bits(other), strict=True))
    for a, b in zip(one.records, two.records, strict=True):
        assert a.as_json() | {"seconds": 0} == b.as_json() | {"seconds": 0}


@pytest.mark.parametrize("name", ALGORITHMS)
def test_every_algorithm_learns_separable_data_split_by_class(blobs, name):
    if name == "torch-optim":
        pytest.skip("Adam's moments, each agent's own, keep a bias where data is unlike")
    algorithm = ALGORITHMS[name]()
    if hasattr(algorithm, "momentum"):
        algorithm = type(algorithm)(**{**algorithm.__dict__, "momentum": 0.5})
    lr = 0.01 if name in ("qg-adam", "gtadam") else 0.1  # Adam's step hardly depends on the gradient
    graph = cg.star(3) if Needs.TREE in algorithm.needs else cg.fully_connected(3)
    result = run(blobs, algorithm, agents=3, steps=120, lr=lr, graph=graph)
    assert result.status == "ok"
    assert result.records[-1].accuracy > 0.9


def test_adam_learns_where_data_is_alike(blobs):
    model, options = mlp(), {"steps": 60, "lr": 0.02, "batch_size": 8, "test": blobs(60, seed=7)}
    result = cg.fit(
        model, blobs(), graph=cg.ring(4), partition=cg.IID(), algorithm=cg.TorchOptim(local_steps=2), **options
    )
    assert result.records[-1].accuracy > 0.9


def test_the_users_module_is_not_changed_and_the_result_is_of_its_kind(blobs):
    model = mlp()
    before = [p.clone() for p in model.parameters()]
    result = run(blobs, model=model)
    assert all(torch.equal(a, b) for a, b in zip(before, model.parameters(), strict=True))
    assert type(result.model) is nn.Sequential
    assert not result.model.training


def test_the_averaged_model_is_the_mean_of_the_agents_models(blobs):
    result = run(blobs)
    agents = [result.agent_model(j) for j in range(4)]
    for mean, *each in zip(result.model.parameters(), *(m.parameters() for m in agents), strict=True):
        torch.testing.assert_close(mean, torch.stack(each).mean(dim=0))


def test_records_equal_what_a_person_would_compute_by_hand(blobs):
    result = run(blobs, cg.SGP(0.5), steps=10, evaluate_every=5)
    test, last = blobs(60, seed=7), result.records[-1]

    def accuracy(model):
        return float((model(test.inputs).argmax(dim=1) == test.labels).double().mean())

    assert last.accuracy == pytest.approx(accuracy(result.model))
    each = [accuracy(result.agent_model(j)) for j in range(4)]
    assert last.agent_accuracy == pytest.approx(each)
    right = result.model(test.inputs).argmax(dim=1) == test.labels
    by_class = [float(right[test.labels == c].double().mean()) for c in range(3)]
    assert last.class_accuracy == pytest.approx(by_class, abs=1e-4)
    held = [float((test.labels == c).double().mean()) for c in range(3)]
    for own, shares in zip(each, last.agent_class_accuracy, strict=True):
        assert sum(h * share for h, share in zip(held, shares, strict=True)) == pytest.approx(own, abs=1e-4)
    assert last.mean_agent == pytest.approx(sum(each) / 4)
    assert last.worst_agent == min(each)
    assert last.test_loss == pytest.approx(loss_on(result.model, test), rel=1e-5)
    assert last.loss == pytest.approx(loss_on(result.model, blobs()), rel=1e-5)
    x = result.training.state.x
    assert last.consensus == pytest.approx(float(((x - x.mean(dim=0)) ** 2).sum() / 4) ** 0.5, rel=1e-5)
    assert [record.step for record in result.records] == [0, 5, 10]
    assert last.gradients == 4 * 10
    assert last.bytes_sent == 10 * 8 * (4 * x.shape[1] + 4)  # a ring of four has eight ways
    assert sum(last.bytes_by_agent) == last.bytes_sent
    assert sum(last.bytes_by_kind.values()) == last.bytes_sent


def test_buffers_travel_are_counted_and_belong_to_the_averaged_model(blobs):
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(4, 8), nn.BatchNorm1d(8), nn.ReLU(), nn.Linear(8, 3))
    for algorithm in (cg.DPMSGD(0.5), cg.CGA(0.5), cg.SGP(0.5), cg.SwarmSGD(matching=True), cg.EDM(0.5)):
        result = run(blobs, algorithm, model=model, steps=30, graph=cg.ring(4))
        last = result.records[-1]
        parameters, statistics = result.training.state.x.shape[1], 16
        assert last.bytes_by_kind["buffer"] * parameters == last.bytes_by_kind["model"] * statistics
        means = torch.stack([result.agent_model(j)[1].running_mean for j in range(4)])
        torch.testing.assert_close(result.model[1].running_mean, means.mean(dim=0))
        assert float(result.model[1].running_var.mean()) != 1.0


def test_fully_connected_agents_share_batch_norm_statistics_after_each_step(blobs):
    model = nn.Sequential(nn.BatchNorm1d(4), nn.Linear(4, 3))
    result = run(blobs, cg.DPSGD(), model=model, graph=cg.fully_connected(4), steps=3)
    floats = result.training.buffers.floats_NF
    torch.testing.assert_close(floats, floats[:1].expand_as(floats), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("algorithm", [cg.CGA(0.5), cg.SwarmSGD(), cg.SwarmSGD(matching=True, local_steps=3)])
def test_epochs_end_when_all_local_data_was_seen_that_often(blobs, algorithm):
    result = run(blobs, algorithm, steps=None, epochs=3.0)
    last, training = result.records[-1], result.training
    assert 3.0 <= last.epoch < 3.3
    drawn = sum(
        int(n) * size for n, size in zip(training.oracle.drawn, training.oracle.batches.batch_sizes, strict=True)
    )
    assert last.epoch == pytest.approx(drawn / len(blobs()))


def test_the_step_size_follows_the_local_epoch(blobs):
    result = run(blobs, lr=cg.Exponential(0.1, 0.5), steps=45, evaluate_every=15)
    for record in result.records:
        assert record.lr == pytest.approx(0.1 * 0.5 ** math.floor(record.epoch))


def test_one_agent_and_more_agents_than_classes_work(blobs):
    for agents in (1, 2, 7, 41):
        assert run(blobs, agents=agents, steps=3).status == "ok"


def test_a_regression_has_no_accuracy_but_learns():
    generator = torch.Generator().manual_seed(0)
    X = torch.randn(80, 3, generator=generator)
    y = X @ torch.tensor([[1.0], [-2.0], [0.5]])
    result = cg.fit(
        nn.Linear(3, 1), (X, y), graph=cg.ring(4), algorithm=cg.CGA(0.5), lr=0.1, steps=200, test=(X, y),
        loss=nn.functional.mse_loss,
    )  # fmt: skip
    assert result.records[-1].accuracy is None
    assert result.records[-1].test_loss < 1e-3


def test_per_agent_data_sets_of_ones_own_are_used_as_they_are(blobs):
    own = [blobs(10 * (j + 1), seed=j) for j in range(3)]
    result = cg.fit(mlp(), own, graph=cg.ring(3), algorithm=cg.DPSGD(), steps=4)
    assert [len(s) for s in result.training.agents] == [10, 20, 30]
    pairs = [(s.inputs, s.labels) for s in own]
    datasets = [torch.utils.data.TensorDataset(*pair) for pair in pairs]
    for source in (pairs, datasets):
        again = cg.fit(mlp(), source, graph=cg.ring(3), algorithm=cg.DPSGD(), steps=4)
        assert all(torch.equal(a, b) for a, b in zip(bits(result), bits(again), strict=True))


class Explosive(nn.Module):
    """Fine at first; not finite once its weight has grown."""

    def __init__(self, limit):
        super().__init__()
        self.layer, self.limit = nn.Linear(4, 3), limit

    def forward(self, x):
        out = self.layer(x)
        return out * float("nan") if float(self.layer.weight.detach().abs().max()) > self.limit else out


@pytest.mark.filterwarnings("ignore:the run diverged")
def test_what_is_not_finite_ends_the_run_and_names_step_and_agent(blobs):
    torch.manual_seed(0)
    result = run(blobs, model=Explosive(0.7), steps=200, lr=0.005, evaluate_every=1)
    assert result.status == "nonfinite"
    assert "agent" in result.training.reason
    assert result.records[-1].status == "nonfinite"
    assert result.records[-1].step < 200
    assert all(torch.isfinite(p).all() for p in result.model.parameters())


def test_the_last_good_state_is_kept_after_divergence(blobs):
    torch.manual_seed(0)
    with pytest.warns(UserWarning, match="the run diverged: (exploded|nonfinite) at step .* kept"):
        result = run(blobs, cg.DPMSGD(0.98), lr=900.0, steps=60, evaluate_every=1)
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
            judge.hear(loss, every * number, total, None)
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


def test_without_a_rule_a_run_goes_on_to_its_end(blobs):
    result = run(blobs, cg.DPMSGD(0.98), lr=900.0, steps=60, evaluate_every=1, stop_if_diverged=False)
    assert result.status == "ok"
    assert result.records[-1].step == 60


@pytest.mark.parametrize(
    "loss",
    [nn.CrossEntropyLoss(reduction="sum"), lambda output, labels: 100 * nn.functional.cross_entropy(output, labels)],
)
def test_a_healthy_run_whose_loss_is_not_a_mean_is_trained(blobs, loss):
    """Such runs used to end as exploded, with the untrained model."""
    result = run(blobs, cg.DPSGD(), loss=loss, lr=1e-3, steps=60)
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
def test_a_run_that_learns_nothing_ends_with_a_warning(blobs):
    with pytest.warns(UserWarning, match="after 120 steps the averaged model's loss .* not below"):
        result = run(blobs, model=Stuck(), steps=120, evaluate_every=10)
    assert result.status == "ok"
    with pytest.warns(UserWarning, match="The initial models are kept: no later ones were good"):
        run(blobs, cg.DPMSGD(0.98), lr=900.0, steps=60, evaluate_every=20)


def test_progress_of_a_run_can_be_watched_record_by_record(blobs):
    seen = []
    run(blobs, on_record=seen.append, steps=10, evaluate_every=2)
    assert [record.step for record in seen] == [0, 2, 4, 6, 8, 10]


WRONG = {
    "steps and epochs": ({"epochs": 1.0}, "either in steps or in epochs"),
    "neither": ({"steps": None}, "either in steps or in epochs"),
    "no steps": ({"steps": 0}, "steps must be at least 1"),
    "batch": ({"batch_size": 0}, "batch_size must be at least 1"),
    "lr": ({"lr": -1.0}, "step size lr"),
    "lr nan": ({"lr": math.nan}, "step size lr"),
    "lr huge": ({"lr": 1e30}, "step size lr"),
    "device": ({"device": "gpu"}, "device must be"),
    "graph size": ({"data": 3}, "3 .*4 agents|4 agents.* 3"),
    "directed": ({"graph": cg.exponential(5)}, "undirected"),
    "output": ({"model": nn.Linear(4, 2)}, "3 classes, so the model must return 3 numbers"),
    "input": ({"model": nn.Linear(5, 3)}, "does not take the data's inputs of shape"),
    "seed": ({"seed": -1}, "seed"),
}


@pytest.mark.parametrize("case", WRONG)
def test_what_cannot_work_is_refused_in_one_sentence(blobs, case):
    options, message = WRONG[case]
    if "data" in options:  # data sets of so many agents
        options = options | {"data": [blobs(30, seed=k) for k in range(options["data"])], "partition": None}
    with pytest.raises(ValueError, match=message):
        run(blobs, **options)


@pytest.mark.parametrize("momentum", [-0.1, 1.0, math.nan, 5.0])
def test_an_impossible_momentum_is_refused(momentum):
    for make in (cg.CGA, cg.DPMSGD, cg.SGP, cg.QGDSGDm, cg.EDM):
        with pytest.raises(ValueError, match="momentum must be at least 0 and below 1"):
            make(momentum)


def test_bad_data_is_refused_before_training(blobs):
    X, y = blobs().inputs, blobs().labels
    with_nan = X.clone()
    with_nan[3, 1] = math.nan
    for data, message in (
        ((with_nan, y), "finite"),
        ((X, y - 1), "Labels|classes"),
        ((X[:0], y[:0]), "[Aa]t least one sample"),
        ((X, y[:-1]), "label"),
    ):
        with pytest.raises(ValueError, match=message):
            cg.fit(mlp(), data, graph=cg.ring(4), steps=1)
    with pytest.raises(ValueError, match="agents"):
        cg.fit(mlp(), (X[:5], y[:5]), graph=cg.ring(10), steps=1)
    with pytest.raises(ValueError, match="joins 3 agents"):
        cg.fit(mlp(), [Samples(X, y)] * 2, graph=cg.ring(3), steps=1)
