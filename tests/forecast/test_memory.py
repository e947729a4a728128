"""Memory: predicted before a run and held to, and steps that take no more than a stated work space."""

import subprocess
import sys
from ast import literal_eval
from functools import partial

import pytest
import torch
from torch import nn

import crossgrad as cg
from crossgrad import graphs
from crossgrad._cli import dry_run
from crossgrad._forecast.dry_steps import count_step_cost
from crossgrad._forecast.live_bytes import LiveBytes
from crossgrad._forecast.memory import Forecast
from crossgrad._network import cross_gradients
from crossgrad._network.shard import Shard
from crossgrad._numerics.blocks import blocks
from crossgrad._numerics.mixing import _by_rows, mix_rows_
from crossgrad._training import evaluation
from crossgrad._training.settings import TrainingSettings
from crossgrad._training.trainer import Training
from crossgrad.algorithms import ALGORITHMS, Needs
from crossgrad.data import Samples
from crossgrad.experiments.expected import expect
from crossgrad.experiments.files import parse


class Live(LiveBytes):
    """Also knows the largest of the tensors that were made."""

    largest = 0

    def _count(self, storage):
        super()._count(storage)
        self.largest = max(self.largest, storage.nbytes())


def test_live_bytes_count_what_is_made_and_held_but_no_views_and_nothing_from_before():
    before = torch.ones(100, 100)
    with Live() as live:
        product = before @ before
        assert (live.now, live.peak) == (40_000, 40_000)
        view = product[:10]
        product.add_(1)
        before.mul_(2)
        assert (live.now, live.peak) == (40_000, 40_000)
        rows = view + 1
        del product
        assert live.now == 44_000, "the view holds its tensor"
        del view
        assert (live.now, live.peak, live.largest) == (4_000, 44_000, 40_000)
        both = [torch.zeros(500, dtype=torch.float64) for _ in range(2)]
    assert (live.now, live.peak) == (12_000, 44_000)
    del rows, both
    assert live.now == 0


RUN = """
import dataclasses, sys, torch
from crossgrad.experiments import experiment, files
from crossgrad.models.zoo import MLP
from crossgrad.data import Samples, Split
from crossgrad._cli.freed_memory import keep_freed_memory
keep_freed_memory()
torch.set_num_threads(1)
table, shape, samples = sys.argv[1], tuple(map(int, sys.argv[2].split("x"))), int(sys.argv[3])
chosen = files.parse(table)
def part(count):
    return Samples(torch.randn(count, *shape), torch.arange(count) % 10)
expected = []
original = experiment.expect
def expect(*arguments):
    found = original(*arguments)
    expected.append(found.memory)
    return found
experiment.expect = expect
def now(what):
    return int(next(line for line in open("/proc/self/status") if line.startswith(what)).split()[1]) * 1024
few = dataclasses.replace(chosen, agents=4, model=MLP((2,)))
training = few.start(Split(part(40), part(10)))  # loads the libraries that any run needs
training.step(), training.evaluate()
data = Split(part(samples), part(50))
open("/proc/self/clear_refs", "w").write("5")  # forget the peak so far
before = now("VmRSS")
training = chosen.start(data)
training.step(), training.evaluate()
print(expected[-1].total, now("VmHWM"), before, expected[-1].items)
"""

CASES = {
    "mlp-40": ("agents=40\nalgorithm='cga'\ngraph='fully-connected'\nmodel='mlp'", "1x8x8", 1600),
    "mlp-40-wide": ("agents=40\nalgorithm='dpmsgd'\ngraph='ring'\nmodel={name='mlp', hidden=[2048]}", "1x8x8", 1600),
    "mlp-2000": ("agents=2000\nalgorithm='cga'\ngraph='ring'\nmodel='mlp'", "1x8x8", 8000),
    "cnn-10-dpmsgd": ("agents=10\nalgorithm='dpmsgd'\ngraph='ring'\nmodel='cnn'", "1x28x28", 40),
    "cnn-10-sgp": ("agents=10\nalgorithm='sgp'\ngraph='ring'\nmodel='cnn'", "1x28x28", 40),
    "cnn-10-cga": ("agents=10\nalgorithm='cga'\ngraph='ring'\nmodel='cnn'", "1x28x28", 40),
    "cnn-10-compcga": ("agents=10\nalgorithm='compcga'\ngraph='ring'\nmodel='cnn'", "1x28x28", 40),
    "cnn-10-tracking": ("agents=10\nalgorithm='gradient-tracking'\ngraph='ring'\nmodel='cnn'", "1x28x28", 40),
    "cnn-10-full": ("agents=10\nalgorithm='cga'\ngraph='fully-connected'\nmodel='cnn'", "1x28x28", 40),
    "cnn-10-released": ("agents=10\nalgorithm='cga-released'\ngraph='fully-connected'\nmodel='cnn'", "1x28x28", 40),
    "cnn-10-data": ("agents=10\nalgorithm='dpmsgd'\ngraph='ring'\nmodel='cnn'", "3x32x32", 20_000),
    "cnn-40-full": ("agents=40\nalgorithm='cga'\ngraph='fully-connected'\nmodel='cnn'", "1x28x28", 160),
    "vgg11-5-cga": ("agents=5\nalgorithm='cga'\ngraph='ring'\nmodel='vgg11'", "3x32x32", 20),
}
QUICK = ("mlp-40-wide",)  # half of what it adds is the state, a quarter the work space of a step
LIBRARIES = "Python, PyTorch and their libraries"


