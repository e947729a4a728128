"""The algorithms as optimisers in a loop of one's own."""

import copy
import json
import time
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn.functional import cross_entropy

from crossgrad import optim, process_group, ring
from crossgrad._network.shard import Shard
from crossgrad._network.traffic import Traffic
from crossgrad.algorithms import ALGORITHMS, DPSGD

EXAMPLE = Path(__file__).parents[2] / "examples" / "own_loop.py"


def test_optimisers_in_four_processes_take_the_trainers_steps(launch, tmp_path):
    """Every algorithm: bits, bytes, calls. Schedulers, parameter groups, saved states, buffers, random layers too."""
    launch.forked("4", launch.workers / "optimisers.py", MISMATCHES=str(tmp_path / "rank"))
    assert [json.loads(path.read_text()) for path in sorted(tmp_path.glob("rank.*"))] == [[]] * 4


def test_a_loop_of_ones_own_takes_twenty_lines(launch):
    code = EXAMPLE.read_text().rpartition('"""')[2]
    assert len([line for line in code.splitlines() if line.strip()]) <= 20
    ended = launch.alone(launch.workers / "forked.py", "2", EXAMPLE)
    said, statuses = ended.out.splitlines()
    assert statuses == "0 0", ended.err
    assert said.startswith("the averaged model of 2 agents is right on ")
    assert float(said.split("%")[0].split()[-1]) > 80


@pytest.fixture
def alone():
    with process_group() as group:
        yield group


def module() -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(4, 5), nn.Tanh(), nn.Linear(5, 3)).double()


def train(model, opt, steps=10):
    random = torch.Generator().manual_seed(1)
    for _ in range(steps):
        inputs = torch.randn(8, 4, generator=random, dtype=torch.float64)

        def closure(inputs=inputs):
            opt.zero_grad()
            loss = cross_entropy(model(inputs), inputs.argmax(dim=1) % 3)
            loss.backward()
            return loss

        opt.step(closure)
    return torch.cat([p.detach().reshape(-1) for p in model.parameters()])


@pytest.mark.parametrize("make", [optim.DPMSGD, optim.SGP, optim.SwarmSGD, optim.CGA])
def test_one_agent_is_sgd_with_momentum(make, alone):
    ours, theirs = module(), module()
    x = train(ours, make(ours, graph=ring(1), lr=0.05, momentum=0.9))
    expected = train(theirs, torch.optim.SGD(theirs.parameters(), lr=0.05, momentum=0.9))
    torch.testing.assert_close(x, expected, rtol=1e-12, atol=1e-13)


def test_one_agent_with_parameter_groups_is_sgd_with_parameter_groups(alone):
    ours, theirs = module(), module()

    def groups(model):
        return [{"params": model[0].parameters(), "lr": 0.1}, {"params": model[2].parameters()}]

    x = train(ours, optim.Decentralised(ours, DPSGD(), graph=ring(1), lr=0.01, params=groups(ours)))
    expected = train(theirs, torch.optim.SGD(groups(theirs), lr=0.01))
    torch.testing.assert_close(x, expected, rtol=1e-12, atol=1e-13)


def test_step_returns_the_loss_of_the_own_pass(alone):
    model = module()
    opt = optim.CGA(model, graph=ring(1))
    inputs = torch.ones(2, 4, dtype=torch.float64)
    expected = float(model(inputs).sum().detach())

    def closure():
        loss = model(inputs).sum()
        loss.backward()
        return loss

    assert float(opt.step(closure).detach()) == expected


def test_step_without_a_closure_says_what_is_missing(alone):
    with pytest.raises(ValueError, match=r"step needs a closure .* opt\.step\(closure\)\.$"):
        optim.DPSGD(module(), graph=ring(1)).step()


def test_an_optimiser_outside_a_group_says_where_it_belongs():
    with pytest.raises(ValueError, match=r"inside `with crossgrad\.process_group\(\) as group:` or `with .*`\.$"):
        optim.CGA(module(), graph=ring(1))


def test_a_state_of_another_model_is_refused(alone):
    opt = optim.CGA(module(), graph=ring(1))
    other = nn.Linear(2, 2).double()
    saved = optim.CGA(nn.Sequential(other, nn.Linear(2, 1).double()), graph=ring(1)).state_dict()
    with pytest.raises(ValueError, match="must be of the same model and graph; the shapes of v, memory differ"):
        opt.load_state_dict(saved)


@pytest.mark.parametrize("make", [optim.DPMSGD, optim.CompCGA, optim.QGDSGDm, optim.EDM, optim.GradientTracking])
def test_a_saved_state_stays_as_it_was_and_goes_on_to_the_same_bits(make, alone):
    model = module()
    opt = make(model, graph=ring(1), lr=0.05)
    train(model, opt, steps=3)
    kept, parameters = opt.state_dict(), copy.deepcopy(model.state_dict())
    expected = train(model, opt, steps=4)
    other = module()
    other.load_state_dict(parameters)
    again = make(other, graph=ring(1), lr=0.05)
    again.load_state_dict(kept)
    assert torch.equal(train(other, again, steps=4), expected)


def test_an_empty_loader_is_refused(alone):
    with pytest.raises(ValueError, match="the loader of rank 0 is empty"):
        list(alone.in_step([]))


# Options


@pytest.fixture
def group():
    with process_group() as made:
        yield made


def quadratic(model, opt):
    def closure():
        opt.zero_grad()
        loss = model(torch.ones(1, 3, dtype=torch.float64)).square().sum()
        loss.backward()
        return loss

    return closure


