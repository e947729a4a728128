"""Whole runs: the same bits from the same seed, honest records, and what is measured."""

import math

import pytest
import torch
from torch import nn

import crossgrad as cg
from crossgrad.algorithms import ALGORITHMS, Needs


def loss_on(model, samples):
    with torch.no_grad():
        return float(nn.functional.cross_entropy(model(samples.inputs), samples.labels))


def bits(result):
    return [p.detach().clone() for p in result.model.state_dict().values()]


@pytest.mark.parametrize("name", ALGORITHMS)
def test_the_same_seed_gives_the_same_bits_and_another_seed_others(run, name):
    one, two, other = (run(ALGORITHMS[name](), seed=seed, steps=6) for seed in (3, 3, 4))
    assert all(torch.equal(a, b) for a, b in zip(bits(one), bits(two), strict=True))
    assert not all(torch.equal(a, b) for a, b in zip(bits(one), bits(other), strict=True))
    for a, b in zip(one.records, two.records, strict=True):
        assert a.as_json() | {"seconds": 0} == b.as_json() | {"seconds": 0}


@pytest.mark.parametrize("name", ALGORITHMS)
def test_every_algorithm_learns_separable_data_split_by_class(run, name):
    if name == "torch-optim":
        pytest.skip("every agent has its own Adam moments, so a bias remains on non-IID data")
    algorithm = ALGORITHMS[name]()
    if hasattr(algorithm, "momentum"):
        algorithm = type(algorithm)(**{**algorithm.__dict__, "momentum": 0.5})
    adam = name in ("qg-adam", "gtadam")  # whose step hardly depends on the gradient
    graph = cg.star(3) if Needs.TREE in algorithm.needs else cg.fully_connected(3)
    result = run(algorithm, agents=3, steps=300 if adam else 60, lr=0.01 if adam else 0.1, graph=graph)
    assert result.status == "ok"
    assert result.records[-1].accuracy > 0.9


def test_adam_learns_where_data_is_alike(blobs, mlp):
    model, options = mlp(), {"steps": 60, "lr": 0.02, "batch_size": 8, "test": blobs(60, seed=7)}
    result = cg.fit(
        model,
        blobs(),
        graph=cg.ring(4),
        partition=cg.IID(),
        algorithm=cg.TorchOptim(),
        gossip=cg.Gossip(local_steps=2),
        **options,
    )
    assert result.records[-1].accuracy > 0.9


def test_the_users_module_is_not_changed_and_the_result_is_of_its_kind(run, mlp):
    model = mlp()
    before = [p.clone() for p in model.parameters()]
    result = run(model=model)
    assert all(torch.equal(a, b) for a, b in zip(before, model.parameters(), strict=True))
    assert type(result.model) is nn.Sequential
    assert not result.model.training


def test_the_averaged_model_is_the_mean_of_the_agents_models(run):
    result = run()
    agents = [result.agent_model(j) for j in range(4)]
    for mean, *each in zip(result.model.parameters(), *(m.parameters() for m in agents), strict=True):
        torch.testing.assert_close(mean, torch.stack(each).mean(dim=0))


def test_records_equal_what_a_person_would_compute_by_hand(run, blobs):
    result = run(cg.SGP(0.5), steps=10, evaluate_every=5)
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


def test_buffers_travel_are_counted_and_belong_to_the_averaged_model(run):
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(4, 8), nn.BatchNorm1d(8), nn.ReLU(), nn.Linear(8, 3))
    for algorithm in (cg.DPMSGD(0.5), cg.CGA(0.5), cg.SGP(0.5), cg.SwarmSGD(matching=True), cg.EDM(0.5)):
        result = run(algorithm, model=model, steps=30, graph=cg.ring(4))
        last = result.records[-1]
        parameters, statistics = result.training.state.x.shape[1], 16
        assert last.bytes_by_kind["buffer"] * parameters == last.bytes_by_kind["model"] * statistics
        means = torch.stack([result.agent_model(j)[1].running_mean for j in range(4)])
        torch.testing.assert_close(result.model[1].running_mean, means.mean(dim=0))
        assert float(result.model[1].running_var.mean()) != 1.0


def test_fully_connected_agents_share_batch_norm_statistics_after_each_step(run):
    model = nn.Sequential(nn.BatchNorm1d(4), nn.Linear(4, 3))
    result = run(cg.DPSGD(), model=model, graph=cg.fully_connected(4), steps=3)
    floats = result.training.buffers.floats_NF
    torch.testing.assert_close(floats, floats[:1].expand_as(floats), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("algorithm", [cg.CGA(0.5), cg.SwarmSGD(), cg.SwarmSGD(matching=True, local_steps=3)])
def test_epochs_end_when_all_local_data_was_seen_that_often(run, blobs, algorithm):
    result = run(algorithm, steps=None, epochs=3.0)
    last, training = result.records[-1], result.training
    assert 3.0 <= last.epoch < 3.3
    drawn = sum(
        int(n) * size for n, size in zip(training.oracle.drawn, training.oracle.batches.batch_sizes, strict=True)
    )
    assert last.epoch == pytest.approx(drawn / len(blobs()))


def test_the_step_size_follows_the_local_epoch(run):
    result = run(lr=cg.Exponential(0.1, 0.5), steps=45, evaluate_every=15)
    for record in result.records:
        assert record.lr == pytest.approx(0.1 * 0.5 ** math.floor(record.epoch))


def test_one_agent_and_more_agents_than_classes_work(run):
    for agents in (1, 2, 7, 41):
        assert run(agents=agents, steps=3).status == "ok"


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


def test_per_agent_data_sets_of_ones_own_are_used_as_they_are(blobs, mlp):
    own = [blobs(10 * (j + 1), seed=j) for j in range(3)]
    result = cg.fit(mlp(), own, graph=cg.ring(3), algorithm=cg.DPSGD(), steps=4)
    assert [len(s) for s in result.training.agents] == [10, 20, 30]
    pairs = [(s.inputs, s.labels) for s in own]
    datasets = [torch.utils.data.TensorDataset(*pair) for pair in pairs]
    for source in (pairs, datasets):
        again = cg.fit(mlp(), source, graph=cg.ring(3), algorithm=cg.DPSGD(), steps=4)
        assert all(torch.equal(a, b) for a, b in zip(bits(result), bits(again), strict=True))


def test_progress_of_a_run_can_be_watched_record_by_record(run):
    seen = []
    run(on_record=seen.append, steps=10, evaluate_every=2)
    assert [record.step for record in seen] == [0, 2, 4, 6, 8, 10]
