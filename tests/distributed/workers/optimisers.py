"""Optimisers in four processes against the trainer's agents on the same batches; breaches go to MISMATCHES."""

import copy
import faulthandler
import json
import os
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

import crossgrad
from crossgrad import algorithms, optim
from crossgrad._numerics.seeding import key
from crossgrad._processes.group import Group, SingleProcess
from crossgrad._training.settings import TrainingSettings
from crossgrad._training.trainer import Training
from crossgrad.algorithms import Needs
from crossgrad.data import Batches, Samples
from crossgrad.graphs import chain, double_binary_tree, exponential, random_matchings, ring

faulthandler.dump_traceback_later(240, exit=True)
torch.set_num_threads(1)

SIZES, BATCH, STEPS, LR = (9, 14, 30, 21), 6, 4, 0.05


def blobs(samples: int, seed: int) -> Samples:
    random = torch.Generator().manual_seed(seed)
    labels = torch.arange(samples) % 3
    spread = torch.randn(samples, 4, generator=random, dtype=torch.float64)
    return Samples(spread + labels[:, None], labels)


DATA = [blobs(size, seed) for seed, size in enumerate(SIZES)]


def network(seed: int = 0) -> nn.Module:
    """Buffers and random layers are in it."""
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        layers = (nn.Linear(4, 5), nn.BatchNorm1d(5), nn.ReLU(), nn.Dropout(0.3), nn.Linear(5, 3))
        return nn.Sequential(*layers).double()


class Loop:
    """An engineer's loop that draws the trainer's batches."""

    def __init__(self, group: Group, model: nn.Module, opt: optim.Decentralised) -> None:
        self.model, self.opt, self.rank, self.calls = model, opt, group.rank, 0
        self.batches = Batches(SIZES, BATCH, 0)
        pace = getattr(opt.algorithm, "pace", None)
        self.each_call = pace is not None and pace(len(SIZES)) != 1  # local steps: every call draws the next batch

    def batch(self, number: int) -> tuple[Tensor, Tensor]:
        """The trainer's batch of this number, and its dropout."""
        own = DATA[self.rank]
        chosen = torch.from_numpy(self.batches.indices(self.rank, number))
        torch.manual_seed(key(0, "noise", self.rank, number))
        return own.inputs[chosen], own.labels[chosen]

    def step(self, number: int) -> None:
        inputs, labels = self.batch(number)

        def closure() -> Tensor:
            nonlocal inputs, labels
            if self.each_call:
                inputs, labels = self.batch(self.calls)
            self.calls += 1
            self.opt.zero_grad()
            loss = cross_entropy(self.model(inputs), labels)
            loss.backward()
            return loss

        self.opt.step(closure)


def trained(algorithm: Any, graph: Any, schedule: Any = None, steps: int = STEPS) -> Training:
    """What the trainer makes of it, all agents in this process."""
    settings = TrainingSettings(schedule or crossgrad.Constant(LR), BATCH, steps=STEPS, dtype=torch.float64)
    training = Training(network(), DATA, algorithm, graph, settings, group=SingleProcess())
    for _ in range(steps):
        training.step()
    return training


def personal_differs(group: Group) -> bool:
    """Whether optimisers with a personal last layer and norm have other bits or bytes than the trainer."""
    model, personal = network(), ("1", "4")
    loop = Loop(group, model, optim.CGA(model, graph=ring(4), lr=LR, momentum=0.9, personal=personal))
    settings = TrainingSettings(crossgrad.Constant(LR), BATCH, steps=STEPS, dtype=torch.float64, personal=personal)
    expected = Training(network(), DATA, algorithms.CGA(0.9), ring(4), settings, group=SingleProcess())
    for number in range(STEPS):
        loop.step(number)
        expected.step()
    shared = sum(p.numel() for p in network()[0].parameters())
    return differ(model, expected.agent_model(group.rank)) or loop.opt.bytes_sent != STEPS * 2 * 2 * shared * 8


def differ(model: nn.Module, expected: nn.Module) -> bool:
    """Whether any parameter or buffer differs in any bit."""
    return unlike(model.state_dict(), expected.state_dict())


def unlike(ours: dict[str, Tensor], theirs: dict[str, Tensor]) -> bool:
    return not all(torch.equal(value, theirs[name]) for name, value in ours.items())