@pytest.mark.usefixtures("group")
def test_weight_decay_of_a_group_adds_to_its_own_gradients_only():
    torch.manual_seed(0)
    plain, decayed = nn.Linear(3, 2).double(), nn.Linear(3, 2).double()
    decayed.load_state_dict(plain.state_dict())
    start = plain.weight.detach().clone()
    groups = [{"params": [decayed.weight], "weight_decay": 0.5}, {"params": [decayed.bias]}]
    for model, params in ((plain, None), (decayed, groups)):
        opt = optim.Decentralised(model, DPSGD(), graph=ring(1), lr=0.1, params=params)
        opt.step(quadratic(model, opt))
    torch.testing.assert_close(plain.weight - decayed.weight, 0.1 * 0.5 * start)
    torch.testing.assert_close(plain.bias, decayed.bias)


def test_an_option_of_a_group_that_nobody_would_read_is_refused():
    model = nn.Linear(3, 2)
    with pytest.raises(ValueError, match="found momentum"):
        optim.DPSGD(model, graph=ring(1), params=[{"params": model.parameters(), "momentum": 0.9}])


@pytest.mark.usefixtures("group")
def test_clipping_bounds_a_step():
    torch.manual_seed(0)
    model = nn.Linear(3, 2).double()
    before = torch.cat([p.detach().reshape(-1) for p in model.parameters()])
    opt = optim.DPSGD(model, graph=ring(1), lr=0.1, clip_norm=0.01)
    opt.step(quadratic(model, opt))
    after = torch.cat([p.detach().reshape(-1) for p in model.parameters()])
    assert float((after - before).norm()) == pytest.approx(0.1 * 0.01)


@pytest.mark.usefixtures("group")
def test_bytes_sent_go_on_after_a_state_dict_was_loaded():
    before, after = (optim.DPSGD(module(), graph=ring(1)) for _ in range(2))
    for opt in (before, after):  # as if this were agent 1 of three
        opt.traffic = opt.context.traffic = Traffic(ring(3), Shard(3, 1, 2))
    before.traffic.add("model", before.traffic.edges(np.array([0, 2]), np.array([1, 1])), 40)
    after.load_state_dict(before.state_dict())
    assert after.bytes_sent == 80


def test_a_model_that_is_wrapped_for_data_parallel_training_is_refused():
    class Wrapped(nn.parallel.DistributedDataParallel):
        def __init__(self):
            nn.Module.__init__(self)

    with pytest.raises(TypeError, match=r"Pass model\.module"):
        optim.DPSGD(Wrapped(), graph=ring(1))


@pytest.mark.usefixtures("group")
@pytest.mark.parametrize("name", sorted(ALGORITHMS))
def test_every_registered_algorithm_is_an_optimiser(name):
    make = getattr(optim, name.replace("-", "_"))
    try:
        opt = make(module(), graph=ring(1), lr=0.1)
    except ValueError as error:
        pytest.skip(f"needs another graph: {error}")
    assert type(opt.algorithm) is type(ALGORITHMS[name]())


def test_an_option_that_an_algorithm_has_not_is_refused_with_those_it_has():
    with pytest.raises(TypeError, match=r"DPSGD takes other options; found momentum. Valid are: clip_norm, "):
        optim.DPSGD(module(), graph=ring(1), momentum=0.9)


@pytest.mark.parametrize(
    ("option", "sentence"),
    [("autocast", "torch.autocast.* in the closure"), ("patience", "evaluate the model in the loop")],
)
def test_an_option_of_fit_that_a_loop_does_itself_is_refused_with_the_way(option, sentence):
    with pytest.raises(TypeError, match=f"DPSGD takes other options; found {option}. {option}: .*{sentence}"):
        optim.DPSGD(module(), graph=ring(1), **{option: True})


@pytest.mark.usefixtures("group")
def test_a_step_size_that_is_no_number_is_refused_with_the_way():
    with pytest.raises(ValueError, match=r"make a torch.optim.lr_scheduler of this optimiser"):
        optim.DPSGD(module(), graph=ring(1), lr=lambda epoch: 0.1)


@pytest.mark.usefixtures("group")
def test_a_step_that_waits_long_says_what_it_may_be_waiting_for(monkeypatch, capsys):
    monkeypatch.setattr("crossgrad.optim.slow_step.SLOW_STEP_SECONDS", 0.2)
    model = nn.Linear(3, 2).double()
    opt = optim.DPSGD(model, graph=ring(1))

    said = []

    def slow():
        deadline = time.monotonic() + 60
        while not any(said) and time.monotonic() < deadline:
            time.sleep(0.05)
            said.append(capsys.readouterr().err)
        return quadratic(model, opt)()

    opt.step(slow)
    assert "group.in_step(loader)" in "".join(said)


def test_a_model_loaded_before_the_optimiser_was_made_was_replaced_by_rank_0s_without_a_warning(group, monkeypatch):
    monkeypatch.setattr(type(group), "broadcast", lambda self, tensor: tensor.zero_())  # as if rank 0 had zeros
    model, own = module(), module()
    with pytest.warns(UserWarning, match="differed from that of rank 0 and was replaced by it"):
        optim.DPSGD(model, graph=ring(1))
    assert not any(p.any() for p in model.parameters())
    optim.DPSGD(own, graph=ring(1), keep_own_start=True)
    assert all(torch.equal(p, q) for p, q in zip(own.parameters(), module().parameters(), strict=True))