@pytest.mark.timeout(700)
@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="only Linux reports the peak memory of a process")
@pytest.mark.parametrize(
    "case", [pytest.param(case, marks=[] if case in QUICK else pytest.mark.slow) for case in CASES]
)
def test_the_predicted_peak_is_within_a_quarter_of_the_measured_one(case):
    table, shape, samples = CASES[case]
    text = f"partition='iid'\n{table}\ntraining={{steps=4, batch_size=4}}"
    ended = subprocess.run(
        [sys.executable, "-c", RUN, text, shape, str(samples)], capture_output=True, text=True, timeout=600
    )
    assert ended.returncode == 0, ended.stderr
    *numbers, items = ended.stdout.split(maxsplit=3)
    predicted, measured, before = map(float, numbers)
    assert 0.75 <= predicted / measured <= 1.25, (predicted, measured, items)
    # The libraries are measured, not predicted; so what the run adds to them must be right by itself, and so closely in
    # the quick case that it fails where the state or the work space is left out.
    grown, added = measured - before, sum(literal_eval(items).values()) - literal_eval(items)[LIBRARIES]
    assert abs(added - grown) <= (0.2 if case in QUICK else 0.5) * grown + 5e6, (added, grown, items)


AGENTS, FEATURES, HIDDEN = 6, 40, 50
MODELS = AGENTS * (FEATURES * HIDDEN + HIDDEN + HIDDEN * 3 + 3) * 8  # bytes of all agents' models
ANSWERS = 2  # neighbours on a ring


def training(algorithm, graph=None):
    """A run whose gradients are computed one by one, so that a pass holds little."""
    generator = torch.Generator().manual_seed(0)
    own = [Samples(torch.randn(4, FEATURES, generator=generator), torch.arange(4) % 3) for _ in range(AGENTS)]
    module = nn.Sequential(nn.Linear(FEATURES, HIDDEN), nn.Tanh(), nn.Linear(HIDDEN, 3))
    settings = TrainingSettings(batch_size=2, steps=9, deterministic=True, dtype=torch.float64)
    return Training(
        module,
        own,
        algorithm,
        graph or (graphs.chain if Needs.TREE in algorithm.needs else graphs.ring)(AGENTS),
        settings,
    )


# In units of all agents' models: what a step makes besides the state that it works on in place, where that is not 1,
# the gradients.
WORK_SPACE = {
    "cga": 0, "cga-mean": 0, "compcga": 0, "ngc": 0, "compngc": 0,  # a block of one agent's
    "kgt": 2, "qg-adam": 2, "choco": 2, "adagossip": 2, "beer": 4, "motef": 4, "relaysgd": 4,
}  # fmt: skip


@pytest.mark.parametrize("name", ALGORITHMS)
def test_a_step_makes_no_more_than_its_work_space(name, monkeypatch):
    monkeypatch.setattr(cross_gradients, "BLOCK_BYTES", 1)  # one agent at a time
    run = training(ALGORITHMS[name]())
    run.step()  # whatever is made once
    with Live() as live:
        run.step()
    # One agent's own gradient, its answers and their copies (in float64, weighted, encoded), and a pass.
    block = (4 * ANSWERS + 3) * MODELS / AGENTS if "cga" in name or "ngc" in name else 1.5 * MODELS / AGENTS
    block = 4 * MODELS / AGENTS if name in ("torch-optim", "relaysgd") else block  # one agent's after the other
    expected = WORK_SPACE.get(name, 1) * MODELS
    assert expected <= live.peak <= expected + block
    if name in ("cga", "cga-mean", "compcga"):
        assert live.largest <= (ANSWERS + 1) * MODELS / AGENTS + 8 * HIDDEN  # with the own gradient, for the QP


@pytest.mark.parametrize("name", ALGORITHMS)
def test_steps_leave_nothing_behind(name):
    run = training(ALGORITHMS[name]())
    run.step()
    with Live() as live:
        for _ in range(3):
            run.step()
        held = live.now
    assert held <= MODELS + 10_000  # a state may live where the gradient was