COMPRESSED = crossgrad.Gossip(crossgrad.Quantised(4), rounds=2, chebyshev=True)


def compressed_edm(model: nn.Module, **options: Any) -> optim.Decentralised:
    return optim.Decentralised(model, algorithms.EDM(), gossip=COMPRESSED, **options)


PAIRS: dict[str, tuple[Callable[..., optim.Decentralised], Any]] = {
    **{name: (getattr(optim, name.replace("-", "_")), make()) for name, make in algorithms.ALGORITHMS.items()},
    "swarm in a matching": (partial(optim.SwarmSGD, matching=True), algorithms.SwarmSGD(matching=True)),
    "edm in compressed rounds": (compressed_edm, COMPRESSED.around(algorithms.EDM())),
}
CALLS = {  # of the closure in a step, where it is not one: own and two cross-gradients, or local steps
    **{name: 3 for name in algorithms.FAMILIES["cross-gradients"]},
    "kgt": 4,
    "led": 4,
}


def graphs_for(name: str, algorithm: Any) -> list[Any]:
    if Needs.TREE in algorithm.needs:
        return [chain(4), double_binary_tree(4)]
    return [ring(4)] + [exponential(4)] * (name == "sgp") + [random_matchings(4)] * (name in ("cga", "dpmsgd"))


class Expected(NamedTuple):
    """What the trainer makes of it: each agent's model, and the bytes that it sends."""

    models: list[dict[str, Tensor]]
    bytes_sent: list[int]

    @classmethod
    def of(cls, algorithm: Any, graph: Any) -> "Expected":
        training, agents = trained(algorithm, graph), range(len(SIZES))
        sender, by_edge = training.traffic.sender, training.traffic.by_edge.values()
        models = [copy.deepcopy(training.agent_model(agent).state_dict()) for agent in agents]
        return cls(models, [sum(int(sent[sender == agent].sum()) for sent in by_edge) for agent in agents])


def expected_of(group: Group, cases: list[tuple[str, Any, Any, Any]]) -> list[Expected]:
    """Each process trains its share of the cases, and reads what the others have made of theirs."""
    files = [f"{os.environ['MISMATCHES']}-expected-{rank}" for rank in range(group.processes)]
    own = [Expected.of(algorithm, graph) for _, _, algorithm, graph in cases[group.rank :: group.processes]]
    torch.save(own, files[group.rank])
    group.gather(torch.zeros(1, 1))  # all files are there
    theirs = [torch.load(file, weights_only=False) for file in files]
    return [theirs[number % group.processes][number // group.processes] for number in range(len(cases))]


def check(group: Group) -> Iterator[str]:
    """Everything that is not as it should be."""
    if personal_differs(group):
        yield "CGA with personal parameters: other bits or bytes than the trainer's"
    cases = [(name, *pair, graph) for name, pair in PAIRS.items() for graph in graphs_for(name, pair[1])]
    for (name, make, _, graph), expected in zip(cases, expected_of(group, cases), strict=True):
        model = network(seed=group.rank)  # rank 0's parameters are everybody's start
        loop = Loop(group, model, make(model, graph=graph, lr=LR))
        for number in range(STEPS):
            loop.step(number)
        if unlike(model.state_dict(), expected.models[group.rank]):
            yield f"{name} on {graph.name}: other bits than the trainer's"
        if loop.opt.bytes_sent != expected.bytes_sent[group.rank]:
            yield f"{name} on {graph.name}: other bytes than the trainer's"
        if graph.name != random_matchings(4).name and name != "swarm":
            passes = STEPS * CALLS.get(name, 1)
            if loop.calls != passes:
                yield f"{name}: {loop.calls} calls of the closure; expected {passes}"
    yield from scheduler(group)
    yield from parameter_groups(group)
    yield from continuing(group)
    yield from traces(group)
    yield from loaders(group)
    yield from frozen(group)


def scheduler(group: Group) -> Iterator[str]:
    model = network()
    loop = Loop(group, model, optim.CGA(model, graph=ring(4), lr=LR))
    halving = torch.optim.lr_scheduler.StepLR(loop.opt, step_size=2, gamma=0.5)
    for number in range(STEPS):
        loop.step(number)
        halving.step()
    expected = trained(algorithms.CGA(), ring(4), lambda epoch, done: LR * 0.5 ** (round(done * STEPS) // 2))
    if differ(model, expected.agent_model(group.rank)):
        yield "StepLR: other bits than the trainer's with the same step sizes"


def parameter_groups(group: Group) -> Iterator[str]:
    """A step size for the first layers of 0.1 and for the last of 0.001, as in a first step of plain DPSGD."""
    model = network()
    groups = [{"params": model[:-1].parameters(), "lr": 0.1}, {"params": model[-1].parameters()}]
    opt = optim.Decentralised(model, algorithms.DPSGD(), graph=ring(4), lr=0.001, params=groups)
    before = [p.detach().clone() for p in model.parameters()]
    Loop(group, model, opt).step(0)
    plain = network()
    Loop(group, plain, optim.DPSGD(plain, graph=ring(4), lr=0.1)).step(0)
    for number, (p, old, other) in enumerate(zip(model.parameters(), before, plain.parameters(), strict=True)):
        share = 1.0 if number < 4 else 0.01
        if not torch.allclose(p - old, share * (other - old), rtol=1e-9, atol=1e-15):
            yield f"parameter {number} took a step of another size than its group's"


def continuing(group: Group) -> Iterator[str]:
    for make in (optim.CompCGA, optim.EDM, optim.SGP, optim.QGDSGDm, optim.RelaySGD, optim.CHOCO, compressed_edm):
        model, graph = network(), chain(4) if make.__name__ == "RelaySGD" else ring(4)
        loop = Loop(group, model, make(model, graph=graph, lr=LR))
        for number in range(2):
            loop.step(number)
        saved = copy.deepcopy((model.state_dict(), loop.opt.state_dict()))
        for number in range(2, STEPS):
            loop.step(number)
        again = network(seed=5)
        later = Loop(group, again, make(again, graph=graph, lr=0.5))
        again.load_state_dict(saved[0])
        later.opt.load_state_dict(saved[1])
        for number in range(2, STEPS):
            later.step(number)
        if differ(again, model):
            yield f"{make.__name__}: other bits after load_state_dict"


def traces(group: Group) -> Iterator[str]:
    """Cross passes change neither buffers nor what is drawn after the step: both are as after the own pass alone."""
    model = network()
    loop = Loop(group, model, optim.CGA(model, graph=ring(4), lr=LR))
    alone = copy.deepcopy(model)
    own = DATA[group.rank]
    chosen = torch.from_numpy(loop.batches.indices(group.rank, 0))
    torch.manual_seed(key(0, "noise", group.rank, 0))
    alone(own.inputs[chosen])
    drawn = torch.rand(3)
    loop.step(0)
    if not torch.equal(torch.rand(3), drawn):
        yield "cross passes leave a trace in the random numbers"
    if int(model[1].num_batches_tracked) != 1:
        yield "cross passes count as batches of BatchNorm"
    everybody = group.gather(alone[1].running_mean[None])
    expected = trained(algorithms.CGA(), ring(4), steps=1).agent_model(group.rank)[1].running_mean
    near = everybody[[group.rank, (group.rank + 1) % 4, (group.rank - 1) % 4]].mean(dim=0)
    for mean in (expected, near):
        if not torch.allclose(model[1].running_mean, mean, rtol=1e-12):
            yield "the running mean is not the average of the neighbours' own passes"


def loaders(group: Group) -> Iterator[str]:
    loader = [(group.rank, number) for number in range(2 + group.rank)]
    batches = list(group.in_step(loader))
    if len(batches) != 5 or batches != [loader[number % len(loader)] for number in range(5)]:
        yield f"in_step gave {batches}"


def frozen(group: Group) -> Iterator[str]:
    """Layers that are not trained are rank 0's, too."""
    model = network(seed=group.rank)
    model[0].weight.requires_grad_(False)
    model[1].running_mean.fill_(group.rank)
    optim.DPSGD(model, graph=ring(4), lr=LR)
    if not torch.equal(model[0].weight, network()[0].weight):
        yield "a frozen layer is not rank 0's"
    if bool(model[1].running_mean.any()):
        yield "the buffers at the start are not rank 0's"


if __name__ == "__main__":
    with crossgrad.process_group() as group:
        found = list(check(group))
        with open(f"{os.environ['MISMATCHES']}.{group.rank}", "w") as file:
            json.dump(found, file)