def test_evaluations_make_no_copy_of_all_models(monkeypatch):
    monkeypatch.setattr(evaluation, "blocks", partial(blocks, budget=1))
    run = training(cg.CGA(), graphs.fully_connected(AGENTS))
    run.evaluate()
    with Live() as live:
        run.evaluate()
    assert live.largest <= 2 * MODELS / AGENTS


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("remote", [0, 3])
def test_both_ways_to_mix_have_the_same_bits_wherever_rows_lie(dtype, remote):
    graph = graphs.erdos_renyi(12, seed=1)
    x = torch.randn(12, 700, generator=torch.Generator().manual_seed(0)).to(dtype)
    matrix = graph.weights.astype(str(dtype).removeprefix("torch."))
    expected = _by_rows(matrix, x)
    own, far = x[: 12 - remote].clone(), x[12 - remote :]
    mixed = mix_rows_(matrix[: 12 - remote], own, far)
    assert mixed is own
    assert torch.equal(mixed, expected[: 12 - remote])
    assert torch.equal(far, x[12 - remote :])


@pytest.mark.parametrize("name", ["dpsgd", "sgp", "cga", "compcga", "gradient-tracking", "edm"])
@pytest.mark.parametrize(
    "graph", [graphs.bipartite(AGENTS), graphs.one_peer_exponential(AGENTS)], ids=["fixed", "sequence"]
)
def test_a_rehearsal_knows_every_byte_and_every_gradient_of_the_run(name, graph):
    algorithm = ALGORITHMS[name]()
    try:
        run = training(algorithm, graph)
    except ValueError:
        pytest.skip("needs another graph")
    demand = count_step_cost(algorithm, graph, run.model.sizes, torch.float64, 0, seed=0)
    for _ in range(graph.period):
        run.step()
    assert {kind: sent * graph.period for kind, sent in demand.bytes_by_kind.items()} == run.traffic.by_kind()
    assert demand.gradients * graph.period == int(run.oracle.evaluations.sum())


def test_what_cannot_fit_is_refused_with_numbers():
    needed = Forecast({"models": 3e9, "error memories": 40e9}, agents=40, parameters=1000)
    needed.check(50e9)
    with pytest.raises(
        ValueError, match=r"40 agents, .* 1,000 parameters, need 43 GB .* \(40 GB\) for error memories; "
    ):
        needed.check(42e9)
    with pytest.raises(ValueError, match="in each of 2 processes"):
        needed.check(50e9, processes=2)


def test_the_forecast_counts_what_the_algorithm_holds():
    text = "agents=12\npartition='iid'\nmodel='vgg11'\ngraph='fully-connected'\ntraining={steps=1}\nalgorithm="
    data = cg.load("digits")
    totals = {}
    for name in ("'dpsgd'", "'cga'", "'cga-released'"):
        chosen = parse(text + name)
        graph = chosen.build_graph()
        needed = expect(chosen, chosen.deal(data), data, graph, Shard.of(12), 1).memory
        totals[name] = needed.total - needed.items[LIBRARIES]
    row = 4 * 9_224_458
    assert totals["'cga'"] - totals["'dpsgd'"] == pytest.approx((11 + 2) * row, rel=0.02)
    steps, weighted = 12, 11 + 1  # Nesterov's steps, and copies of the answers and the own gradient
    assert totals["'cga-released'"] - totals["'cga'"] == pytest.approx((steps + weighted) * row, rel=0.02)


def test_a_dry_run_prints_what_a_run_takes_and_writes_nothing(tmp_path):
    (tmp_path / "small.toml").write_text(
        "agents=5\npartition='iid'\nmodel='mlp'\ngraph='ring'\nalgorithm='compcga'\ntraining={steps=7}"
    )
    command = [sys.executable, "-m", "crossgrad", "run", "small.toml", "--dry-run"]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=100, cwd=tmp_path)
    assert ended.returncode == 0, ended.stderr
    for part in ("gradients per step      15\n", "code                  612\n", "peak of memory: ", "CGAState.memory"):
        assert part in ended.stdout
    assert [path.name for path in tmp_path.iterdir()] == ["small.toml"]


def test_a_run_says_before_it_starts_what_it_will_hold():
    text = "agents=5\npartition='iid'\nmodel='mlp'\ngraph='ring'\ntraining={steps=1}\nalgorithm="
    forecasts = []
    for name in ("'cga'", "'compcga'"):
        parse(text + name).start(admit=forecasts.append)
    plain, compressed = forecasts
    D = 64 * 32 + 32 + 32 * 10 + 10
    assert compressed.items["the agents' CGAState.own_memory"] == 5 * D * 4
    assert compressed.items["the agents' CGAState.memory"] == 10 * D * 4  # of each answer
    assert "the agents' CGAState.memory" not in plain.items
    assert str(compressed).endswith(" for Python, PyTorch and their libraries.")


def test_a_dry_run_counts_epochs_of_what_agents_train_on_as_the_run_does():
    text = "agents=5\npartition='iid'\nmodel='mlp'\ngraph='ring'\nalgorithm='dpsgd'\ndata={own_test=0.2}\n"
    experiment = parse(text + "training={steps=40, validation=0.2}")
    run = experiment.start()
    epochs = next(line for line in dry_run._forecast_lines(experiment, 1) if line.startswith("steps"))
    assert epochs.endswith(f" {40 * run.epochs_per_step:.3g} local epochs")
